"""The call that a thread is tracing, or compiling what came of it, and what becomes of it then."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jcache.jax_internals import compile_hook, preload
from jcache.runs import observers
from jcache.runs.calls import HIT, NOT_STORED, STORED, TraceCall
from jcache.traces.hints import Verdicts, tally

if TYPE_CHECKING:
    from jcache.jax_internals.compile_record import Compilation, Replay
    from jcache.traces.miss import Traced
    from jcache.traces.stored_trace import Kept
    from jcache.traces.trace_store import Shelf


@dataclass(eq=False)
class Call:
    """A call that JAX is tracing, or compiling what came of it; a miss has been traced, a hit was kept."""

    key: str
    shelf: Shelf
    seconds: float | None  # that looking it up took; None where JAX compiles once more what it has traced
    rough: str  # the call, as verdicts have it
    traced: Traced | None = None
    compilation: Compilation | None = None
    kept: Kept | None = None
    replay: Replay | None = None
    note: str = ""  # which executable it was expected to need
    cpu_seconds: float = 0.0  # of looking the trace up

    @property
    def has_called_back(self) -> bool:
        """Whether it is served, and its program has run as far as to call functions on the host, perhaps."""
        if self.kept is None or self.replay is None or self.kept.trace.callbacks is None:
            return False
        return bool(self.replay.loaded or self.replay.compiled)

    def keep(self) -> str | None:
        """Stores what was traced, or tells that it was served; returns why not."""
        if self.traced is not None and self.compilation is not None:
            told = self.compilation
            reason = self.shelf.keeping.keep(self.traced, told)
            self._expect("" if reason else told.executable_key, told.load_context)
            return reason
        if self.kept is not None and self.replay is not None:
            replay = self.replay
            reason = self.shelf.keeping.served(self.kept, replay, self.seconds)
            self._expect(replay.loaded or replay.compiled, replay.load_context)
            return reason
        return None

    def say(self, name: str, reason: str | None) -> None:
        """Tell whoever records this process what became of a first call, and why its trace is not stored."""
        if self.seconds is None:
            return
        if self.kept is not None:
            spared = self.kept.opened.header.build_seconds
            tally.add(self.shelf.store.root, self.rough, self.cpu_seconds, spared)
            observers.tell_trace(TraceCall(name, self.key, HIT, None, self.seconds, spared))
        elif self.traced is not None and not (self.traced.is_compared and reason is None):
            outcome = STORED if reason is None else NOT_STORED
            observers.tell_trace(TraceCall(name, self.key, outcome, reason or self.traced.why, self.seconds))

    def _expect(self, executable: str | None, around: str) -> None:
        note = preload.note_of(executable, around) if executable and around else ""
        if note and note != self.note and self.seconds is not None:
            Verdicts(self.shelf.store.root).expect(self.rough, note)


class _Mine(threading.local):
    call: Call | None = None


_mine = _Mine()


def mine() -> Call | None:
    return _mine.call


def begin(call: Call | None, expected: Compilation | Replay | None = None) -> None:
    """What this thread is about to compile."""
    _mine.call = call
    compile_hook.expect(expected)
