"""Hearing what the thread at hand reads while it is in a block."""

# ruff: noqa: ANN401 - the arguments of audit events are of any type

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from types import FrameType, TracebackType
from typing import Any, Final

from jcache.fingerprint import keep, origins
from jcache.fingerprint.io import events
from jcache.fingerprint.io.attribution import Reader
from jcache.fingerprint.io.digests import (
    IRREGULAR,
    MAX_BYTES,
    MOST_BYTES,
    TOO_LARGE,
    Contents,
    Look,
    directory_label,
    file_label,
    look_label,
    names_in,
    now,
    seen,
    variable,
    variable_label,
)
from jcache.frozen import Frozen
from jcache.patching import Patch

MAX_FILES: Final = 1000
_SYSTEM: Final = ("/proc/", "/dev/", "/sys/")
_PROBE: Final = "jcache.fingerprint.io"
_lock: Final = threading.Lock()
_blocks: Final[dict[int, list[Reads]]] = {}  # by thread, the outermost first
_patches: Final[list[Patch]] = []
_telling: Final[set[int]] = set()  # threads that tell of something
_heard: bool | None = None  # whether the hook is called; None before it is there


Note = Callable[..., None]


class Reads:
    """A block of code, and what it reads; each is good for one use.

    Args:
        strict: whether it is a reason not to store that something is written, started or asked over the network.
            Without, directories that are listed count with the names in them, and files that the block itself has
            written do not count.

    Attributes:
        parts: after the block, what was read, "file PATH" or "environment NAME", and what was there.
        reason: why what was built in it must not be stored, in words that follow its name; None if it may.
        is_passing: whether that reason says nothing about the same code in another process.
        origins: where installed files come from that were read, as `jcache.fingerprint.origins` has it.
        kept: the objects on which cached properties have kept something, and under which names.
    """

    def __init__(self, *, strict: bool = True) -> None:
        self.strict = strict
        self.parts: Mapping[str, str] = Frozen()
        self.reason: str | None = None
        self.is_passing = False
        self.kept: list[tuple[Any, str]] = []
        self.frame: FrameType | None = None  # that has begun the block
        self._place: str | None = None  # the working directory at the beginning
        self._texts: dict[str, str] = {}
        self._contents = Contents(MAX_BYTES if strict else MOST_BYTES)
        self._written: set[str] = set()
        self.origins: set[origins.Origin] = set()

    def __enter__(self) -> Reads:
        self.frame = sys._getframe(1)
        self._place = _working_directory()
        with _lock:
            self.reason = _watch()
            self.is_passing = self.reason is not None
            _blocks.setdefault(threading.get_ident(), []).append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _lock:
            _leave(self)
        self.frame = None
        self.parts = Frozen(sorted(self._texts.items()))
        for label, text in now(self.parts).items():
            if text != self.parts[label]:
                self.is_passing = self.is_passing or self.reason is None
                self.refuse(f"read {label}, which changed meanwhile")

    def refuse(self, reason: str, who: Reader = Reader.PROGRAM) -> None:
        """What was built must not be stored; the first reason counts."""
        if who is Reader.PROGRAM:
            self.reason = self.reason or reason

    def add_file(self, path: str, who: Reader) -> None:
        """A file was opened for reading, or was to be; by a relative path it is another one in each directory."""
        whole = os.path.join(os.getcwd(), path)
        path = self._named(path)
        label = file_label(path)
        if label in self._texts or self.reason is not None or whole in self._written or self._is_installed(whole):
            return
        if not self.strict and path.startswith(_SYSTEM):
            return
        text = self._contents.of_file(path)
        if len(self._texts) >= MAX_FILES:
            self.refuse(f"read more than {MAX_FILES:,} files")
        elif text in (IRREGULAR, TOO_LARGE) or not path.isprintable():
            self.refuse(f"read {path!a}, which is {text}" if path.isprintable() else f"read {path!a}", who)
        else:
            self._texts[label] = text

    def _is_installed(self, path: str) -> bool:
        """Whether a file is of a distribution, which counts as a whole, or of Python."""
        origin = origins.of_path(path)
        if origin:
            self.origins.add(origin)
        return bool(origin)

    def _named(self, path: str) -> str:
        """A path by which a later process finds what is meant, from the directory where it begins."""
        return path if _working_directory() == self._place else os.path.join(os.getcwd(), path)

    def add_directory(self, path: str) -> None:
        """A directory was listed."""
        whole = os.path.abspath(path)
        path = self._named(path)
        if self.reason is None and not self._is_installed(whole) and path.isprintable():
            self._texts.setdefault(directory_label(path), names_in(path))

    def add_look(self, path: str, look: Look) -> None:
        """It was asked what there is at a path."""
        path, whole = self._named(path), os.path.join(os.getcwd(), path)
        label = look_label(path, look)
        if label in self._texts or self.reason is not None or self._is_installed(whole):
            return
        if len(self._texts) >= MAX_FILES or not path.isprintable():
            self.refuse(f"asked for more than {MAX_FILES:,} files" if path.isprintable() else f"asked for {path!a}")
        else:
            self._texts[label] = seen(path, look)

    def deed(self, what: str, who: Reader) -> None:
        """Something was done that cannot be told again."""
        if self.strict:
            self.refuse(what, who)

    def wrote(self, path: str, who: Reader) -> None:
        """A file was opened for writing."""
        self.deed(f"wrote the file {path!a}", who)
        self._written.add(path)

    def add_variable(self, name: str) -> None:
        """An environment variable was asked for."""
        if self.reason is None:
            self._texts.setdefault(variable_label(name), variable(name))


