"""Traces that were served, compared with what tracing gives now: in the background, as often as was asked for.

A function is traced and lowered once more, a moment after the call, and its StableHLO compared with the stored one.
Where what the trace is made from has changed meanwhile, nothing can be said.
"""

# ruff: noqa: ANN401 - functions and arguments are anything

from __future__ import annotations

import atexit
import ctypes
import random
import threading
import warnings
from collections.abc import Callable
from enum import StrEnum
from functools import cache
from typing import Any, Final, NamedTuple

from jcache import _stablehlo, _tracing, clock, watching
from jcache.findings import Damage
from jcache.staleness import staleness
from jcache.trace_keys import Asked, Statics, asked
from jcache.trace_shelf import Kept, Shelf

_ONE_IN: Final = 20
_chance: Final = random.Random()  # noqa: S311  of our own: the program's is as the program left it
_DELAY: Final = 5.0  # seconds after the call, which is when a program is busy starting
_ENDING: Final = 30.0  # seconds that the process waits at most for comparisons to end, which is a moment
_running: Final[set[threading.Timer]] = set()


class Check(StrEnum):
    """How many of the traces that are served are compared: one in 20, all, or none."""

    SAMPLE = "sample"
    ALWAYS = "always"
    NEVER = "never"


class Served(NamedTuple):
    """A call that was served.

    Attributes:
        function: the one that the program has decorated.
        lower: lowers a call of it.
        statics: its static arguments.
        args, kwargs: of the call, with the types of arrays in their place.
        shelf, kept: where from, and what.
        signature: of the program that was served.
        text: SHA-256 of the program that was served, as text.
    """

    function: Callable[..., Any]
    lower: Callable[..., Any]
    statics: Statics
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    shelf: Shelf
    kept: Kept
    text: str


def is_due(check: Check) -> bool:
    """Whether a call that was served is to be compared."""
    return check is Check.ALWAYS or (check is Check.SAMPLE and _chance.randrange(_ONE_IN) == 0)


def compare_later(served: Served, check: Check) -> None:
    """Compares in a thread of its own, which ends with the process."""
    timer = threading.Timer(0.0 if check is Check.ALWAYS else _DELAY, _compare_softly, [served])
    timer.daemon, timer.name = True, "jcache compares"
    _end_with_the_process()
    _running.add(timer)
    try:
        timer.start()
    except RuntimeError:  # the interpreter is ending, or there are no threads left
        _running.discard(timer)


def wait_for_checks() -> None:
    """Waits for the comparisons that are under way."""
    for thread in list(_running):
        thread.join()


@cache
def _end_with_the_process() -> None:
    atexit.register(_end_checks)  # called before what JAX has registered, which it has done by now


def _end_checks() -> None:
    """Ends the comparisons: a thread that is within JAX while the interpreter goes takes the process with it."""
    until = clock.monotonic() + _ENDING
    for timer in list(_running):
        timer.cancel()
        while timer.is_alive() and clock.monotonic() < until:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(timer.ident or 0), ctypes.py_object(SystemExit))
            timer.join(0.1)


def compare(served: Served) -> bool | None:
    """Whether tracing gives now what is stored; None where that cannot be told. What differs goes to quarantine.

    Warns:
        UserWarning: it is another program.
    """
    wanted, header = _unchanged(served), served.kept.opened.header
    if wanted is None:
        return None
    lowered = served.lower(*served.args, **served.kwargs).compiler_ir("stablehlo")
    same = _stablehlo.text_digest(lowered) == served.text
    if not same and _unchanged(served) is None:  # something has changed while it was traced
        return None
    watching.say_compared(wanted.fingerprint.name, header.key, same=same)
    if same:
        return True
    evidence = "Tracing it again gives another program."
    served.shelf.store.set_aside_softly(served.kept.opened.finding(Damage.STALE, evidence))
    warnings.warn(
        f"The trace {header.key} was served, and tracing `{wanted.fingerprint.name}` again gives another program: "
        "something that it depends on is not seen by jcache. It is in quarantine now; results since the start of this "
        "process may be those of the old program.",
        UserWarning,
        stacklevel=2,
    )
    return False


def _unchanged(served: Served) -> Asked | None:
    """What the call asks for; None where that is not what it has been served any more."""
    wanted, header = asked(served.function, served.statics, served.args, served.kwargs), served.kept.opened.header
    if wanted.key != header.key or staleness(header, wanted.parts) or _tracing.forbidden():
        return None
    return wanted


def _compare_softly(served: Served) -> None:
    try:
        compare(served)
    except Warning:
        raise
    except Exception:  # noqa: BLE001, S110 - whatever it is, the program goes on
        pass
    finally:
        _running.difference_update([threading.current_thread()])


def specification(leaf: Any) -> Any:
    """What stands for an array when nothing is to be computed with it; anything else stands for itself."""
    import jax

    if not isinstance(leaf, jax.Array):
        return leaf
    make: Any = jax.ShapeDtypeStruct
    sharding = leaf.sharding if getattr(leaf, "_committed", False) else None
    weak = {"weak_type": True} if getattr(leaf, "weak_type", False) else {}  # which jax 0.4 cannot say: a TypeError
    return make(leaf.shape, leaf.dtype, sharding=sharding, **weak)
