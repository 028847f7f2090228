"""Hearing what a thread reads while it is in a block."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from types import FrameType, TracebackType
from typing import Any, Final

from jcache.fingerprint import origins
from jcache.fingerprint.io import audit, digests, memos, open_blocks
from jcache.fingerprint.io.attribution import Reader
from jcache.fingerprint.io.digests import IRREGULAR, MAX_BYTES, MOST_BYTES, TOO_LARGE, Contents, Look, label_of, now
from jcache.frozen import Frozen

MAX_FILES: Final = 1000
MAX_LOOKS: Final = 10_000  # in a block that is not strict
_SYSTEM: Final = ("/proc/", "/dev/", "/sys/")
_SHARED_MEMORY: Final = os.path.join("/dev", "shm", "")  # regular files, but for their place


class Reads:
    """A block of code, and what it reads; each is good for one use.

    Args:
        strict: whether it is a reason not to store that something is written, started or asked over the network.
            Without, directories that are listed count with the names in them, and files that the block itself has
            written do not count.
    """

    def __init__(self, *, strict: bool = True) -> None:
        self.strict = strict
        self.parts: Mapping[str, str] = Frozen()  # what was read and what was there, once the block is left
        self.reason: str | None = None  # why what was built must not be stored, in words that follow its name
        self.is_passing = False  # whether that says nothing about the same code in another process
        self.frame: FrameType | None = None  # that has begun the block
        self.chance: set[str] = set()  # what was asked for that is another thing in each process
        self._place: str | None = None  # the working directory at the beginning
        self._texts: dict[str, str] = {}
        self._files = 0
        self._contents = Contents(MAX_BYTES if strict else MOST_BYTES)
        self._written: set[str] = set()
        self._made: tuple[str, ...] = ()  # directories that the block has made, each with a separator at its end
        self._updated: set[str] = set()  # labels of files that were opened to be read and written
        self._hits: Mapping[Any, int] = {}

    def __enter__(self) -> Reads:
        self.frame = sys._getframe(1)
        self._place = _working_directory()
        with audit.lock:
            self.reason = audit.watch()
            self.is_passing = self.reason is not None
            self._hits = memos.hits()
            open_blocks.enter(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        open_blocks.tell([self], memos.hand_on, (self._hits,))
        with audit.lock:
            open_blocks.leave(self)
            audit.unwatch()
        self.frame, self._hits = None, {}
        for label, text in now(list(self._texts)).items():
            if text != self._texts[label]:
                self._changed(label)
        self.parts = Frozen(sorted(self._texts.items()))

    def _changed(self, label: str) -> None:
        if label in self._updated and self.strict:
            self.refuse(f"wrote the file {digests.path_of(label)!a}")
        elif label in self._updated or (digests.is_look(label) and not self.strict):
            del self._texts[label]  # the block has changed it itself
        else:
            self.is_passing = self.is_passing or self.reason is None
            self.refuse(f"read {label}, which changed meanwhile")

    def refuse(self, reason: str, who: Reader = Reader.PROGRAM) -> None:
        """What was built must not be stored; the first reason counts."""
        if who is Reader.PROGRAM:
            self.reason = self.reason or reason

    def add_file(self, path: str, who: Reader) -> bool:
        """Note that a file was opened for reading, or was to be; return whether it counts, and did not before."""
        whole = os.path.join(os.getcwd(), path)
        path = self._named(path)
        label = label_of(Look.FILE, path)
        if label in self._texts or self.reason is not None or self._is_own(whole) or _is_installed(whole):
            return False
        if path.startswith(_SYSTEM) and not path.startswith(_SHARED_MEMORY):
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

    def opened_for_update(self, path: str, who: Reader) -> None:
        """A file was opened to be read and written; it counts as read unless it turns out to be written."""
        if self.add_file(path, who):
            self._updated.add(label_of(Look.FILE, self._named(path)))

    def adopt(self, label: str) -> None:
        """What stands under this label was read for a result that the block has taken."""
        path = digests.path_of(label)
        if label == label_of(Look.FILE, path):
            self.add_file(path, Reader.PROGRAM)
        elif self.reason is None and not _is_installed(os.path.join(os.getcwd(), path)):
            self._texts.update((each, text) for each, text in now([label]).items() if each not in self._texts)

    def _is_own(self, path: str) -> bool:
        """Whether the block itself has written a file, or made a directory in which it is."""
        if path in self._written:
            return True
        return bool(self._made) and os.path.realpath(path).startswith(self._made)

    def _named(self, path: str) -> str:
        """A path by which a later process finds what is meant, from the directory where it begins."""
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

    def deed(self, what: str, who: Reader) -> None:
        """Something was done that cannot be told again."""
        if self.strict:
            self.refuse(what, who)

    def wrote(self, path: str, who: Reader) -> None:
        self.deed(f"wrote the file {path!a}", who)
        self._written.add(path)

    def made(self, path: str) -> None:
        """A directory is about to be made; what is in it from then on is the block's."""
        if not os.path.lexists(path):
            self._made += (os.path.join(os.path.realpath(path), ""),)

    def moved(self, path: str, to: str) -> None:
        """A file is about to be moved or linked; where what is there would be the block's, its content counts."""
        if self._is_own(os.path.join(os.getcwd(), to)) and os.path.isfile(path):
            self.add_file(path, Reader.PROGRAM)

    def add_variable(self, name: str) -> None:
        if self.reason is None:
            self._texts.setdefault(label_of(Look.VARIABLE, name), digests.variable(name))


def _is_installed(path: str) -> bool:
    """Whether a file is of a distribution, which counts as a whole, or of Python."""
    return bool(origins.of_path(path))


def _working_directory() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it has been removed
        return None
