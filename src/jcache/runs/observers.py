"""Send jcache's own events to those who record this process: its monitors, and the recorder of `jcache run`.

`jcache.runs.log` has the fields of each event. No failure of this module or of a listener reaches the program.
"""

import sys
from collections.abc import Callable
from contextlib import suppress
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

from jcache import clock
from jcache.runs.log_messages import PRESENT

if TYPE_CHECKING:
    from jcache.runs.calls import GraphCall, TraceCall

Line = dict[str, Any]
Listener = Callable[[Line], object]

_monitors: Final[list[Listener]] = []


def add(listener: Listener) -> None:
    """Call a function with every line from now on."""
    _monitors.append(listener)


def remove(listener: Listener) -> None:
    """Stop calling a function."""
    with suppress(ValueError):
        _monitors.remove(listener)


def is_recorded() -> bool:
    """Return whether this process is recorded, so that it is worth finding out a reason."""
    return bool(_monitors) or _recorder() is not None


def has_cache_of_run() -> bool:
    """Return whether the recorder of the parent `jcache run` has turned JAX's cache on in this process."""
    return any(getattr(finder, "jcache_turned_on", False) for finder in sys.meta_path)


def tell(event: str, **fields: str | float | None) -> None:
    """Send an event of this thread, with its fields, to all listeners."""
    line = {"e": event, "t": clock.now_ns() / 1e9, "th": get_ident(), **fields}
    for listener in (_recorder(), *_monitors):
        with suppress(Exception):
            if listener is not None:
                listener(line)


def tell_not_stored(key: str, reason: str) -> None:
    """Send the reason why an executable was not stored, while JAX puts it."""
    tell("not_stored", key=key, reason=reason)


def tell_present(key: str) -> None:
    """Send that an executable was not stored since an entry was there, while JAX puts it."""
    tell_not_stored(key, PRESENT)


def tell_damaged(key: str, evidence: str) -> None:
    """Send the damage of an entry, while JAX looks it up."""
    tell("damaged", key=key, reason=evidence)


def tell_absent(key: str) -> None:
    """Send that an executable is not used since another process of the program does not have it."""
    tell("absent", key=key)


def tell_path_key(key: str, instead: str) -> None:
    """Send that JAX looks up an executable under a key that depends on a path, instead of another key."""
    tell("path_key", key=key, instead=instead)


def tell_trace(call: "TraceCall") -> None:
    """Send the outcome of a call of a `jcache.jit` function that JAX traces."""
    tell("trace", **call._asdict())


def tell_compared(name: str, key: str, *, same: bool, why: str = "") -> None:
    """Send that a stored trace was traced again to compare, whether it was the same program, and what is new."""
    tell("compared", name=name, key=key, same=same, why=why)


def tell_graph(call: "GraphCall") -> None:
    """Send the outcome of a call for a graph."""
    tell("graph", **call._asdict())


def tell_fetched(kind: str, size: int, url: str) -> None:
    """Send that an entry of so many bytes has come from a store."""
    tell("fetched", kind=kind, bytes=size, url=url)


def _recorder() -> Listener | None:
    """Return the recorder of the parent `jcache run`, which is one of the finders in ``sys.meta_path``."""
    listeners = (getattr(finder, "jcache_told", None) for finder in sys.meta_path)
    return next((listener for listener in listeners if listener is not None), None)
