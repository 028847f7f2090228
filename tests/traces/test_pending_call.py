"""The call that a thread is tracing or compiling, and what is told and stored of it then."""

import threading
from collections.abc import Iterator

import pytest

from jcache.jax_internals.compile_record import Replay
from jcache.jax_internals.preload import note_of
from jcache.layout import Root
from jcache.runs import observers
from jcache.runs.observers import Line
from jcache.traces import pending_call
from jcache.traces.hints import Hints, LookupCosts
from jcache.traces.pending_call import PendingCall
from jcache.traces.stored_trace import StoredTrace
from tests.helpers.traces import TRACE, compiled, missed, request, store, stored, traces_of


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Line]]:
    """Record this process; return the lines. What is tallied of hits is no verdict of the tests' process."""
    monkeypatch.setattr(pending_call, "lookup_costs", LookupCosts())
    lines: list[Line] = []
    observers.add(lines.append)
    yield lines
    observers.remove(lines.append)


def miss(root: Root) -> PendingCall:
    """Return a call that has been traced and compiled."""
    traces, record = traces_of(root), compiled()
    record.load_context = "here"
    return PendingCall(request().key, traces, 0.5, "rough", miss=missed(traces), compilation=record)


def hit(root: Root, found: StoredTrace) -> PendingCall:
    """Return a call that a trace serves."""
    replay = Replay(request().key, found.executables, found.artifact, frozenset())
    return PendingCall(request().key, traces_of(root), 0.25, "rough", stored=found, replay=replay)


def test_each_thread_has_a_call_of_its_own(native: Root) -> None:
    """What one thread is about to compile is none of another's, until it has begun with something else."""
    call, others = miss(native), [miss(native)]
    pending_call.set_current(call)
    thread = threading.Thread(target=lambda: others.append(pending_call.current()))  # type: ignore[arg-type]
    thread.start()
    thread.join()
    assert pending_call.current() is call and others[1] is None
    pending_call.set_current(None)
    assert pending_call.current() is None


def test_what_was_traced_is_kept(native: Root, heard: list[Line]) -> None:
    """Its trace is stored, which is told with the seconds, and the executable that the next process needs is noted."""
    call = miss(native)
    assert call.keep() is None
    call.say("step", None)
    assert stored(traces_of(native)).trace == TRACE
    assert Hints(native).expected("rough") == note_of("jit_step-1", "here")
    (line,) = [line for line in heard if line["e"] == "trace"]
    assert (line["name"], line["key"], line["outcome"], line["seconds"]) == ("step", request().key, "stored", 0.5)


def test_what_is_not_kept_is_told_with_its_reason(native: Root, heard: list[Line]) -> None:
    """The call is one that was not stored, and no executable is expected of it."""
    call = miss(native)
    assert call.miss is not None
    call.miss.reason = "it has effects"
    assert call.keep() == "it has effects"
    call.say("step", "it has effects")
    assert Hints(native).expected("rough") == ""
    assert [(line["outcome"], line["reason"]) for line in heard] == [("not_stored", "it has effects")]


def test_a_call_that_was_served_is_a_hit(native: Root, heard: list[Line]) -> None:
    """It is told with the seconds of looking it up; where JAX compiles it once more it is not."""
    call = hit(native, store(traces_of(native)))
    heard.clear()
    for seconds in (0.25, None):
        call.seconds = seconds
        assert call.keep() is None
        call.say("step", None)
    assert [(line["outcome"], line["seconds"]) for line in heard] == [("hit", 0.25)]


def test_a_call_that_has_begun_nothing_keeps_nothing(native: Root, heard: list[Line]) -> None:
    """One that neither was traced nor is served has no trace and no line."""
    call = PendingCall(request().key, traces_of(native), 0.5, "rough")
    assert call.keep() is None
    call.say("step", None)
    assert heard == [] and not call.has_called_back


@pytest.mark.parametrize(
    ("callbacks", "loaded", "compiled_", "expected"),
    [
        (None, "jit_step-1", None, False),
        ({"codes": []}, None, None, False),
        ({"codes": []}, "jit_step-1", None, True),
        ({"codes": []}, None, "jit_step-1", True),
    ],
)
def test_a_program_may_have_called_back_once_it_is_there(
    native: Root, callbacks: object, loaded: str | None, compiled_: str | None, expected: bool
) -> None:
    """So one with callbacks whose executable was loaded or compiled must not run a second time."""
    call = hit(native, store(traces_of(native)))
    assert call.stored is not None and call.replay is not None
    call.stored.trace = TRACE._replace(callbacks=callbacks)
    call.replay.loaded, call.replay.compiled = loaded, compiled_
    assert call.has_called_back == expected
