"""The bytes of traces and of their programs."""

import json
from typing import Any

import pytest

from jcache.errors import DamagedEntry
from jcache.formats.envelope import EnvelopeHeader, open_envelope, read_header
from jcache.jax_internals.avals import Axes, Place, Result
from jcache.jax_internals.meshes import Mesh
from jcache.layout import Kind, Root, is_key
from jcache.runtime.build_context import producers
from jcache.traces.format import Trace, content_of, has_executable, program_key, seal_entry
from tests.helpers.entries import add, key
from tests.helpers.traces import TRACE

PLACE = Place(Axes(("a", "b"), (2, 1), ("Explicit", "Auto")), ("a", None, ("a", "b")))
TRACES = {
    "plain": TRACE,
    "empty": Trace((), (), [], ()),
    "weak": TRACE._replace(results=(Result((), "key fry", is_weak=True),)),
    "on a mesh": TRACE._replace(
        results=(*TRACE.results, Result((2, 3, 4), "int8", is_weak=False, place=PLACE)),
        mesh=Mesh(("a",), (2,), (1, 0)),
    ),
    "setting": TRACE._replace(
        settings=[
            ["a", 0, None],
            ["m.b", 1, {"tuple": [1.5, {"array": ["<i8", [1], "AQAAAAAAAAA="]}]}],
            ["c", 0, {"items": {"tuple": [{"tuple": ["k", True]}]}}],
        ]
    ),
    "calling": TRACE._replace(targets=("lapack", "größe"), callbacks={"codes": [1]}, effects=("ordered",)),
}


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_is_read_as_it_was_written(name: str) -> None:
    """Shapes, types, placements, meshes, callbacks and effects come back equal, and of the same types."""
    again = Trace.of(memoryview(TRACES[name].payload()))
    assert again == TRACES[name] and again.payload() == TRACES[name].payload()


def test_the_payload_is_canonical_json() -> None:
    """Names are sorted, there are no blanks, and callbacks and effects are there only if there are any."""
    assert TRACE.payload() == (
        b'{"kept":[0,2],"mesh":null,"results":[[[3],"float32",false]],"structure":["*"],"targets":[]}'
    )
    assert json.loads(TRACES["calling"].payload()).keys() >= {"callbacks", "effects"}


def changed(**fields: Any) -> bytes:
    return json.dumps(json.loads(TRACE.payload()) | fields).encode()


@pytest.mark.parametrize(
    "payload",
    [
        b"", b"[]", b"\xff", b"[" * 100_000, b'{"kept":[]}',
        changed(kept=3), changed(kept=[-1]), changed(kept=[True]), changed(kept=["0"]),
        changed(results=[[[3], "float32"]]), changed(results=[[[-3], "float32", False]]),
        changed(results=[[[3], 32, False]]), changed(results=[[[3], "float32", False, [[["a"], [2]], []]]]),
        changed(results=[[[3], "float32", False, [[["a"], ["2"], ["Auto"]], ["a"]]]]),
        changed(settings=[["a", 0]]), changed(settings=[["a", -1, 0]]), changed(settings=[[1, 0, 0]]),
        changed(settings=3),
        changed(settings=[["a", 0, [1]]]), changed(settings=[["a", 0, {"tuple": 3}]]), changed(settings=[["a", 0, {}]]),
        changed(settings=[["a", 0, {"array": ["<i8", [2], "AQAAAAAAAAA="]}]]), changed(settings=[["a", "0", 0]]),
        changed(settings=[["a", 0, {"array": ["O", [1], "AQAAAAAAAAA="]}]]), changed(settings=[["a", 0, {"items": 1}]]),
        changed(settings=[["a", 0, {"items": {"tuple": [{"tuple": ["k"]}]}}]]),
        changed(targets=[3]), changed(effects=[3]), changed(mesh=[["a"], [2]]), changed(mesh=[["a"], [2.0], [0, 1]]),
    ],
)  # fmt: skip
def test_other_payloads_are_damage(payload: bytes) -> None:
    """What follows another grammar is refused by one error, whatever it is."""
    with pytest.raises(DamagedEntry, match="A trace whose payload"):
        Trace.of(memoryview(payload))


def header(created_ns: int = 1) -> EnvelopeHeader:
    sealed = seal_entry(TRACE.payload(), key(1), parts={}, parents=())
    return read_header(sealed)._replace(created_ns=created_ns)


def test_a_program_has_a_key_of_its_trace_and_signature() -> None:
    """Another signature, and another trace of the same key, has another one; each is told to be of StableHLO."""
    keys = {program_key(header(at), of) for at in (1, 2) for of in ("signature", "device")}
    assert len(keys) == 4 and all(is_key(each) and each.startswith("jit_step.stablehlo-") for each in keys)
    assert program_key(header(1), "device") in keys


def test_traces_are_compared_by_result_program_and_signature() -> None:
    """Each of the three changes the digest by which traces of a call are compared."""
    others = [(TRACE._replace(kept=()), "p", "s"), (TRACE, "q", "s"), (TRACE, "p", "t"), (TRACE, "ps", "")]
    assert len({content_of(TRACE, "p", "s"), *(content_of(*other) for other in others)}) == 5
    assert content_of(TRACE, "p", "s") == content_of(TRACE._replace(), "p", "s")


def test_an_entry_says_what_it_was_made_from() -> None:
    """The envelope is that of a trace, under its key, with parts, parents, producers and seconds."""
    sealed = seal_entry(b"payload", key(1), parts={"a": "1"}, parents=("g",), seconds=2.5)
    found, payload = open_envelope(sealed)
    assert bytes(payload) == b"payload" and (found.kind, found.name, found.key) == ("traces", "jit_step", key(1))
    assert (dict(found.key_parts), found.parents, dict(found.producers)) == ({"a": "1"}, ("g",), producers())
    assert found.build_seconds == 2.5 and found.created_ns > 0


def test_executables_are_looked_for_in_the_root(native: Root) -> None:
    """An executable is there if the root has its file."""
    assert not has_executable(native, key(1))
    add(native.directory(Kind.EXECUTABLES), key(1))
    assert has_executable(native, key(1)) and not has_executable(native, key(2))
