"""Entries from elsewhere on their way into a root: written, compared with their digests, published in batches.

Whatever ends it (Ctrl-C, SIGKILL, a torn stream, a full disk), what is published by then is whole, and nothing else is
seen. The rest comes with a second import, which completes what the ledger is to know, too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from types import TracebackType
from typing import Final, NamedTuple, Self

from jcache import files
from jcache.archive.manifest import Item, Neighbour
from jcache.compression import Codec
from jcache.digests import digest
from jcache.errors import DamagedEntry, JcacheError
from jcache.layout import ENTRY_SUFFIX, Kind
from jcache.ledger import Known
from jcache.receiving import Arrival, opened
from jcache.shipping.fates import WRITTEN, Fate, Imported, Refused, fate_of
from jcache.shipping.staging import PIECE, Held, Incoming, Mismatch, Staged, Staging, check
from jcache.shipping.transcoding import transcode
from jcache.store import Store
from jcache.surroundings import FUTURE_NS

_BATCH: Final = 128  # files that are open meanwhile
_BATCH_BYTES: Final = 64 << 20


class _Waiting(NamedTuple):
    """An entry that is being written."""

    item: Item
    staged: Staged | Future[Staged]
    replace: bool
    checks: int | None

    @property
    def is_done(self) -> bool:
        return isinstance(self.staged, Staged) or self.staged.done()

    def file(self) -> Staged:
        """The file, once it is written.

        Raises:
            OSError: it could not be.
        """
        return self.staged if isinstance(self.staged, Staged) else self.staged.result()


class Intake:
    """Takes entries into a root.

    Args:
        store: of the root, which is there.
        imported: is told what became of each.
        jaxlib_of: the jaxlib that made an entry, where it is known.
    """

    def __init__(self, store: Store, imported: Imported, jaxlib_of: Callable[[Item], str | None]) -> None:
        self._store = store
        self._imported = imported
        self._jaxlib_of = jaxlib_of
        self._now = time.time_ns()
        self._latest = self._now + FUTURE_NS
        self._open = ExitStack()
        self._directories: dict[Kind, int] = {}
        self._known: dict[Kind, dict[str, Known]] = {}
        self._staging = Staging()
        self._waiting: list[_Waiting] = []
        self._waiting_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None or isinstance(error, JcacheError):  # what is here is whole, whatever comes after it
                self.publish()
        finally:
            self._staging.close()
            for waiting in self._waiting:
                with suppress(OSError, CancelledError):
                    waiting.file().file.discard()
            self._open.close()

    # -- entries

    def take(self, item: Item, content: Incoming, *, replace: bool = False, checks: int | None = None) -> None:
        """Writes an entry, and publishes it with the next batch if it has the digest that it should have.

        Args:
            item: which.
            content: its bytes.
            replace: whether it takes the place of one that is there.
            checks: the version of the checks that its bytes have passed in full.

        Raises:
            CannotWrite: as of `Store.receive`.
        """
        if self._waiting and self._waiting[0].item.kind is not item.kind:
            self.publish()
        directory, written_ns = self._directory(item.kind), self._at_most(item.created_ns)
        try:
            with files.refusal(f"store {item.key}"):
                staged = self._staging.stage(directory, content, item, written_ns)
        except Mismatch as mismatch:
            return self._imported.refused.append(Refused(item, str(mismatch)))
        self._waiting.append(_Waiting(item, staged, replace, checks))
        self._waiting_bytes += item.bytes
        if len(self._waiting) >= _BATCH or self._waiting_bytes >= _BATCH_BYTES:
            self.publish(written=True)
        return None

    def take_transcoded(self, item: Item, content: Incoming, codec: Codec, *, replace: bool) -> None:
        """Writes an executable in another codec, unless that is there already.

        Raises:
            CannotWrite: as of `Store.receive`.
        """
        data = b"".join(iter(partial(content.read, PIECE), b""))
        try:
            check(item, len(data), content.digest())
            data = transcode(data, codec)
        except (DamagedEntry, Mismatch) as error:
            return self._imported.refused.append(Refused(item, str(error)))
        item = item._replace(bytes=len(data), digest=digest(data), codec=codec.value)
        fate = fate_of(self._path(item), item, replace=replace)
        if fate in WRITTEN:
            return self.take(item, Held(data, item.digest), replace=fate is Fate.REPLACED)
        self._imported.fates[item.kind, item.key] = fate
        return self.take_over(item) if fate is Fate.PRESENT else None

    def publish(self, *, written: bool = False) -> None:
        """Publishes what waits, or of this what is written; an entry that has come meanwhile stays, and is compared."""
        ready: list[_Waiting] = []
        left: list[_Waiting] = []
        for one in self._waiting:
            (ready if one.is_done or not written else left).append(one)
        if not ready:
            return
        kind = ready[0].item.kind
        arrivals, failure = self._arrived(ready)
        self._waiting, self._waiting_bytes = left, sum(one.item.bytes for one in left)
        try:
            self._store.receive(kind, [arrival for _, arrival in arrivals])
        finally:
            for item, arrival in arrivals:
                if arrival.published:
                    self._imported.fates[kind, item.key] = Fate.REPLACED if arrival.replace else Fate.NEW
                    self._imported.bytes += item.bytes
                arrival.file.discard()
        for item, arrival in arrivals:
            if not arrival.published:
                fate = fate_of(self._path(item), item)
                self._imported.fates[kind, item.key] = Fate.DIFFERENT if fate is Fate.NEW else fate
                if fate is Fate.PRESENT:
                    self.take_over(item)
        if failure is not None:
            with files.refusal(f"store entries in {self._store.root.directory(kind)}"):
                raise failure

    def _arrived(self, ready: list[_Waiting]) -> tuple[list[tuple[Item, Arrival]], OSError | None]:
        """Of what is ready what has been written, and what the first that could not be written has failed with."""
        arrivals: list[tuple[Item, Arrival]] = []
        failure: OSError | None = None
        for one in ready:
            item = one.item
            try:
                file, taken_ns = one.file()
            except OSError as error:
                failure = failure or error
                continue
            known = self._what_is_known(item, taken_ns, one.checks)
            arrivals.append((item, Arrival(known, file, self._at_most(item.recency_ns), item.sidecar, one.replace)))
        return arrivals, failure

    def take_over(self, item: Item) -> None:
        """Lets an entry that is there, and equal, have what is newer or was not known of it."""
        path = self._path(item)
        with suppress(FileNotFoundError):
            status = os.lstat(path)
            recency = self._at_most(item.recency_ns)
            if recency > status.st_mtime_ns:
                self._store.touch(item.kind, [item.key], recency)
            if item.kind not in self._known:
                known = self._store.softly(lambda: self._store.ledger.known(item.kind))
                self._known[item.kind] = known or {}
            mine = self._known[item.kind].get(item.key) or Known(item.kind, item.key)
            theirs = self._what_is_known(item, status.st_ctime_ns)
            news = theirs._replace(
                seconds=None if mine.seconds is not None else theirs.seconds,
                origin=None if mine.origin is not None else item.origin,
                jaxlib=None if mine.jaxlib is not None else theirs.jaxlib,
                pinned_ns=None if mine.pinned_ns is not None else theirs.pinned_ns,
            )
            if mine.digest == item.digest:
                news = news._replace(digest=None, bytes=None, digest_ns=None)
            if any(value is not None for value in news[2:-2]) or news.pinned_ns is not None:
                self._store.learn_all([news])

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
            pinned_ns=self._now if item.pinned else None,
        )

    # -- XLA's sub-caches

    def take_neighbour(self, neighbour: Neighbour, content: Incoming, *, replace: bool = False) -> None:
        """Writes a file of XLA's sub-caches, and publishes it if it has the digest that it should have.

        Raises:
            CannotWrite: the root is read-only or full, or something else has the name of one of its directories.
        """
        *parents, name = neighbour.path.split("/")
        executables = self._directory(Kind.EXECUTABLES)
        with files.refusal(f"store {neighbour.path}"), _descended(executables, parents) as directory:
            try:
                staged = self._staging.stage(directory, content, neighbour, self._now)
                file = (staged if isinstance(staged, Staged) else staged.result()).file
            except Mismatch as mismatch:
                return self._imported.refused.append(Refused(neighbour, str(mismatch)))
            try:
                file.publish(name, replace=replace)
                self._imported.bytes += neighbour.bytes
                fate = Fate.REPLACED if replace else Fate.NEW
            except FileExistsError:
                fate = Fate.DIFFERENT
            finally:
                file.discard()
        self._imported.neighbours[neighbour.path] = fate
        return None

    # -- places

    def _path(self, item: Item) -> str:
        return os.path.join(self._store.root.directory(item.kind), item.key + ENTRY_SUFFIX)

    def _directory(self, kind: Kind) -> int:
        if kind not in self._directories:
            with files.refusal(f"store entries in {self._store.root.directory(kind)}"):
                self._directories[kind] = self._open.enter_context(opened(self._store.root, kind))
        return self._directories[kind]

    def _at_most(self, time_ns: int) -> int:
        """A time that is not from the future, by which an entry would never be evicted."""
        return time_ns if time_ns <= self._latest else self._now


@contextmanager
def _descended(directory: int, names: list[str]) -> Iterator[int]:
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
