"""Entries from elsewhere on their way into a root: written, compared with their digests, published in batches.

Whatever ends it (Ctrl-C, SIGKILL, a torn stream, a full disk), what is published by then is whole, and nothing else is
seen. The rest comes with a second import, which completes what the ledger is to know, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from jcache import clock
from jcache.admin.census import cap_of
from jcache.errors import CannotWrite, JcacheError, LedgerUnavailable
from jcache.layout import Kind
from jcache.shipping.archive.manifest import Item, Neighbour
from jcache.shipping.importer.outcome import ImportOutcome, ImportResult, RefusedMember, outcome_of
from jcache.shipping.importer.staging import (
    ByteSource,
    ContentMismatch,
    FileStager,
    StagedFile,
    checked_bytes,
    checked_pieces,
    stage_file,
)
from jcache.shipping.importer.write_behind import WriteBehind
from jcache.store import files
from jcache.store.directories import Directories
from jcache.store.ledger import UNVERIFIED, Known
from jcache.store.publishing import Arrival, holder
from jcache.store.store import Store
from jcache.verify.checks import CHECKS_VERSION
from jcache.verify.neighbours import FUTURE_NS

if TYPE_CHECKING:
    from jcache.store.foreign import Adapter

_MAX_BATCH: Final = 64  # files that are open meanwhile, beside those that are being written
_MAX_BATCH_BYTES: Final = 32 << 20  # what is not published yet comes once more after a SIGKILL


class _IncomingEntry(NamedTuple):
    """An entry on its way."""

    item: Item
    replace: bool
    checks: int | None


class EntryImporter:
    """Takes entries into a root.

    Where the environment has JAX bound its cache, executables get their sidecars, which it needs from the first put on.

    Args:
        store: of the root, which is there.
        imported: is told what became of each.
        jaxlib_of: the jaxlib that made an entry, where it is known.
    """

    def __init__(self, store: Store, imported: ImportResult, jaxlib_of: Callable[[Item], str | None]) -> None:
        self._store = store
        self._imported = imported
        self._jaxlib_of = jaxlib_of
        self._now = clock.now_ns()
        self._latest = self._now + FUTURE_NS
        self._open = ExitStack()
        self._bounded = cap_of(os.environ) is not None
        self._places = {kind: store.root.directory(kind) for kind in Kind}
        self._directories = self._open.enter_context(Directories(store.root))
        self._place: Path | None = None  # of what is on its way
        self._behind: WriteBehind[_IncomingEntry, StagedFile | None] = WriteBehind()
        self._waiting: list[tuple[_IncomingEntry, StagedFile]] = []  # to be published
        self._bytes = 0  # of these
        self._pinned: list[Item] = []  # to be pinned, and there already

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None or isinstance(error, (JcacheError, KeyboardInterrupt)):  # what is here is whole
                self.publish(failing=error is not None)
        finally:
            self._behind.close()
            for _, staged in [*self._waiting, *self._behind.results()]:
                if isinstance(staged, StagedFile):
                    with suppress(OSError):
                        staged.file.discard()
            self._open.close()

    # -- entries

    def add(self, item: Item, content: ByteSource, *, replace: bool = False, checks: int | None = None) -> None:
        """Has an entry written, and published with the next batch if it has the digest that it should have.

        Args:
            item: which.
            content: its bytes.
            replace: whether it takes the place of one that is there.
            checks: the version of the checks that its bytes have passed in full.

        Raises:
            CannotWrite: as of `Store.receive`.
        """
        place, root = self._holder(item), self._store.root
        if place != self._place:
            self.publish()
            self._place = place
        directory, written_ns = self._directory(place), self._at_most(item.created_ns)
        taken = _IncomingEntry(item, replace, checks)
        try:
            if root.adapter is not None:
                content, taken = _checked_foreign(root.adapter, item, content), taken._replace(checks=CHECKS_VERSION)
            self._land(taken, content, FileStager(directory, written_ns, self._at_most(item.recency_ns)))
        except ContentMismatch as mismatch:
            return self._imported.refused.append(RefusedMember(item, str(mismatch)))
        self._wait_for(self._behind.results())
        if len(self._waiting) >= _MAX_BATCH or self._bytes >= _MAX_BATCH_BYTES:
            self._publish()
        return None

    def _land(self, taken: _IncomingEntry, content: ByteSource, landing: FileStager) -> None:
        """Has the bytes written as they come; raises Mismatch unless they are those that they should be."""
        is_last = False
        try:
            for piece, is_last in checked_pieces(content, taken.item, self._behind.reserve):
                self._behind.add(taken, piece, partial(landing.add, is_last=is_last))
        except BaseException:
            if not is_last:
                self._behind.add(taken, memoryview(b""), lambda _: landing.discard())
            raise

    def publish(self, *, failing: bool = False) -> None:
        """Publishes all that was taken.

        Args:
            failing: whether there has been an error, so that another one is none to tell of.

        Raises:
            CannotWrite: as of `Store.receive`.
        """
        try:
            self._wait_for(self._behind.results(all_=True), failing=failing)
        finally:
            if self._waiting:
                self._publish()
            self._pin(())

    def _wait_for(
        self, made: list[tuple[_IncomingEntry, StagedFile | OSError | None]], *, failing: bool = False
    ) -> None:
        """Lets files that are written wait to be published.

        Raises:
            CannotWrite: one could not be written.
        """
        errors = []
        for taken, staged in made:
            if isinstance(staged, StagedFile):
                self._waiting.append((taken, staged))
                self._bytes += taken.item.bytes
            elif staged is not None:
                errors.append((taken, staged))
        if errors and not failing:
            with files.refusal(f"store {errors[0][0].item.key}"):
                raise errors[0][1]

    def _publish(self) -> None:
        """Publishes what waits; an entry that has come meanwhile stays, and is compared."""
        kind = self._waiting[0][0].item.kind
        arrivals = [(taken.item, self._arrival(taken, staged)) for taken, staged in self._waiting]
        self._waiting, self._bytes = [], 0
        try:
            self._store.receive(kind, [arrival for _, arrival in arrivals])
        finally:
            for item, arrival in arrivals:
                if arrival.published:
                    self._imported.outcomes[kind, item.key] = (
                        ImportOutcome.REPLACED if arrival.replace else ImportOutcome.NEW
                    )
                    self._imported.bytes += item.bytes
                arrival.file.discard()
        self._pin(item for item, arrival in arrivals if arrival.published)
        for item, arrival in arrivals:
            if not arrival.published:
                outcome = outcome_of(self._path(item), item)
                self._imported.outcomes[kind, item.key] = (
                    ImportOutcome.DIFFERENT if outcome is ImportOutcome.NEW else outcome
                )
                if outcome is ImportOutcome.PRESENT:
                    self.update_present(item)

    def _arrival(self, taken: _IncomingEntry, staged: StagedFile) -> Arrival:
        item = taken.item
        checks = UNVERIFIED if taken.checks is None else taken.checks
        known = self._what_is_known(item, staged.taken_ns, checks)
        sidecar = item.sidecar or (self._bounded and item.kind is Kind.EXECUTABLES)
        return Arrival(known, staged.file, self._at_most(item.recency_ns), sidecar, taken.replace)

    def update_present(self, *items: Item) -> None:
        """Lets entries that are there, and equal, have what is newer or was not known of them."""
        for kind in {item.kind for item in items}:
            keys = [item.key for item in items if item.kind is kind]
            known = self._store.softly(partial(self._store.ledger.known, kind, keys)) or {}
            for item in items:
                if item.kind is kind:
                    self._update_present(item, known.get(item.key) or Known(kind, item.key))

    def _update_present(self, item: Item, mine: Known) -> None:
        path = self._path(item)
        with suppress(FileNotFoundError):
            status = os.lstat(path)
            recency = self._at_most(item.recency_ns)
            if recency > status.st_mtime_ns:
                self._store.touch(item.kind, [item.key], recency)
            theirs = self._what_is_known(item, status.st_ctime_ns)
            news = theirs._replace(
                seconds=None if mine.seconds is not None else theirs.seconds,
                origin=None if mine.origin is not None else item.origin,
                jaxlib=None if mine.jaxlib is not None else theirs.jaxlib,
            )
            if mine.digest == item.digest:
                news = news._replace(digest=None, bytes=None, digest_ns=None)
            if any(value is not None for value in news[2:-2]):
                self._store.learn_all([news])
            self._pinned += [item]

    def _what_is_known(self, item: Item, taken_ns: int, checks: int | None = None) -> Known:
        return Known(
            item.kind,
            item.key,
            item.digest,
            item.bytes,
            item.seconds,
            item.origin or "import",
            jaxlib=self._jaxlib_of(item),
            digest_ns=taken_ns,
            checks=checks,
        )

    def _pin(self, items: Iterable[Item]) -> None:
        """Pins what is pinned where it comes from; what cannot be pinned is told at the end, by those that are not."""
        names = [(item.kind, item.key) for item in (*self._pinned, *items) if item.pinned]
        self._pinned = []
        try:
            if names:
                self._store.pins.add(names)
        except (CannotWrite, LedgerUnavailable) as error:
            self._store.notice(str(error))

    # -- XLA's sub-caches

    def add_neighbour(self, neighbour: Neighbour, content: ByteSource, *, replace: bool = False) -> None:
        """Writes a file of XLA's sub-caches, and publishes it if it has the digest that it should have.

        Raises:
            CannotWrite: the root is read-only or full, or something else has the name of one of its directories.
        """
        *parents, name = neighbour.path.split("/")
        executables = self._directory(self._store.root.directory(Kind.EXECUTABLES))
        with files.refusal(f"store {neighbour.path}"), _open_subdirectory(executables, parents) as directory:
            try:
                file = stage_file(content, neighbour, directory, self._now).file
            except ContentMismatch as mismatch:
                return self._imported.refused.append(RefusedMember(neighbour, str(mismatch)))
            try:
                file.publish(name, replace=replace)
                self._imported.bytes += neighbour.bytes
                outcome = ImportOutcome.REPLACED if replace else ImportOutcome.NEW
            except FileExistsError:
                outcome = ImportOutcome.DIFFERENT
            finally:
                file.discard()
        self._imported.neighbours[neighbour.path] = outcome
        return None

    # -- places

    def _path(self, item: Item) -> str:
        root = self._store.root
        return os.path.join(root.directory(item.kind), root.file_name(item.kind, item.key))

    def _holder(self, item: Item) -> Path:
        if self._store.root.adapter is None:
            return self._places[item.kind]
        return holder(self._store.root, item.kind, item.key)

    def _directory(self, place: Path) -> int:
        with files.refusal(f"store entries in {place}"):
            return self._directories.descriptor(place, make=True)

    def _at_most(self, time_ns: int) -> int:
        """A time that is not from the future, by which an entry would never be evicted."""
        return time_ns if time_ns <= self._latest else self._now


def _checked_foreign(adapter: Adapter, item: Item, content: ByteSource) -> BytesIO:
    """The bytes of another program's entry, in which nothing is wrong: a sender's digest says nothing of that.

    Raises:
        Mismatch: something is.
    """
    data = checked_bytes(content, item)
    fault = adapter.fault(item.kind, item.key, data, quick=False)
    if fault is not None:
        raise ContentMismatch(fault.evidence)
    return BytesIO(data)


@contextmanager
def _open_subdirectory(directory: int, names: list[str]) -> Iterator[int]:
    """The descriptor of a directory below another, made if need be; no symbolic link is followed."""
    current = os.dup(directory)
    try:
        for name in names:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=current)
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            below = os.open(name, flags, dir_fd=current)
            os.close(current)
            current = below
        yield current
    finally:
        os.close(current)
