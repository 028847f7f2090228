"""What `jcache.jit` says of its calls to whoever records a process, and what comes of that: a value for each call."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

OF_TRACES: Final = "jcache trace"  # how the messages begin
TRACE_CALL: Final = f"{OF_TRACES} %s: %s %s (%s), %g s, %g s spared"
TRACE_COMPARED: Final = f"{OF_TRACES} compared: %s %s is %s"
SAME: Final = "the same"


class TraceCall(NamedTuple):
    """The first call of a `jcache.jit` function for arguments of certain types.

    Attributes:
        name: of the function.
        key: of the trace; None where the call has none.
        outcome: ``hit`` (it was not traced), ``stored`` or ``not_stored`` (looked up and traced), or ``bypassed``: left
            to `jax.jit`.
        reason: why it is none of the better ones.
        seconds: looking it up took, of a hit; else tracing.
        spared_seconds: of a hit: tracing had taken.
    """

    name: str
    key: str | None
    outcome: str
    reason: str | None
    seconds: float
    spared_seconds: float


class TraceCalls:
    """The calls of one process.

    Attributes:
        calls: each of them.
        compared: how many traces that would have been served were traced to compare.
        differing: how many of these gave another program.
    """

    def __init__(self) -> None:
        self.calls: list[TraceCall] = []
        self.compared = 0
        self.differing = 0

    def hear(self, message: str, arguments: Sequence[Any]) -> None:
        """Takes in a message; one of another jcache, which says something else, is passed over."""
        with suppress(IndexError, TypeError, ValueError):
            if message == TRACE_COMPARED:
                differs = arguments[2] != SAME
                self.compared += 1
                self.differing += differs
            elif message == TRACE_CALL:
                outcome, name, key, reason, seconds, spared = arguments
                call = TraceCall(name, key or None, outcome, reason or None, float(seconds), float(spared))
                self.calls.append(call)
