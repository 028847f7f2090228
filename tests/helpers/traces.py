"""Traces that tests make without JAX: calls, what was traced and compiled for them, and the roots that have it."""

from typing import Final

from jcache.fingerprint import fingerprint
from jcache.jax_internals.avals import Result
from jcache.jax_internals.compile_record import Compilation
from jcache.layout import Kind, Root
from jcache.runtime.sealed_store import store_of
from jcache.runtime.worlds.judgement import Check, Judgement
from jcache.runtime.worlds.world import World
from jcache.traces.format import Trace
from jcache.traces.keys import TraceRequest
from jcache.traces.miss import Miss
from jcache.traces.stored_trace import StoredTrace
from jcache.traces.trace_store import TraceStore

TRACE: Final = Trace(kept=(0, 2), results=(Result((3,), "float32", is_weak=False),), structure=["*"], targets=())
HERE: Final = World({"source train.py": "1"})
ELSEWHERE: Final = World({"source train.py": "2"})


def step(x: float) -> float:
    return x * 2


def request(*, key: str | None = None) -> TraceRequest:
    """Return what a call of `step` asks for."""
    taken = fingerprint(step, for_trace=True)
    return TraceRequest(taken, key or taken.key, dict(taken.parts), [], [], list)


def traces_of(root: Root, *shared: Root) -> TraceStore:
    return TraceStore(store_of(root, Kind.TRACES, max_bytes=None, lock_timeout=60), shared)


def judged(traces: TraceStore, world: World = HERE, check: Check = Check.FIRST) -> Judgement:
    """Return what is known of the call in a world."""
    return traces.judge(request(), world, check)


def stored(traces: TraceStore, world: World = HERE) -> StoredTrace:
    """Return the trace that is there for the call."""
    found = traces.find(request(), judged(traces, world))
    assert isinstance(found, StoredTrace), found
    return found


def missed(traces: TraceStore, world: World = HERE, trace: Trace = TRACE, *, why: str | None = None) -> Miss:
    """Return the call as it is once its function was traced, to be compared with the trace that is there, if one is."""
    judgement = judged(traces, world)
    found = traces.find(request(), judgement)
    miss = Miss(traces.store, request(), found if isinstance(found, StoredTrace) else None, why, world, judgement)
    miss.run(lambda: None)
    miss.results, miss.structure = trace.results, trace.structure
    return miss


def compiled(
    program: str = "program", *, signature: str = "signature", device: str = "device", executable: str = "jit_step-1"
) -> Compilation:
    """Return the record of a compilation of a program, which takes the arguments of `TRACE`."""
    record = Compilation(done=True)
    record.kept, record.text, record.artifact = TRACE.kept, program, f"StableHLO of {program}".encode()
    record.signature, record.device_key, record.executable_key = signature, device, executable
    record.recipe = "recipe"
    return record


def store(traces: TraceStore, program: str = "program", world: World = HERE) -> StoredTrace:
    """Store a trace for the call, with one program; return it as a later process finds it."""
    reason = traces.keeping.keep(missed(traces, world), compiled(program))
    assert reason is None, reason
    return stored(traces, world)
