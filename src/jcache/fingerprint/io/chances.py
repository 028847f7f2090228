"""Record when a block asks for what differs between processes: the time, the process id, a random value.

The functions are replaced in their modules while a block is open, so that calls deep in a library are recorded, too.
`jcache.fingerprint.chance` finds code that holds such a function under another name.
"""

# ruff: noqa: ANN401 - functions take anything

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from jcache.attribution import Reader, is_installed, package_of, reader
from jcache.fingerprint.chance import is_shared_random
from jcache.patching import Patch

if TYPE_CHECKING:
    from jcache.fingerprint.io.reads import Reads

_ASKED: Final = {
    "time": ("time", "time_ns", "localtime", "gmtime", "ctime", "strftime", "process_time", "thread_time"),
    "os": ("urandom", "getpid", "getppid", "getloadavg", "times"),
    "random": ("_urandom",),  # numpy, too, draws its seeds from it
}
_BYTES: Final = "os.urandom"
_TELLING: Final = frozenset({"absl", "logging", "loguru", "rich", "structlog", "tqdm"})
"""Packages that show the time, but return no time."""
_BETWEEN: Final = frozenset({"random", "secrets", "uuid"})  # modules through which others get random bytes
SHARED: Final = ("random", "numpy.random")  # modules with functions that draw from a generator of the process
HOMES: Final = (*_ASKED, *SHARED, "numpy.random.mtrand")

_SEEDED: Final = "RandomState"
_DRAWS: Final = (_BYTES, "random._urandom")
Replace = Callable[[Callable[..., None]], Callable[[Callable[..., Any]], Callable[..., Any]]]


def patches(recorded_by: Replace) -> Iterator[Patch]:
    """Replace the functions, and yield the patches.

    Args:
        recorded_by: returns a decorator that reports each call of a function to a note.
    """
    for home, names in _ASKED.items():
        module = sys.modules.get(home)
        for name in names:
            if hasattr(module, name):
                yield Patch(module, name, recorded_by(_note(f"{home}.{name}")))
    for home in SHARED:
        module = sys.modules.get(home)
        for name, value in vars(module).copy().items() if module is not None else ():
            if is_shared_random(value):
                yield Patch(module, name, recorded_by(_note(f"{home}.{name}")))


def _note(name: str) -> Callable[..., None]:
    def note(blocks: list[Reads], frame: FrameType, *_arguments: Any, **_named: Any) -> None:
        asking = _asking(frame)
        is_identifier = name == _BYTES and is_installed(asking)  # equinox makes one for each call of its jit
        if package_of(frame) in _TELLING or (name in _DRAWS and _has_seed(asking)):
            return
        if not is_identifier and reader(frame, blocks[-1].frame) is Reader.PROGRAM:
            for block in blocks:
                block.chance.add(f"`{name}`")

    return note


def _asking(frame: FrameType) -> FrameType:
    """Return the frame that asks the standard library for random bytes, or for what is made of them."""
    while package_of(frame) in _BETWEEN and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _has_seed(frame: FrameType) -> bool:
    """Return whether a frame calls `numpy.random.RandomState` with a seed: before it uses the seed, it draws one."""
    if _SEEDED not in frame.f_code.co_names:
        return False
    return any(
        each.offset == frame.f_lasti and each.opname.startswith("CALL") and bool(each.arg)
        for each in dis.get_instructions(frame.f_code)
    )
