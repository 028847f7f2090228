"""Who records this process: watches in it, and the recorder of `jcache run`. Each is told what happens, as values.

`jcache.runs.log` knows the fields of each event. What goes wrong in here, or in who is told, reaches no program.
"""

import sys
from collections.abc import Callable
from contextlib import suppress
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

from jcache import clock

if TYPE_CHECKING:
    from jcache.runs.calls import GraphCall, TraceCall

Line = dict[str, Any]
Hear = Callable[[Line], object]

_watches: Final[list[Hear]] = []


def add(hear: Hear) -> None:
    """Tells a function of this process every line from now on."""
    _watches.append(hear)


def remove(hear: Hear) -> None:
    """Tells it no more."""
    with suppress(ValueError):
        _watches.remove(hear)


def is_recorded() -> bool:
    """Whether somebody records this process, so that it is worth finding out a reason."""
    return bool(_watches) or _recorder() is not None


def has_cache_of_run() -> bool:
    """Whether the recorder of the `jcache run` above has turned JAX's cache on in this process."""
    return any(getattr(finder, "jcache_turned_on", False) for finder in sys.meta_path)


def tell(event: str, **fields: str | float | None) -> None:
    """Tells whoever records this process what has happened on this thread."""
    line = {"e": event, "t": clock.now_ns() / 1e9, "th": get_ident(), **fields}
    for hear in (_recorder(), *_watches):
        with suppress(Exception):
            if hear is not None:
                hear(line)


def tell_not_stored(key: str, reason: str) -> None:
    """Why an executable was not stored, right when JAX puts it."""
    tell("not_stored", key=key, reason=reason)


def tell_damaged(key: str, evidence: str) -> None:
    """How an entry is damaged, right when JAX looks it up."""
    tell("damaged", key=key, reason=evidence)


def tell_path_key(key: str) -> None:
    """That an executable is looked up under a key that depends on a path, right when JAX makes its key."""
    tell("path_key", key=key)


def tell_trace(call: "TraceCall") -> None:
    """What became of a call of a `jcache.jit` function that JAX traces."""
    tell("trace", **call._asdict())


def tell_compared(name: str, key: str, *, same: bool) -> None:
    """That a trace was not served but traced to compare, and whether it was the same program."""
    tell("compared", name=name, key=key, same=same)


def tell_graph(call: "GraphCall") -> None:
    """What became of a call that asks for a graph."""
    tell("graph", **call._asdict())


def _recorder() -> Hear | None:
    """The recorder of the `jcache run` above, which lies among the finders of modules."""
    hears = (getattr(finder, "jcache_told", None) for finder in sys.meta_path)
    return next((hear for hear in hears if hear is not None), None)
