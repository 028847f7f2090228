"""The call that each thread is tracing or compiling, and the report and storage of its outcome."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from jcache.jax_internals import compile_hook, preload
from jcache.runs import observers
from jcache.runs.calls import HIT, NOT_STORED, STORED, TraceCall
from jcache.runtime import side_effects
from jcache.traces.hints import Hints, lookup_costs

if TYPE_CHECKING:
    from jcache.jax_internals.compile_record import Compilation, Replay
    from jcache.traces.miss import Miss
    from jcache.traces.stored_trace import StoredTrace
    from jcache.traces.trace_store import TraceStore


@dataclass(eq=False)
class PendingCall:
    """A call that JAX is tracing or compiling.

    Attributes:
        key: the key of its trace.
        traces: the traces of the root in use.
        seconds: the time of its look-up for a hit, of tracing for a miss; None if the call is not to be
            reported, since tracing raised or JAX compiles the program once more.
        rough_key: the name of the call in hints.
        miss, compilation: its state and the record of its compilation; None for a hit.
        stored, replay: the stored trace that serves it and the replay; None for a miss.
        note: the note of the executable that it was expected to need.
        cpu_seconds: the CPU time of its look-up.
    """

    key: str
    traces: TraceStore
    seconds: float | None
    rough_key: str
    miss: Miss | None = None
    compilation: Compilation | None = None
    stored: StoredTrace | None = None
    replay: Replay | None = None
    note: str = ""
    cpu_seconds: float = 0.0

    @property
    def has_called_back(self) -> bool:
        """Whether it is a hit whose program may have called functions on the host already."""
        if self.stored is None or self.replay is None or self.stored.trace.callbacks is None:
            return False
        return bool(self.replay.loaded or self.replay.compiled)

    def keep(self) -> str | None:
        """Store the trace of a miss, or count a hit.

        Returns:
            The reason why the trace or its executable is not stored; None if both are.
        """
        if self.miss is not None and self.compilation is not None:
            compilation = self.compilation
            reason = self.traces.keeping.keep(self.miss, compilation)
            if reason is None:
                refuse = partial(self.traces.keeping.refuse, self.key, self.miss.world)
                side_effects.note(self.miss.request.fingerprint.snapshot.changed, refuse)
            self._expect("" if reason else compilation.executable_key, compilation.load_context)
            return reason
        if self.stored is not None and self.replay is not None:
            replay = self.replay
            reason = self.traces.keeping.served(self.stored, replay, self.seconds)
            self._expect(replay.loaded or replay.compiled, replay.load_context)
            return reason
        return None

    def say(self, name: str, reason: str | None) -> None:
        """Report the outcome of a first call to the observers of this process.

        Args:
            name: name of the function.
            reason: the reason why its trace is not stored; None if it is.
        """
        if self.seconds is None:
            return
        if self.stored is not None:
            spared = self.stored.opened.header.build_seconds
            lookup_costs.add(self.traces.store.root, self.rough_key, self.cpu_seconds, spared)
            observers.tell_trace(TraceCall(name, self.key, HIT, None, self.seconds, spared))
        elif self.miss is not None:
            looking, tracing = self.miss.cpu_seconds, self.miss.build.seconds
            lookup_costs.add_traced(self.traces.store.root, self.rough_key, looking, tracing)
            if not (self.miss.is_compared and reason is None):
                outcome = STORED if reason is None else NOT_STORED
                observers.tell_trace(TraceCall(name, self.key, outcome, reason or self.miss.why, self.seconds))

    def _expect(self, executable: str | None, around: str) -> None:
        """Note for later processes which executable the call needs, if that is news."""
        note = preload.note_of(executable, around) if executable and around else ""
        if note and note != self.note and self.seconds is not None:
            Hints(self.traces.store.root).expect(self.rough_key, note)


class _Current(threading.local):
    call: PendingCall | None = None


_current = _Current()


def current() -> PendingCall | None:
    """Return the call that this thread is tracing or compiling; None if there is none."""
    return _current.call


def set_current(call: PendingCall | None, expected: Compilation | Replay | None = None) -> None:
    """Set the call that this thread is tracing or compiling.

    Args:
        call: the call; None if there is none.
        expected: the record of the compilation that comes next, or the replay that takes its place.
    """
    _current.call = call
    compile_hook.expect(expected)
