"""Record what a thread reads while it is in a block."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from types import FrameType, TracebackType
from typing import Any, Final

from jcache import input_files
from jcache.attribution import Reader
from jcache.fingerprint import origins
from jcache.fingerprint.io import audit, digests, memos, open_blocks
from jcache.fingerprint.io.digests import IRREGULAR, MAX_BYTES, MOST_BYTES, TOO_LARGE, Contents, Look, label_of, now
from jcache.frozen import Frozen

MAX_FILES: Final = 1000
MAX_LOOKS: Final = 10_000  # in a block that is not strict
_SYSTEM: Final = ("/proc/", "/dev/", "/sys/")
_LIMITS: Final = "/sys/fs/cgroup/cpu"  # how many CPUs there are: a library asks for it
_FILE: Final = label_of(Look.FILE, "")  # the beginning of the labels of files
_SHARED_MEMORY: Final = os.path.join("/dev", "shm", "")  # its files are regular


class Reads:
    """Block of code whose reads are recorded; each object is good for one block.

    Args:
        strict: whether it is a reason not to store the result if the block writes, starts a process or uses the
            network. If not strict, directories that are listed count with the names in them, and files that the block
            itself has written do not count.
    """

    def __init__(self, *, strict: bool = True) -> None:
        self.strict = strict
        self.parts: Mapping[str, str] = Frozen()  # what was read, by label, once the block is left
        self.reason: str | None = None  # why the result must not be stored, as a verb phrase
        self.is_temporary = False  # whether the reason may not hold in another process
        self.frame: FrameType | None = None  # the one that began the block
        self.chance: set[str] = set()  # what the block asked for that differs between processes
        self.sought: set[str] = set()  # the names of modules that it looked for,
        self.executed: set[str] = set()  # and the absolute paths of files that it executed
        self._search_path: list[str] = []  # of modules, at the beginning
        self._place: str | None = None  # the working directory at the beginning
        self._texts: dict[str, str] = {}
        self._files = 0
        self._contents = Contents(MAX_BYTES if strict else MOST_BYTES)
        self._opened: set[str] = set()  # files that were read by their descriptors
        self._written: set[str] = set()
        self._made: tuple[str, ...] = ()  # directories that the block has made, each with a separator at its end
        self._updated: set[str] = set()  # labels of files that were opened to be read and written
        self._hits: Mapping[Any, int] = {}

    def __enter__(self) -> Reads:
        self.frame = sys._getframe(1)
        self._place = _working_directory()
        self._search_path = sys.path[:]
        with audit.lock:
            self.reason = audit.watch()
            self.is_temporary = self.reason is not None
            self._hits = memos.hits()
            open_blocks.enter(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        open_blocks.report([self], memos.hand_on, (self._hits,))
        with audit.lock:
            open_blocks.leave(self)
            audit.unwatch()
        self.frame, self._hits = None, {}
        for label, text in now(list(self._texts)).items():
            if text != self._texts[label]:
                self._changed(label)
        self.parts = Frozen(sorted(self._texts.items()))
        if not self.strict:
            record_files(self.parts)

    def _changed(self, label: str) -> None:
        if label in self._updated and self.strict:
            self.refuse(f"wrote the file {digests.path_of(label)!a}")
        elif label in self._updated or (digests.is_look(label) and not self.strict):
            del self._texts[label]  # the block itself has changed it
        else:
            self.is_temporary = self.is_temporary or self.reason is None
            self.refuse(f"read {label}, which changed meanwhile")

    def refuse(self, reason: str, who: Reader = Reader.PROGRAM) -> None:
        """Record a reason not to store the result. Only the program's reasons count, and only the first of these."""
        if who is Reader.PROGRAM:
            self.reason = self.reason or reason

    def add_file(self, path: str, who: Reader) -> bool:
        """Record that a file is opened for reading, even in vain; return whether it counts from now on."""
        whole = os.path.join(os.getcwd(), path)
        path = self._named(path)
        label = label_of(Look.FILE, path)
        if label in self._texts or self.reason is not None or self._is_own(whole):
            return False
        if _is_installed(whole) and not origins.is_unrecorded(whole):
            return False
        if path.startswith(_SYSTEM) and not path.startswith((_SHARED_MEMORY, _LIMITS)):
            self.chance.add(path)
            if not self.strict:
                return False
        text = self._contents.of_file(path)
        if self._files >= MAX_FILES:
            self.refuse(f"read more than {MAX_FILES:,} files")
        elif text in (IRREGULAR, TOO_LARGE) or not path.isprintable():
            self.refuse(f"read {path!a}, which is {text}" if path.isprintable() else f"read {path!a}", who)
        else:
            self._files += 1
            self._texts[label] = text
            return True
        return False

    def add_opened(self, path: str, who: Reader) -> None:
        """Record a file that is read by its descriptor, unless the block itself has opened it by a path of its own."""
        if path in self._opened:
            return
        self._opened.add(path)
        known = (digests.path_of(label) for label in self._texts if label.startswith(_FILE))
        if os.path.isfile(path) and path not in map(os.path.realpath, known):
            self.add_file(path, who)

    def add_sought(self, name: str) -> None:
        """Record that a module is looked for, also in directories where a later process does not look by itself."""
        self.sought.add(name)
        for each in sys.path:
            if each not in self._search_path:
                self.add_directory(each)

    def add_executed(self, path: str) -> None:
        """Record that a file is executed which the block has not made itself."""
        if not self._is_own(path):
            self.executed.add(path)

    def opened_for_update(self, path: str, who: Reader) -> None:
        """Record that a file was opened for update; it counts as read unless the block turns out to have written it."""
        if self.add_file(path, who):
            self._updated.add(label_of(Look.FILE, self._named(path)))

    def adopt(self, label: str) -> None:
        """Record a read that was made for a memoized result which the block has taken."""
        path = digests.path_of(label)
        if label == label_of(Look.FILE, path):
            self.add_file(path, Reader.PROGRAM)
        elif self.reason is None and not _is_installed(os.path.join(os.getcwd(), path)):
            self._texts.update((each, text) for each, text in now([label]).items() if each not in self._texts)

    def has(self, label: str, text: str) -> bool:
        """Return whether a read is recorded already, with what was found then."""
        return self._texts.get(label) == text

    def _is_own(self, path: str) -> bool:
        """Return whether the block itself has written a file, or made a directory that contains it."""
        if path in self._written:
            return True
        return bool(self._made) and os.path.realpath(path).startswith(self._made)

    def _named(self, path: str) -> str:
        """Return the path as it is, or an absolute one if the block has changed the working directory."""
        return path if _working_directory() == self._place else os.path.join(os.getcwd(), path)

    def add_directory(self, path: str) -> None:
        whole = os.path.abspath(path)
        path = self._named(path)
        if self.reason is not None or self._is_own(os.path.join(whole, "")) or _is_installed(whole):
            return
        if path.isprintable():
            self._texts.setdefault(label_of(Look.DIRECTORY, path), digests.names_in(path))

    def add_look(self, path: str, look: Look) -> None:
        path, whole = self._named(path), os.path.join(os.getcwd(), path)
        label = label_of(look, path)
        if label in self._texts or self.reason is not None or self._is_own(whole) or _is_installed(whole):
            return
        if not self.strict and path.startswith(_SYSTEM):
            return
        if len(self._texts) - self._files >= (MAX_FILES if self.strict else MAX_LOOKS) or not path.isprintable():
            self.refuse("asked for too many files" if path.isprintable() else f"asked for {path!a}")
        else:
            self._texts[label] = digests.seen(path, look)

    def record_action(self, what: str, who: Reader) -> None:
        """Record an action that a later process cannot compare."""
        if self.strict:
            self.refuse(what, who)

    def wrote(self, path: str, who: Reader) -> None:
        self.record_action(f"wrote the file {path!a}", who)
        self._written.add(path)

    def made(self, path: str) -> None:
        """Record that a directory is about to be made; the files in it are then the block's own."""
        if not os.path.lexists(path):
            self._made += (os.path.join(os.path.realpath(path), ""),)

    def moved(self, path: str, to: str) -> None:
        """Record that a file is about to be moved or linked: its content counts if the new path is the block's own."""
        if self._is_own(os.path.join(os.getcwd(), to)) and os.path.isfile(path):
            self.add_file(path, Reader.PROGRAM)

    def add_variable(self, name: str) -> None:
        if self.reason is None:
            self._texts.setdefault(label_of(Look.VARIABLE, name), digests.variable(name))


def record_files(parts: Iterable[str]) -> None:
    """Record the files that were read for a graph among the inputs of this process, whether it is built or served."""
    for label in parts:
        if label.startswith(_FILE):
            input_files.add(digests.path_of(label))


def _is_installed(path: str) -> bool:
    """Return whether a file is Python's, jcache's or an installed package's: these count as a whole."""
    return bool(origins.of_path(path))


def _working_directory() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it has been removed
        return None
