"""What becomes of a function that was traced: a new trace, one that is there already, or a reason."""

import pytest

from jcache.findings import Damage
from jcache.jax_internals.compile_record import Replay
from jcache.layout import ENTRY_SUFFIX, Kind, Root
from jcache.store.ledger import Ledger
from jcache.store.quarantine import Quarantine
from jcache.traces.format import TRACES
from tests.helpers.traces import ELSEWHERE, TRACE, compiled, judged, missed, request, store, stored, traces_of

OTHER = TRACE._replace(results=())
DIFFERENCE = "it returned 1 arrays and returns 0"


def entries(root: Root) -> int:
    """Return how many traces and programs there are."""
    return len([*root.directory(TRACES).glob(f"*{ENTRY_SUFFIX}")])


def test_a_trace_is_stored_with_its_program(native: Root) -> None:
    """Later calls in this world find it under their key, with all that was compiled, and may be served."""
    found = store(traces_of(native))
    assert found.trace == TRACE and found.opened.header.key == request().key
    assert found.artifact("signature") == b"StableHLO of program" and entries(native) == 2
    assert judged(traces_of(native)).may_serve and not judged(traces_of(native), ELSEWHERE).may_serve


def test_what_must_not_be_stored_is_not(native: Root) -> None:
    """The reason is that of tracing, that of compiling, or that nothing was compiled; the first two refuse the call."""
    traces, record = traces_of(native), compiled()
    miss = missed(traces)
    miss.reason = "tracing it changes its key"
    assert traces.keeping.keep(miss, record) == "tracing it changes its key" and miss.is_refused
    record.reason = "it changes references"
    miss = missed(traces)
    assert traces.keeping.keep(miss, record) == "it changes references" and miss.is_refused
    record = compiled()
    record.done = False
    miss = missed(traces)
    assert traces.keeping.keep(miss, record) == "it was not compiled" and not miss.is_refused
    assert entries(native) == 0


def test_an_equal_trace_is_not_stored_again(native: Root) -> None:
    """A start in a new world that traces the same program leaves the entries alone, and the world is served then."""
    traces = traces_of(native)
    before = store(traces).opened.stamp
    miss = missed(traces, ELSEWHERE)
    assert miss.is_compared and traces.keeping.keep(miss, compiled()) is None and miss.is_compared
    assert entries(native) == 2 and stored(traces).opened.stamp == before
    assert judged(traces, ELSEWHERE).may_serve and judged(traces).may_serve


def test_another_program_of_a_new_world_is_stored_beside(native: Root) -> None:
    """Each world finds its own trace, and what is new and what differs is the reason of the miss."""
    traces = traces_of(native)
    store(traces)
    miss = missed(traces, ELSEWHERE, OTHER)
    assert traces.keeping.keep(miss, compiled("another")) is None
    assert not miss.is_compared and miss.why == f"train.py changed: {DIFFERENCE}"
    assert entries(native) == 4
    assert stored(traces).text("signature") == "program" and stored(traces, ELSEWHERE).text("signature") == "another"


@pytest.mark.parametrize("seed", [None, "0"])
def test_two_programs_of_one_world_are_refused(native: Root, monkeypatch: pytest.MonkeyPatch, seed: str | None) -> None:
    """Nothing is served in that world any more; where hash seeds are the same each time, a warning says so at once."""
    traces = traces_of(native)
    store(traces)
    miss = missed(traces, trace=OTHER)
    if seed is None:
        monkeypatch.delenv("PYTHONHASHSEED", raising=False)
        reason = traces.keeping.keep(miss, compiled("another")) or ""
    else:
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        with pytest.warns(UserWarning, match=r"name it by `depends_on=`"):
            reason = traces.keeping.keep(miss, compiled("another")) or ""
    assert reason.startswith(f"two starts of the same program gave different results: {DIFFERENCE}")
    assert reason.endswith("set PYTHONHASHSEED=0") == (seed is None)
    assert judged(traces).refused == reason and judged(traces, ELSEWHERE).refused is None and entries(native) == 2


def test_a_second_program_of_a_trace_is_stored(native: Root) -> None:
    """What the same trace is compiled to for other shardings lies beside the first; callbacks must be as before."""
    traces = traces_of(native)
    miss = missed(traces)
    assert traces.keeping.keep(miss, compiled()) is None
    assert traces.keeping.keep(miss, compiled("sharded", signature="sharded", executable="jit_step-2")) is None
    assert [*stored(traces).executables("sharded", "device")] == ["jit_step-2"] and entries(native) == 3
    calling = compiled("calling", signature="calling")
    calling.callbacks = {"codes": []}
    assert traces.keeping.keep(miss, calling) == "it calls back to the host otherwise than before"


def test_a_stale_trace_gives_way(native: Root) -> None:
    """One that has the same program, and was made from a file that has changed since, is replaced by the new one."""
    traces = traces_of(native)
    miss = missed(traces)
    miss.build.found[f"file {native.path}/data"] = "content 0123"
    assert traces.keeping.keep(miss, compiled()) is None
    again = missed(traces, why="it is stale")
    assert traces.keeping.keep(again, compiled()) is None
    assert stored(traces).artifact("signature") and [each.damage for each in Quarantine(native).records()] == [
        Damage.STALE
    ]


def test_a_served_trace_is_counted_once(native: Root) -> None:
    """What serving it took is in the ledger once, and an executable that had to be compiled is found the next time."""
    traces = traces_of(native)
    trace = store(traces)
    replay = Replay(trace.opened.header.key, trace.executables, trace.artifact, frozenset())
    replay.signature, replay.device_key, replay.compiled = "signature", "gpu", "jit_step-2"
    for seconds in (0.5, None):
        assert traces.keeping.served(trace, replay, seconds) is None
    assert [*stored(traces).executables("signature", "gpu")] == ["jit_step-2"]
    traces.store.flush()
    ledger = Ledger(native.ledger)
    spent = ledger.economics(Kind.TRACES)["step"]
    ledger.close()
    assert (spent.loads, spent.load_seconds) == (1, 0.5)
