"""Record when a block asks for what differs between processes: the time, the process id, a random value.

The functions are replaced in their modules while a block is open, so that calls deep in a library are recorded, too.
`jcache.fingerprint.chance` finds code that holds such a function under another name.
"""

# ruff: noqa: ANN401 - functions take anything

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from jcache.fingerprint.chance import is_shared_random
from jcache.fingerprint.io.attribution import Reader, is_installed, package_of, reader
from jcache.patching import Patch

if TYPE_CHECKING:
    from jcache.fingerprint.io.reads import Reads

_ASKED: Final = {
    "time": ("time", "time_ns", "localtime", "gmtime", "ctime", "strftime", "process_time", "thread_time"),
    "os": ("urandom", "getpid", "getppid", "getloadavg", "times"),
    "random": ("_urandom",),  # numpy, too, draws its seeds from it
}
_BYTES: Final = "os.urandom"
_TELLING: Final = frozenset({"loguru", "rich", "structlog", "tqdm"})  # they show the time, but return no time
SHARED: Final = ("random", "numpy.random")  # modules with functions that draw from a generator of the process
HOMES: Final = (*_ASKED, *SHARED, "numpy.random.mtrand")

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
        is_identifier = name == _BYTES and is_installed(frame)  # equinox makes one for each call of its jit
        if package_of(frame) in _TELLING:
            return
        if not is_identifier and reader(frame, blocks[-1].frame) is Reader.PROGRAM:
            for block in blocks:
                block.chance.add(f"`{name}`")

    return note
