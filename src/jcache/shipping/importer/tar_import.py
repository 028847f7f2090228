"""Import of a tar of a JAX directory, or of another program's cache, that has no manifest.

Such a tar has no digests. So every entry is read as a whole and passes all checks of `jcache verify` before it is
written; files that are no entries are passed over. A sidecar in the tar says when its entry was last used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Final

from jcache import __version__
from jcache.errors import BadArchive, DamagedEntry, InvalidValue
from jcache.findings import Damage
from jcache.formats.digest import digest
from jcache.layout import SIDECAR_SUFFIX, STATE_NAME, XLA_NAMES, FileKind as NameOf, Kind, Root, check_key, member
from jcache.shipping.archive import PlainTarMember
from jcache.shipping.archive.manifest import MAX_ENTRIES, Item, Maker, Manifest, XlaFile
from jcache.shipping.archive.members import MANIFEST_NAME, MANIFEST_START, SIGNATURE_NAME
from jcache.shipping.archive.plain_tar import kind_of, quote_name
from jcache.shipping.forecast import provenance
from jcache.shipping.forecast.report import Forecast
from jcache.shipping.importer.entry_import import EntryImporter
from jcache.shipping.importer.outcome import (
    WRITTEN,
    EntryId,
    ImportOutcome,
    ImportResult,
    RefusedMember,
    entry_path,
    outcome_of,
)
from jcache.shipping.importer.preflight import check_room, check_writable
from jcache.store.foreign import entry_at
from jcache.store.sidecar import LATEST_NS, RECENCY_BYTES
from jcache.store.store import Store
from jcache.verify.checks import CHECKS_VERSION
from jcache.verify.faults import fault_of

if TYPE_CHECKING:
    from jcache.store.foreign import Adapter

_MAX_NAMES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TarImportOptions:
    """Options of the import of a tar.

    Attributes:
        replace: whether entries replace others under their keys.
        skip_incompatible: whether to leave out executables that cannot be hit here.
        xla: whether to import XLA's sub-caches, too.
        dry_run: whether to write nothing.
        allow_code: whether to import files that another program executes when it reads them.
    """

    replace: bool = False
    skip_incompatible: bool = False
    xla: bool = False
    dry_run: bool = False
    allow_code: bool = False


@dataclass(slots=True)
class TarImportResult:
    """The result of the import of a tar.

    Attributes:
        imported: the outcome of each entry.
        items: the entries as a manifest would list them.
        makers: the makers of the items, each with its position in a manifest.
        passed_over: number of files that are no entries.
        names: the first of these files.
        repacked: whether one of them is the manifest of an archive that was unpacked and packed again.
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
        """Return a manifest of the tar, without the directory that it was made from."""
        items = tuple(sorted(self.items, key=lambda item: (item.kind, item.key)))
        return Manifest(jcache=__version__, root="", directory="", makers=tuple(self.makers), items=items)

    def pass_over(self, path: str) -> None:
        """Count a file that is no entry, and keep its name if it is one of the first."""
        self.passed_over += 1
        if len(self.names) < _MAX_NAMES:
            self.names.append(path)


def import_tar(
    members: Iterable[PlainTarMember],
    store: Store,
    judge: Callable[[Manifest], Forecast],
    options: TarImportOptions,
    result: TarImportResult,
    *,
    begin: Callable[[], object] = lambda: None,
    progress: Callable[[], None] = lambda: None,
) -> None:
    """Import the entries of a tar into a root, or tell what an import would do.

    Args:
        members: files of the tar.
        store: store of the root, which need not exist yet.
        judge: returns the forecast for executables in the root.
        options: options of the import.
        result: receives the outcome of each file, also if this ends with an error.
        begin: makes the root; called before the first write, if there is one.
        progress: called after each file.

    Raises:
        BadArchive: the tar is torn or malformed, or has too many entries.
        CannotWrite: the root is read-only or full.
        Locked: a lock could not be had in time.
    """
    used_ns: dict[EntryId, int] = {}
    with EntryImporter(store, result.imported, lambda item: None) as importer:
        tar = _TarImporter(store.root, importer, judge, options, result, used_ns, begin)
        for file in members:
            tar.add(file)
            progress()
    for _, key in used_ns.keys() - result.imported.outcomes.keys():
        result.pass_over(f"{key}{SIDECAR_SUFFIX}")
    if not options.dry_run:
        there = WRITTEN | {ImportOutcome.PRESENT}
        for (kind, key), recency_ns in used_ns.items():
            if result.imported.outcomes.get((kind, key)) in there:
                store.touch(kind, [key], recency_ns)


