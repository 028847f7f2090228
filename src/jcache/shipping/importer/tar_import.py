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
from jcache.shipping.archive import PlainMember
from jcache.shipping.archive.manifest import MAX_ENTRIES, Item, Maker, Manifest, Neighbour
from jcache.shipping.archive.members import MANIFEST_NAME, MANIFEST_START, SIGNATURE_NAME
from jcache.shipping.archive.plain_tar import kind_of, shown
from jcache.shipping.forecast import provenance
from jcache.shipping.forecast.judge import Forecast
from jcache.shipping.importer.archive_import import as_keyed_for, is_undecided
from jcache.shipping.importer.intake import Intake
from jcache.shipping.importer.outcome import WRITTEN, Fate, Imported, Name, Refused, fate_of
from jcache.shipping.importer.preflight import check_room, check_writable
from jcache.store.files import LATEST_NS, RECENCY_BYTES
from jcache.store.foreign import entry_at
from jcache.store.store import Store
from jcache.verify.checks import CHECKS_VERSION
from jcache.verify.faults import fault_of

if TYPE_CHECKING:
    from jcache.store.foreign import Adapter

_NAMES_KEPT: Final = 20
_LOOKED_AT: Final = 64 << 20  # bytes of members up to the first executable
_MEMBER: Final = 1 << 10  # bytes that keeping one takes besides


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
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
class PlainImport:
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

    imported: Imported = field(default_factory=Imported)
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
        if len(self.names) < _NAMES_KEPT:
            self.names.append(path)


def as_first_says(members: Iterator[PlainMember], root: Root) -> tuple[Root, Iterator[PlainMember]]:
    """The root that will be made in a vacant place, as the first executable of a tar asks for it, and the members anew.

    See `as_keyed_for`; what it takes to know is kept in memory, if it is not too much.

    Raises:
        BadArchive: the tar is torn or malformed.
    """
    held: list[PlainMember] = []
    left = _LOOKED_AT
    for some in members if is_undecided(root) else ():
        left -= some.size + _MEMBER
        if left < 0:
            return root, chain(held, [some], members)
        data = b"".join(_pieces(some))
        held.append(PlainMember(some.path, len(data), some.modified_ns, BytesIO(data).readinto))
        if member(some.name)[0] is NameOf.ENTRY and kind_of(some.path) is Kind.EXECUTABLES:
            with suppress(DamagedEntry):
                item = Item(Kind.EXECUTABLES, "", len(data), "", 0, 0, maker=0)
                makers = (provenance.of(data).maker,)
                root = as_keyed_for(root, Manifest(jcache="", root="", directory="", makers=makers, items=(item,)))
            break
    return root, chain(held, members)


