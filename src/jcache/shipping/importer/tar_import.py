"""A tar of a JAX directory, or of another program's, into a root: what people have today, without a manifest.

Nothing vouches for anything there. So every entry is read as a whole and passes all checks of `jcache verify` before it
is written; what is no entry is passed over. A sidecar of the tar says when its entry was last used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from itertools import chain
from typing import TYPE_CHECKING, Final

from jcache import __version__
from jcache.errors import BadArchive, DamagedEntry, InvalidValue
from jcache.findings import Damage
from jcache.formats.digest import digest
from jcache.layout import SIDECAR_SUFFIX, STATE_NAME, XLA_NAMES, Kind, Member as NameOf, Root, check_key, member
from jcache.shipping.archive import PlainTarMember
from jcache.shipping.archive.manifest import MAX_ENTRIES, Item, Maker, Manifest, Neighbour
from jcache.shipping.archive.members import MANIFEST_NAME, MANIFEST_START, SIGNATURE_NAME
from jcache.shipping.archive.plain_tar import kind_of, quote_name
from jcache.shipping.forecast import provenance
from jcache.shipping.forecast.report import Forecast
from jcache.shipping.importer.archive_import import is_layout_open, layout_by_keys
from jcache.shipping.importer.entry_import import EntryImporter
from jcache.shipping.importer.outcome import WRITTEN, EntryId, ImportOutcome, ImportResult, RefusedMember, outcome_of
from jcache.shipping.importer.preflight import check_room, check_writable
from jcache.store.files import LATEST_NS, RECENCY_BYTES
from jcache.store.foreign import entry_at
from jcache.store.store import Store
from jcache.verify.checks import CHECKS_VERSION, fault_of

if TYPE_CHECKING:
    from jcache.store.foreign import Adapter

_MAX_NAMES: Final = 20
_MAX_HELD_BYTES: Final = 64 << 20  # bytes of members up to the first executable
_HELD_MEMBER_BYTES: Final = 1 << 10  # bytes that keeping one takes besides


@dataclass(frozen=True, slots=True, kw_only=True)
class TarImportOptions:
    """What is wanted of a tar.

    Attributes:
        replace: entries take the place of others under their keys.
        skip_incompatible: what cannot be hit here is left out.
        xla: XLA's sub-caches are taken as well.
        dry_run: nothing is written.
        allow_code: what another program executes when it reads it is taken as well.
    """

    replace: bool = False
    skip_incompatible: bool = False
    xla: bool = False
    dry_run: bool = False
    allow_code: bool = False


@dataclass(slots=True)
class TarImportResult:
    """What a tar held and what became of it.

    Attributes:
        imported: the entries.
        items: what a manifest would say of them.
        makers: by and for what they were made.
        passed_over: how many files were no entries.
        names: the first of these.
        repacked: whether one of these is the manifest of an archive, whose members they were.
        signed: whether one is its signature.
    """

    imported: ImportResult = field(default_factory=ImportResult)
    items: list[Item] = field(default_factory=list)
    makers: dict[Maker, int] = field(default_factory=dict)
    passed_over: int = 0
    names: list[str] = field(default_factory=list)
    repacked: bool = False
    signed: bool = False

    def manifest(self) -> Manifest:
        """What a manifest of the tar would be; where its entries lay is only what they themselves say."""
        items = tuple(sorted(self.items, key=lambda item: (item.kind, item.key)))
        return Manifest(jcache=__version__, root="", directory="", makers=tuple(self.makers), items=items)

    def pass_over(self, path: str) -> None:
        self.passed_over += 1
        if len(self.names) < _MAX_NAMES:
            self.names.append(path)


def layout_by_first_entry(members: Iterator[PlainTarMember], root: Root) -> tuple[Root, Iterator[PlainTarMember]]:
    """The root that will be made in a vacant place, as the first executable of a tar asks for it, and the members anew.

    See `layout_by_keys`; what it takes to know is kept in memory, if it is not too much.

    Raises:
        BadArchive: the tar is torn or malformed.
    """
    held: list[PlainTarMember] = []
    left = _MAX_HELD_BYTES
    for some in members if is_layout_open(root) else ():
        left -= some.size + _HELD_MEMBER_BYTES
        if left < 0:
            return root, chain(held, [some], members)
        data = b"".join(_read_pieces(some))
        held.append(PlainTarMember(some.path, len(data), some.modified_ns, BytesIO(data).readinto))
        if member(some.name)[0] is NameOf.ENTRY and kind_of(some.path) is Kind.EXECUTABLES:
            with suppress(DamagedEntry):
                item = Item(Kind.EXECUTABLES, "", len(data), "", 0, 0, maker=0)
                makers = (provenance.of_bytes(data).maker,)
                root = layout_by_keys(root, Manifest(jcache="", root="", directory="", makers=makers, items=(item,)))
            break
    return root, chain(held, members)


def import_tar(
    members: Iterable[PlainTarMember],
    store: Store,
    judge: Callable[[Manifest], Forecast],
    wishes: TarImportOptions,
    result: TarImportResult,
    *,
    begin: Callable[[], object] = lambda: None,
    progress: Callable[[], None] = lambda: None,
) -> None:
    """Takes the entries of a tar into a root, or says what it would do.

    Args:
        members: files of the tar.
        store: of the root, which need not be there yet.
        judge: tells what will be hit in the root.
        wishes: what is wanted.
        result: is told what became of each, also if this ends with an error.
        begin: makes the root; it is called before something is written, if anything is.
        progress: is called after each file.

    Raises:
        BadArchive: the tar is torn or malformed, or has too many entries.
        CannotWrite: the root is read-only or full.
        Locked: a lock could not be had in time.
    """
    used: dict[EntryId, int] = {}
    with EntryImporter(store, result.imported, lambda item: None) as importer:
        taker = _TarImporter(store.root, importer, judge, wishes, result, used, begin)
        for some in members:
            taker.take(some)
            progress()
    for _, key in used.keys() - result.imported.outcomes.keys():
        result.pass_over(f"{key}{SIDECAR_SUFFIX}")
    if not wishes.dry_run:
        there = WRITTEN | {ImportOutcome.PRESENT}
        for (kind, key), recency_ns in used.items():
            if result.imported.outcomes.get((kind, key)) in there:
                store.touch(kind, [key], recency_ns)


@dataclass(slots=True)
class _TarImporter:
    root: Root
    importer: EntryImporter
    judge: Callable[[Manifest], Forecast]
    wishes: TarImportOptions
    result: TarImportResult
    used: dict[EntryId, int]
    begin: Callable[[], object]
    has_begun: bool = False
    seen: set[EntryId] = field(default_factory=set)

    def take(self, file: PlainTarMember) -> None:
        """Deals with one file of the tar."""
        if self.root.adapter is not None:
            self._take_others(self.root.adapter, file)
        else:
            self._take_jaxs(file)

    def _take_jaxs(self, file: PlainTarMember) -> None:
        what, key = member(file.name)
        parents = file.path.split("/")[:-1]
        kind = kind_of(file.path)
        if STATE_NAME in parents:
            self.result.pass_over(file.path)
        elif what is NameOf.ENTRY and not set(parents) & set(XLA_NAMES):
            self._entry(kind, key, file)
        elif what is NameOf.SIDECAR and file.size == RECENCY_BYTES:
            self.used[kind, key] = min(int.from_bytes(b"".join(_read_pieces(file)), "little"), LATEST_NS)
        elif self.wishes.xla and (path := _xla_path(file.path)) is not None:
            self._neighbour(path, file)
        else:
            self.result.repacked |= file.name == MANIFEST_NAME and file.read(64).startswith(MANIFEST_START)
            self.result.signed |= file.name == SIGNATURE_NAME
            self.result.pass_over(file.path)

    def _take_others(self, adapter: Adapter, file: PlainTarMember) -> None:
        known = entry_at(adapter, file.path)
        if known is None or known in self.seen:
            self.result.pass_over(file.path)
        else:
            self.seen.add(known)
            self._entry(*known, file)

    def _begin(self) -> None:
        if not self.has_begun:
            self.begin()
            self.has_begun = True

    def _entry(self, kind: Kind, key: str, file: PlainTarMember) -> None:
        outcomes = self.result.imported.outcomes
        try:
            check_key(key) if self.root.adapter is None else self.root.file_name(kind, key)
        except InvalidValue:
            return self.result.pass_over(file.path)
        if (kind, key) in outcomes:
            return self.result.pass_over(file.path)
        if len(outcomes) == MAX_ENTRIES:
            raise BadArchive(f"Refused: it has more than {MAX_ENTRIES} entries: {quote_name(file.path)} is one more.")
        data = b"".join(_read_pieces(file))
        item = Item(kind, key, len(data), digest(data), file.modified_ns, file.modified_ns)
        adapter = self.root.adapter
        fault = fault_of(data, kind, key) if adapter is None else adapter.fault(kind, key, data, quick=False)
        opaque = fault is not None and fault.damage is Damage.OPAQUE
        if fault is not None and not opaque:
            outcomes[kind, key] = ImportOutcome.REFUSED
            self.result.imported.refused.append(RefusedMember(item, fault.evidence))
            return None
        item = self._made(item, data)
        self.result.items.append(item)
        outcome = self._fate(item)
        if outcome in WRITTEN and self.wishes.dry_run:
            check_writable(self.root, [kind])
        elif outcome in WRITTEN:
            checks = None if opaque else CHECKS_VERSION
            return self._store(item, data, replace=outcome is ImportOutcome.REPLACED, checks=checks)
        outcomes[kind, key] = outcome
        if outcome is ImportOutcome.PRESENT and not self.wishes.dry_run:
            self.importer.update_present(item)
        return None

    def _store(self, item: Item, data: bytes, *, replace: bool, checks: int | None) -> None:
        """Hands an entry to the importer, which tells of it once it is there."""
        name = item.kind, item.key
        check_room(self.root, [item], item.key)
        self._begin()
        item = item._replace(sidecar=name in self.used, recency_ns=self.used.get(name, item.recency_ns))
        self.importer.add(item, BytesIO(data), replace=replace, checks=checks)

    def _made(self, item: Item, data: bytes) -> Item:
        """The same with what an executable says of its making."""
        if item.kind is Kind.EXECUTABLES:
            with suppress(DamagedEntry):
                found = provenance.of_bytes(data)
                at = self.result.makers.setdefault(found.maker, len(self.result.makers))
                return item._replace(maker=at, codec=found.codec)
        return item

    def _forecast(self, item: Item) -> Forecast:
        makers = tuple(self.result.makers)
        return self.judge(Manifest(jcache=__version__, root="", directory="", makers=makers, items=(item,)))

    def _fate(self, item: Item) -> ImportOutcome:
        directory = self.root.directory(item.kind)
        unwanted = self.wishes.skip_incompatible and item.kind is Kind.EXECUTABLES
        if unwanted and self._forecast(item).verdicts[item.key].incompatible:
            return ImportOutcome.INCOMPATIBLE
        place = os.path.join(directory, self.root.file_name(item.kind, item.key))
        outcome = outcome_of(place, item, replace=self.wishes.replace)
        adapter = self.root.adapter
        is_code = adapter is not None and adapter.is_code(item.kind, item.key) and not self.wishes.allow_code
        return ImportOutcome.CODE if is_code and outcome is not ImportOutcome.PRESENT else outcome

    def _neighbour(self, path: str, file: PlainTarMember) -> None:
        neighbours = self.result.imported.neighbours
        data = b"".join(_read_pieces(file))
        neighbour = Neighbour(path, len(data), digest(data))
        place = self.root.directory(Kind.EXECUTABLES) / path
        outcome = outcome_of(place, neighbour, replace=self.wishes.replace)
        if self.wishes.dry_run or outcome not in WRITTEN:
            neighbours[path] = outcome
        else:
            self._begin()
            self.importer.add_neighbour(neighbour, BytesIO(data), replace=outcome is ImportOutcome.REPLACED)


def _read_pieces(file: PlainTarMember) -> Iterator[bytes]:
    while data := file.read():
        yield data


def _xla_path(path: str) -> str | None:
    """Where a file of XLA's sub-caches lies below the executables; None if it is no such."""
    parts = path.split("/")
    for at, part in enumerate(parts):
        if part in XLA_NAMES:
            return "/".join(parts[at:])
    return None