@dataclass(slots=True)
class _TarImporter:
    """Tells entries, sidecars and neighbours of a tar apart; checks each entry before it is written.

    Attributes:
        used_ns: times of use from sidecars, nanoseconds since 1970.
    """

    root: Root
    importer: EntryImporter
    judge: Callable[[Manifest], Forecast]
    options: TarImportOptions
    result: TarImportResult
    used_ns: dict[EntryId, int]
    begin: Callable[[], object]
    has_begun: bool = False
    seen: set[EntryId] = field(default_factory=set)

    def add(self, file: PlainTarMember) -> None:
        """Import one file of the tar, or pass it over."""
        if self.root.adapter is not None:
            self._add_foreign(self.root.adapter, file)
        else:
            self._add_jax(file)

    def _add_jax(self, file: PlainTarMember) -> None:
        what, key = member(file.name)
        parents = file.path.split("/")[:-1]
        kind = kind_of(file.path)
        if STATE_NAME in parents:
            self.result.pass_over(file.path)
        elif what is NameOf.ENTRY and not set(parents) & set(XLA_NAMES):
            self._add_entry(kind, key, file)
        elif what is NameOf.SIDECAR and file.size == RECENCY_BYTES:
            self.used_ns[kind, key] = min(int.from_bytes(file.read_all(), "little"), LATEST_NS)
        elif self.options.xla and (path := _xla_path(file.path)) is not None:
            self._add_neighbour(path, file)
        else:
            self.result.repacked |= file.name == MANIFEST_NAME and file.read(64).startswith(MANIFEST_START)
            self.result.signed |= file.name == SIGNATURE_NAME
            self.result.pass_over(file.path)

    def _add_foreign(self, adapter: Adapter, file: PlainTarMember) -> None:
        known = entry_at(adapter, file.path)
        if known is None or known in self.seen:
            self.result.pass_over(file.path)
        else:
            self.seen.add(known)
            self._add_entry(*known, file)

    def _begin(self) -> None:
        if not self.has_begun:
            self.begin()
            self.has_begun = True

    def _add_entry(self, kind: Kind, key: str, file: PlainTarMember) -> None:
        outcomes = self.result.imported.outcomes
        try:
            check_key(key) if self.root.adapter is None else self.root.file_name(kind, key)
        except InvalidValue:
            return self.result.pass_over(file.path)
        if (kind, key) in outcomes:
            return self.result.pass_over(file.path)
        if len(outcomes) == MAX_ENTRIES:
            raise BadArchive(f"Refused: it has more than {MAX_ENTRIES} entries: {quote_name(file.path)} exceeds this.")
        data = file.read_all()
        item = Item(kind, key, len(data), digest(data), file.modified_ns, file.modified_ns)
        adapter = self.root.adapter
        fault = fault_of(data, kind, key) if adapter is None else adapter.fault(kind, key, data, quick=False)
        is_opaque = fault is not None and fault.damage is Damage.OPAQUE
        if fault is not None and not is_opaque:
            outcomes[kind, key] = ImportOutcome.REFUSED
            self.result.imported.refused.append(RefusedMember(item, fault.evidence))
            return None
        item = self._with_maker(item, data)
        self.result.items.append(item)
        return self._add_sound(item, data, checks=None if is_opaque else CHECKS_VERSION)

    def _add_sound(self, item: Item, data: bytes, *, checks: int | None) -> None:
        """Write a sound entry, or report why it is not written."""
        outcome = self._outcome(item)
        if outcome in WRITTEN and not self.options.dry_run:
            return self._store(item, data, replace=outcome is ImportOutcome.REPLACED, checks=checks)
        if outcome in WRITTEN:
            check_writable(self.root, [item.kind])
        self.result.imported.outcomes[item.kind, item.key] = outcome
        if outcome is ImportOutcome.PRESENT and not self.options.dry_run:
            self.importer.update_present(item)
        return None

    def _store(self, item: Item, data: bytes, *, replace: bool, checks: int | None) -> None:
        """Give an entry to the importer, which reports it once it is published."""
        name = item.kind, item.key
        check_room(self.root, [item], item.key)
        self._begin()
        item = item._replace(sidecar=name in self.used_ns, recency_ns=self.used_ns.get(name, item.recency_ns))
        self.importer.add(item, BytesIO(data), replace=replace, checks=checks)

    def _with_maker(self, item: Item, data: bytes) -> Item:
        """Return the item with the maker and codec that an executable names."""
        if item.kind is Kind.EXECUTABLES:
            with suppress(DamagedEntry):
                found = provenance.provenance_of_bytes(data)
                at = self.result.makers.setdefault(found.maker, len(self.result.makers))
                return item._replace(maker=at, codec=found.codec)
        return item

    def _forecast(self, item: Item) -> Forecast:
        makers = tuple(self.result.makers)
        return self.judge(Manifest(jcache=__version__, root="", directory="", makers=makers, items=(item,)))

    def _outcome(self, item: Item) -> ImportOutcome:
        is_judged = self.options.skip_incompatible and item.kind is Kind.EXECUTABLES
        if is_judged and self._forecast(item).verdicts[item.key].incompatible:
            return ImportOutcome.INCOMPATIBLE
        outcome = outcome_of(entry_path(self.root, item), item, replace=self.options.replace)
        adapter = self.root.adapter
        is_code = adapter is not None and adapter.is_code(item.kind, item.key) and not self.options.allow_code
        return ImportOutcome.CODE if is_code and outcome is not ImportOutcome.PRESENT else outcome

    def _add_neighbour(self, path: str, file: PlainTarMember) -> None:
        neighbours = self.result.imported.neighbours
        data = file.read_all()
        neighbour = XlaFile(path, len(data), digest(data))
        place = self.root.directory(Kind.EXECUTABLES) / path
        outcome = outcome_of(place, neighbour, replace=self.options.replace)
        if self.options.dry_run or outcome not in WRITTEN:
            neighbours[path] = outcome
        else:
            self._begin()
            self.importer.add_neighbour(neighbour, BytesIO(data), replace=outcome is ImportOutcome.REPLACED)


def _xla_path(path: str) -> str | None:
    """Return the path of a file of XLA's sub-caches below the executables' directory; None for another file."""
    parts = path.split("/")
    for at, part in enumerate(parts):
        if part in XLA_NAMES:
            return "/".join(parts[at:])
    return None