def _watch() -> str | None:
    """Have the blocks hear what is read; returns why that cannot be."""
    global _heard
    if _heard is None:
        _heard = False
        sys.addaudithook(_hook)
        sys.audit(_PROBE)
    if type(os.environ) is not os._Environ:
        return "cannot be watched: `os.environ` is not Python's own"
    if not _patches:
        replaced: list[tuple[Any, str, Note]] = [(os._Environ, "__getitem__", events.variable)]
        replaced += [(os._Environ, name, events.environment) for name in ("__iter__", "__len__", "__repr__")]
        replaced += [(threading.Thread, "start", events.thread)]
        replaced += [(os, name, events.asked_of) for name in ("stat", "access")]
        replaced += [(os, name, events.asked_of_link) for name in ("lstat", "readlink")]
        _patches.extend(Patch(cls, name, _heard_by(note)) for cls, name, note in replaced)
        _patches.append(Patch(cached_property, "__get__", _keeping))
    return None if _heard else "cannot be watched: another audit hook forbids it"


def _leave(block: Reads) -> None:
    me = threading.get_ident()
    _blocks[me].remove(block)
    if not _blocks[me]:
        del _blocks[me]
    if not _blocks:
        while _patches:
            _patches.pop().undo()


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    """Hears every audit event of the process; must be quick where no block is open, and raise nothing."""
    global _heard
    if _blocks and (blocks := _blocks.get(threading.get_ident())):
        if event == "open":
            _tell(blocks, events.opened, arguments)
        elif events.is_deed(event):
            _tell(blocks, events.happened, (event, *arguments))
    elif _heard is False and event == _PROBE:
        _heard = True


def _heard_by(note: Note) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """What is put around a function of Python's, so that its calls are noted."""

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if blocks := _blocks.get(threading.get_ident()):
                _tell(blocks, partial(note, **named) if named else note, arguments, depth=3)
            return original(*arguments, **named)

        return call

    return replace


def _keeping(original: Callable[..., Any]) -> Callable[..., Any]:
    """What a property keeps counts as derived if it reads nothing for it."""

    def get(a_property: Any, instance: Any, owner: Any = None) -> Any:
        if instance is None or threading.get_ident() not in _blocks:
            return original(a_property, instance, owner)
        with Reads() as read:
            value = original(a_property, instance, owner)
        if not read.parts and read.reason is None:
            keep(instance, a_property.attrname, value)
            for block in _blocks.get(threading.get_ident(), ()):
                block.kept.append((instance, a_property.attrname))
        return value

    return get


def _tell(blocks: list[Reads], note: Note, arguments: tuple[Any, ...], depth: int = 2) -> None:
    """Tell the blocks; what goes wrong with that is a reason not to store, and what is read for it is no news."""
    me = threading.get_ident()
    if me in _telling:
        return
    _telling.add(me)
    try:
        note(blocks, sys._getframe(depth), *arguments)
    except Exception as error:  # noqa: BLE001  the program goes on
        for block in blocks:
            block.is_passing = block.is_passing or block.reason is None
            block.refuse(f"could not be watched ({error!r})")
    finally:
        _telling.discard(me)


def _working_directory() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it has been removed
        return None
