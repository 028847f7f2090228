"""Import of entries into a root: written to hidden files, compared with their digests, published in batches.

Whatever ends an import (Ctrl-C, SIGKILL, a torn stream, a full disk), the entries that are published by then are whole,
and nothing else is visible. A second import brings the rest, and completes the ledger's records.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from jcache.configuration.files import for_program
from jcache.errors import JcacheError
from jcache.layout import Kind
from jcache.shipping.archive.manifest import Item, XlaFile
from jcache.shipping.importer.entry_metadata import EntryMetadata
from jcache.shipping.importer.neighbour_import import publish_neighbour
from jcache.shipping.importer.outcome import (
    WRITTEN,
    ImportOutcome,
    ImportResult,
    RefusedMember,
    entry_path,
    outcome_of,
)
from jcache.shipping.importer.staging import (
    ByteSource,
    ContentMismatch,
    FileStager,
    StagedFile,
    StagedMember,
    checked_bytes,
    checked_pieces,
)
from jcache.shipping.importer.write_behind import WriteBehind
from jcache.store import files
from jcache.store.directories import Directories
from jcache.store.ledger import UNVERIFIED
from jcache.store.publishing import Arrival, holder
from jcache.store.store import Store
from jcache.verify.checks import CHECKS_VERSION

if TYPE_CHECKING:
    from jcache.store.foreign import Adapter

_MAX_BATCH: Final = 64  # files that are open while they wait, beside those that are being written
_MAX_BATCH_BYTES: Final = 32 << 20  # entries that are not published yet must come again after a SIGKILL


class _IncomingEntry(NamedTuple):
    """An entry that is being imported."""

    item: Item
    replace: bool
    checks: int | None


class EntryImporter:
    """Writes entries and publishes them in a root.

    Where the environment or the configuration bounds JAX's cache, executables get their sidecars, which a bounded JAX
    needs from the first put on.

    Args:
        store: store of the root, which exists.
        imported: receives the outcome of each entry.
        jaxlib_of: returns the jaxlib that made an entry, where it is known.
    """

    def __init__(self, store: Store, imported: ImportResult, jaxlib_of: Callable[[Item], str | None]) -> None:
        self._store = store
        self._imported = imported
        self._metadata = EntryMetadata(store, jaxlib_of)
        self._open = ExitStack()
        self._is_bounded = for_program(store.root, os.environ)[0].value("max_size") is not None
        self._places = {kind: store.root.directory(kind) for kind in Kind}
        self._directories = self._open.enter_context(Directories(store.root))
        self._place: Path | None = None  # of the entries that are being written
        self._descriptor = -1  # of this place
        self._behind: WriteBehind[_IncomingEntry, StagedFile | None] = WriteBehind()
        self._waiting: list[tuple[_IncomingEntry, StagedFile]] = []  # to be published
        self._waiting_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None or isinstance(error, (JcacheError, KeyboardInterrupt)):  # what has come is whole
                self.publish(failing=error is not None)
        finally:
            self._behind.close()
            for _, staged in [*self._waiting, *self._behind.results()]:
                if isinstance(staged, StagedFile):
                    with suppress(OSError):
                        staged.file.discard()
            self._open.close()

    def add(self, item: Item, content: ByteSource, *, replace: bool = False, checks: int | None = None) -> None:
        """Schedule an entry for writing; publish it with the next batch if it has the size and digest of the manifest.

        Args:
            item: the entry.
            content: bytes of the entry or file.
            replace: whether it replaces an entry that is there.
            checks: the version of the checks that its bytes have passed in full; None for none.

        Raises:
            CannotWrite: as in `Store.receive`.
        """
        root = self._store.root
        self._change_place(item)
        written_ns = self._metadata.past(item.created_ns)
        incoming = _IncomingEntry(item, replace, checks)
        try:
            if root.adapter is not None:
                content = _checked_foreign(root.adapter, item, content)
                incoming = incoming._replace(checks=CHECKS_VERSION)
            self._write(
                incoming, content, FileStager(self._descriptor, written_ns, self._metadata.past(item.recency_ns))
            )
        except ContentMismatch as mismatch:
            return self._imported.refused.append(RefusedMember(item, str(mismatch)))
        self._collect(self._behind.results())
        self._publish_batch()
        return None

    def add_staged(self, member: StagedMember, *, replace: bool = False) -> None:
        """Publish with the next batch an entry that is written already; raise as `add`."""
        self._change_place(member.entry)
        self._waiting.append((_IncomingEntry(member.entry, replace, None), member.staged))
        self._waiting_bytes += member.size
        self._publish_batch()

    def _change_place(self, item: Item) -> None:
        """Publish what waits if the next entry belongs in another directory."""
        place = self._holder(item)
        if place is not self._place:
            self.publish()
            self._place, self._descriptor = place, self._directory(place)

    def _publish_batch(self) -> None:
        if len(self._waiting) >= _MAX_BATCH or self._waiting_bytes >= _MAX_BATCH_BYTES:
            self._publish()

    def _write(self, incoming: _IncomingEntry, content: ByteSource, stager: FileStager) -> None:
        """Schedule the bytes for writing as they come; raise ContentMismatch if size or digest differ."""
        is_last = False
        try:
            for piece, is_last in checked_pieces(content, incoming.item, self._behind.reserve):
                self._behind.add(incoming, piece, stager.finish if is_last else stager.add)
        except BaseException:
            if not is_last:
                self._behind.add(incoming, memoryview(b""), lambda _: stager.discard())
            raise

    def publish(self, *, failing: bool = False) -> None:
        """Publish all entries that were added.

        Args:
            failing: whether an error has ended the import, so that further ones are not reported.

        Raises:
            CannotWrite: as in `Store.receive`.
        """
        try:
            self._collect(self._behind.results(all_=True), failing=failing)
        finally:
            if self._waiting:
                self._publish()
            self._metadata.pin()

    def _collect(
        self, results: list[tuple[_IncomingEntry, StagedFile | OSError | None]], *, failing: bool = False
    ) -> None:
        """Append files that are written to those that wait to be published.

        Raises:
            CannotWrite: one could not be written.
        """
        errors = []
        for incoming, staged in results:
            if isinstance(staged, StagedFile):
                self._waiting.append((incoming, staged))
                self._waiting_bytes += incoming.item.bytes
            elif staged is not None:
                errors.append((incoming, staged))
        if errors and not failing:
            with files.refusal(f"store {errors[0][0].item.key}"):
                raise errors[0][1]

    def _publish(self) -> None:
        """Publish the files that wait; compare them with entries that have come meanwhile, which stay."""
        kind = self._waiting[0][0].item.kind
        arrivals = [(incoming.item, self._arrival(incoming, staged)) for incoming, staged in self._waiting]
        self._waiting, self._waiting_bytes = [], 0
        try:
            self._store.writer.receive(kind, [arrival for _, arrival in arrivals])
        finally:
            for item, arrival in arrivals:
                if arrival.published:
                    outcome = ImportOutcome.REPLACED if arrival.replace else ImportOutcome.NEW
                    self._imported.outcomes[kind, item.key] = outcome
                    self._imported.bytes += item.bytes
                arrival.file.discard()
        self._metadata.pin(item for item, arrival in arrivals if arrival.published)
        for item, arrival in arrivals:
            if not arrival.published:
                outcome = outcome_of(entry_path(self._store.root, item), item)
                outcome = ImportOutcome.DIFFERENT if outcome is ImportOutcome.NEW else outcome
                self._imported.outcomes[kind, item.key] = outcome
                if outcome is ImportOutcome.PRESENT:
                    self.update_present(item)

    def _arrival(self, incoming: _IncomingEntry, staged: StagedFile) -> Arrival:
        item = incoming.item
        checks = UNVERIFIED if incoming.checks is None else incoming.checks
        known = self._metadata.record_of(item, staged.taken_ns, checks)
        sidecar = item.sidecar or (self._is_bounded and item.kind is Kind.EXECUTABLES)
        return Arrival(known, staged.file, self._metadata.past(item.recency_ns), sidecar, incoming.replace)

    def update_present(self, *items: Item) -> None:
        """Update the metadata of entries that are there with equal bytes."""
        self._metadata.update_present(*items)

    def add_neighbour(self, neighbour: XlaFile, content: ByteSource, *, replace: bool = False) -> None:
        """Write a file of XLA's sub-caches, and publish it if it has the size and digest of the manifest.

        Raises:
            CannotWrite: the root is read-only or full, or something else has the name of one of its directories.
        """
        executables = self._directory(self._store.root.directory(Kind.EXECUTABLES))
        now_ns = self._metadata.now_ns
        try:
            outcome = publish_neighbour(neighbour, content, executables, written_ns=now_ns, replace=replace)
        except ContentMismatch as mismatch:
            return self._imported.refused.append(RefusedMember(neighbour, str(mismatch)))
        if outcome in WRITTEN:
            self._imported.bytes += neighbour.bytes
        self._imported.neighbours[neighbour.path] = outcome
        return None

    def _holder(self, item: Item) -> Path:
        if self._store.root.adapter is None:
            return self._places[item.kind]
        return holder(self._store.root, item.kind, item.key)

    def _directory(self, place: Path) -> int:
        with files.refusal(f"store entries in {place}"):
            return self._directories.descriptor(place, make=True)


def _checked_foreign(adapter: Adapter, item: Item, content: ByteSource) -> BytesIO:
    """Return the bytes of another program's entry, checked in full: the sender's digest does not show damage in them.

    Raises:
        ContentMismatch: size or digest differ, or a check fails.
    """
    data = checked_bytes(content, item)
    fault = adapter.fault(item.kind, item.key, data, quick=False)
    if fault is not None:
        raise ContentMismatch(fault.evidence)
    return BytesIO(data)
