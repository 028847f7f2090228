"""Read JAX's log messages about one executable: its key, its outcome and the reason.

`jcache.runs.log` calls this module with each message that the recorder logged. JAX tells keys and reasons in these
messages only.
"""

from collections.abc import Callable
from typing import Any, Final

from jcache.runs.calls import BYPASSED, NOT_STORED, STORED

Line = dict[str, Any]
PRESENT: Final = "an entry with this key was there already"
ABSENT_IN_ANOTHER: Final = "another process of the program does not have it"


class CompileRequest:
    """An executable that is being looked up or compiled.

    Attributes:
        key: key of the executable.
        name: name of the function.
        outcome: the outcome as in `jcache.runs.report`; None as long as it is open.
        reason: the reason of the outcome.
        missed_at: the time of the miss, in seconds since 1970.
        seconds: the time of its retrieval for a hit, of its compilation otherwise.
        saved_seconds: for a hit, the time that JAX says was saved.
        lookup_failure: the reason why the look-up failed; None if it did not.
        directory: the cache directory in which it was looked up.
    """

    key: str | None = None
    name: str | None = None
    outcome: str | None = None
    reason: str | None = None
    missed_at: float | None = None
    seconds: float | None = None
    saved_seconds: float = 0.0
    lookup_failure: str | None = None
    directory: str | None = None

    def settle(self, outcome: str, reason: str | None = None) -> None:
        """Set the outcome, unless it is set: the first message of JAX names the cause, later ones its consequences."""
        if self.outcome is None:
            self.outcome, self.reason = outcome, reason

    def fail(self, reason: str) -> None:
        """Change the outcome to not stored: JAX announced the write, and then it failed."""
        self.outcome, self.reason = NOT_STORED, reason

    def refuse(self, key: str, reason: str) -> None:
        """Change the outcome to not stored, because jcache's cache did not store this key.

        Another key is the copy of an entry that is hit at the moment, which changes nothing. Where an entry is there
        that could not be used, the reason is why it could not.
        """
        if self.outcome == STORED or self.key == key:
            self.fail(self.lookup_failure or reason if reason == PRESENT else reason)


Handler = Callable[[CompileRequest, Line], None]


def handler_of(message: str) -> Handler | None:
    """Return the function that applies a message to a request; None for an unknown message.

    The function raises IndexError, TypeError or ValueError if a future JAX gives the message other arguments.
    """
    return next((act for beginning, act in _HANDLERS.items() if message.startswith(beginning)), None)


def no_key(request: CompileRequest, line: Line) -> None:
    """Apply the message that no key could be made. It may come before JAX announces the request."""
    request.settle(BYPASSED, f"no key could be made: {_argument(line, 0)}")


def _hit(request: CompileRequest, line: Line) -> None:
    request.name, request.key = _argument(line, 0), _argument(line, 1)


def _miss(request: CompileRequest, line: Line) -> None:
    request.name, request.key, request.missed_at = _argument(line, 0), _argument(line, 1), line["t"]


def _no_directory(request: CompileRequest, line: Line) -> None:
    del line
    request.settle(BYPASSED, request.lookup_failure or "there is no usable cache directory")


def _no_runtime(request: CompileRequest, line: Line) -> None:
    request.settle(BYPASSED, f"the runtime {_argument(line, 0)} cannot serialize executables")


def _compiled(request: CompileRequest, line: Line) -> None:
    request.seconds = float(line["a"][2])


def _too_fast(request: CompileRequest, line: Line) -> None:
    _compiled(request, line)
    request.settle(NOT_STORED, f"compiled in less than {line['a'][1]:g} s")


def _too_small(request: CompileRequest, line: Line) -> None:
    request.settle(NOT_STORED, f"smaller than {line['a'][2]:.0f} bytes")


def _not_written(reason: str) -> Handler:
    def act(request: CompileRequest, line: Line) -> None:
        if request.missed_at is not None:
            request.seconds = line["t"] - request.missed_at  # this message of JAX has no seconds
        request.settle(NOT_STORED, reason)

    return act


def _writing(request: CompileRequest, line: Line) -> None:
    if line.get("present"):
        why = "the entry with this key is incomplete" if line.get("incomplete") else PRESENT
        request.settle(NOT_STORED, request.lookup_failure or why)


def _unreadable(request: CompileRequest, line: Line) -> None:
    request.lookup_failure = f"the cache could not be read: {_cause(line)}"


def _write_failed(request: CompileRequest, line: Line) -> None:
    request.fail(f"the write failed: {_cause(line)}")


def _too_large(request: CompileRequest, line: Line) -> None:
    del line
    request.fail("larger than the cache may grow")


def _waiting(request: CompileRequest, line: Line) -> None:
    del line
    request.settle(NOT_STORED, "another process of the job compiles it and shares it")


def _argument(line: Line, index: int) -> str:
    return str(line["a"][index]) if index < len(line["a"]) else ""


def _cause(line: Line) -> str:
    """Return the exception in ``Error reading … for 'name': Type: text: 'path'`` without the path, which varies."""
    return str(line["m"]).partition("': ")[2].partition(": '")[0]


_HANDLERS: Final[dict[str, Handler]] = {
    "Persistent compilation cache hit": _hit,
    "PERSISTENT COMPILATION CACHE MISS": _miss,
    "compile_or_get_cached: unable to generate cache key": no_key,
    "get_executable_and_time: cache is disabled": _no_directory,
    "_get_cache: Unsupported runtime": _no_runtime,
    "'%s' took at least": _compiled,
    "Not writing persistent cache entry for '%s' because it took": _too_fast,
    "Not writing persistent cache entry for '%s' because it uses host": _not_written("it calls back to the host"),
    "Not writing persistent cache entry since process_id": _not_written("only process 0 writes"),
    "Not writing persistent cache entry with key %r since its size": _too_small,
    "Not writing persistent cache entry with key %r since cache": _no_directory,
    "Writing": _writing,
    "Waiting for module": _waiting,
    "Error reading": _unreadable,
    "Error writing": _write_failed,
    "Cache value for key": _too_large,
}