def receive_plain(
    members: Iterable[PlainMember],
    store: Store,
    judge: Callable[[Manifest], Forecast],
    wishes: Wishes,
    result: PlainImport,
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
    used: dict[Name, int] = {}
    with Intake(store, result.imported, lambda item: None) as intake:
        taker = _Taker(store.root, intake, judge, wishes, result, used, begin)
        for some in members:
            taker.take(some)
            progress()
    for _, key in used.keys() - result.imported.fates.keys():
        result.pass_over(f"{key}{SIDECAR_SUFFIX}")
    if not wishes.dry_run:
        there = WRITTEN | {Fate.PRESENT}
        for (kind, key), recency_ns in used.items():
            if result.imported.fates.get((kind, key)) in there:
                store.touch(kind, [key], recency_ns)


@dataclass(slots=True)
class _Taker:
    root: Root
    intake: Intake
    judge: Callable[[Manifest], Forecast]
    wishes: Wishes
    result: PlainImport
    used: dict[Name, int]
    begin: Callable[[], object]
    has_begun: bool = False
    seen: set[Name] = field(default_factory=set)

    def take(self, file: PlainMember) -> None:
        """Deals with one file of the tar."""
        if self.root.adapter is not None:
            self._take_others(self.root.adapter, file)
        else:
            self._take_jaxs(file)

    def _take_jaxs(self, file: PlainMember) -> None:
        what, key = member(file.name)
        parents = file.path.split("/")[:-1]
        kind = kind_of(file.path)
        if STATE_NAME in parents:
            self.result.pass_over(file.path)
        elif what is NameOf.ENTRY and not set(parents) & set(XLA_NAMES):
            self._entry(kind, key, file)
        elif what is NameOf.SIDECAR and file.size == RECENCY_BYTES:
            self.used[kind, key] = min(int.from_bytes(b"".join(_pieces(file)), "little"), LATEST_NS)
        elif self.wishes.xla and (path := _xla_path(file.path)) is not None:
            self._neighbour(path, file)
        else:
            self.result.repacked |= file.name == MANIFEST_NAME and file.read(64).startswith(MANIFEST_START)
            self.result.signed |= file.name == SIGNATURE_NAME
            self.result.pass_over(file.path)

    def _take_others(self, adapter: Adapter, file: PlainMember) -> None:
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

    def _entry(self, kind: Kind, key: str, file: PlainMember) -> None:
        fates = self.result.imported.fates
        try:
            check_key(key) if self.root.adapter is None else self.root.file_name(kind, key)
        except InvalidValue:
            return self.result.pass_over(file.path)
        if (kind, key) in fates:
            return self.result.pass_over(file.path)
        if len(fates) == MAX_ENTRIES:
            raise BadArchive(f"Refused: it has more than {MAX_ENTRIES} entries: {shown(file.path)} is one more.")
        data = b"".join(_pieces(file))
        item = Item(kind, key, len(data), digest(data), file.modified_ns, file.modified_ns)
        adapter = self.root.adapter
        fault = fault_of(data, kind, key) if adapter is None else adapter.fault(kind, key, data, quick=False)
        opaque = fault is not None and fault.damage is Damage.OPAQUE
        if fault is not None and not opaque:
            fates[kind, key] = Fate.REFUSED
            self.result.imported.refused.append(Refused(item, fault.evidence))
            return None
        item = self._made(item, data)
        self.result.items.append(item)
        fate = self._fate(item)
        if fate in WRITTEN and self.wishes.dry_run:
            check_writable(self.root, [kind])
        elif fate in WRITTEN:
            checks = None if opaque else CHECKS_VERSION
            return self._store(item, data, replace=fate is Fate.REPLACED, checks=checks)
        fates[kind, key] = fate
        if fate is Fate.PRESENT and not self.wishes.dry_run:
            self.intake.take_over(item)
        return None

    def _store(self, item: Item, data: bytes, *, replace: bool, checks: int | None) -> None:
        """Hands an entry to the intake, which tells of it once it is there."""
        name = item.kind, item.key
        check_room(self.root, [item], item.key)
        self._begin()
        item = item._replace(sidecar=name in self.used, recency_ns=self.used.get(name, item.recency_ns))
        self.intake.take(item, BytesIO(data), replace=replace, checks=checks)

    def _made(self, item: Item, data: bytes) -> Item:
        """The same with what an executable says of its making."""
        if item.kind is Kind.EXECUTABLES:
            with suppress(DamagedEntry):
                found = provenance.of(data)
                at = self.result.makers.setdefault(found.maker, len(self.result.makers))
                return item._replace(maker=at, codec=found.codec)
        return item

    def _forecast(self, item: Item) -> Forecast:
        makers = tuple(self.result.makers)
        return self.judge(Manifest(jcache=__version__, root="", directory="", makers=makers, items=(item,)))

    def _fate(self, item: Item) -> Fate:
        directory = self.root.directory(item.kind)
        unwanted = self.wishes.skip_incompatible and item.kind is Kind.EXECUTABLES
        if unwanted and self._forecast(item).verdicts[item.key].incompatible:
            return Fate.INCOMPATIBLE
        place = os.path.join(directory, self.root.file_name(item.kind, item.key))
        fate = fate_of(place, item, replace=self.wishes.replace)
        adapter = self.root.adapter
        is_code = adapter is not None and adapter.is_code(item.kind, item.key) and not self.wishes.allow_code
        return Fate.CODE if is_code and fate is not Fate.PRESENT else fate

    def _neighbour(self, path: str, file: PlainMember) -> None:
        neighbours = self.result.imported.neighbours
        data = b"".join(_pieces(file))
        neighbour = Neighbour(path, len(data), digest(data))
        place = self.root.directory(Kind.EXECUTABLES) / path
        fate = fate_of(place, neighbour, replace=self.wishes.replace)
        if self.wishes.dry_run or fate not in WRITTEN:
            neighbours[path] = fate
        else:
            self._begin()
            self.intake.take_neighbour(neighbour, BytesIO(data), replace=fate is Fate.REPLACED)


def _pieces(file: PlainMember) -> Iterator[bytes]:
    while data := file.read():
        yield data


def _xla_path(path: str) -> str | None:
    """Where a file of XLA's sub-caches lies below the executables; None if it is no such."""
    parts = path.split("/")
    for at, part in enumerate(parts):
        if part in XLA_NAMES:
            return "/".join(parts[at:])
    return None
