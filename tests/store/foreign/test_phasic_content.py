"""The content of phasic's graphs and traces: what it must not say, and what is shown of it; nothing is executed."""

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jcache.errors import DamagedEntry
from jcache.findings import Damage
from jcache.layout import Kind
from jcache.store.foreign import pickle_scan
from jcache.store.foreign.phasic import ADAPTER
from jcache.store.foreign.phasic_content import MAX_JSON, fault_of
from jcache.store.store import Store
from tests.helpers.phasic_caches import (
    DATA,
    GRAPH,
    KINDS,
    TRACE,
    make_cache,
    open_cache,
)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return make_cache(tmp_path)


@pytest.fixture
def store(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    return open_cache(cache, monkeypatch)


def data_of(key: str) -> bytes:
    name = ADAPTER.file_name(KINDS[key], key)
    assert name is not None
    return (DATA / name).read_bytes()


def fault(key: str, data: bytes) -> tuple[Damage, str] | None:
    return fault_of(key, data, quick=False)


def test_a_truncated_json_between_its_characters_is_torn() -> None:
    """A JSON file that is cut inside a UTF-8 character is torn, and has no other damage."""
    data = json.dumps({"note": "ääää"}, ensure_ascii=False).encode()
    for length in range(1, len(data)):
        found = fault(GRAPH, data[:length])
        assert found is not None and found[0] is Damage.TORN, length


def graph_with(change: Callable[[dict[str, Any]], None]) -> bytes:
    value = json.loads(data_of(GRAPH))
    change(value)
    return json.dumps(value, indent=2).encode()


def _set(path: str, value: object) -> Callable[[dict[str, Any]], None]:
    *parents, last = path.split(".")

    def change(graph: dict[str, Any]) -> None:
        for name in parents:
            graph = graph[name]
        graph[last] = value

    return change


CLASS = {"__type__": "os.system", "__data__": "touch owned"}


@pytest.mark.parametrize(
    ("change", "damage"),
    [
        (_set("graph_data.states", CLASS), Damage.CODE),
        (_set("graph_data.states.__data__", [[1, 2], [CLASS]]), Damage.CODE),
        (_set("graph_data.note", {"deep": [{"er": CLASS}]}), Damage.CODE),
        (_set("graph_data.states.__type__", "numpy.matrix"), Damage.CODE),
        (_set("graph_data.states.__type__", 7), Damage.CODE),
        (_set("construction_params.theta", CLASS), Damage.CODE),
        (_set("callback_hash", "0" * 32), Damage.NAME),
        (_set("callback_hash", None), Damage.NAME),
        (_set("version", None), Damage.GRAMMAR),
        (_set("graph_data", []), Damage.GRAMMAR),
        (_set("graph_data.n_vertices", 24), Damage.GRAMMAR),
    ],
)
def test_what_a_graph_must_not_say(change: Callable[[dict[str, Any]], None], damage: Damage) -> None:
    """Classes other than arrays, another graph's hash, and content that is no graph are findings."""
    found = fault(GRAPH, graph_with(change))
    assert found is not None and found[0] is damage


def test_what_is_said_of_a_graph_is_short() -> None:
    """The facts of a graph are shown shortened and with escapes."""
    found = fault(GRAPH, graph_with(_set("graph_data.n_vertices", "\x1b[31m" * 50_000)))
    assert found is not None and len(found[1]) < 100 and found[1].isprintable()


def test_what_a_graph_was_called_with_may_be_of_a_users_class() -> None:
    """A user's class in the arguments is no finding: phasic writes its name and never reads it."""
    for name in ("__main__.Rates", "mymodels.Demography"):
        data = graph_with(_set("construction_params.theta", {"__type__": name, "__data__": {"x": 1}}))
        assert fault(GRAPH, data) is None


@pytest.mark.full
@pytest.mark.parametrize(
    "data", [b"[" * 10_000_000, b'{"a":' * 1_000_000, b"1" * 10_000_000, b"[[],[]" + b",[]" * 10**6]
)
def test_hostile_json_ends_soon(data: bytes) -> None:
    """Nesting, long numbers and swarms of lists are no JSON of phasic's, and crash nothing."""
    assert fault(GRAPH, data) is not None
    with pytest.raises(DamagedEntry):
        ADAPTER.facts(Kind.GRAPHS, GRAPH, data)


def test_json_beyond_the_limit_is_looked_at_from_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON beyond the limit is not parsed, but a torn file is still found by its two ends."""
    assert len(data_of(GRAPH)) < MAX_JSON
    monkeypatch.setattr("jcache.store.foreign.phasic_content.MAX_JSON", 1000)
    assert fault(GRAPH, data_of(GRAPH)) is None
    found = fault(GRAPH, data_of(GRAPH)[:-2])
    assert found is not None and found[0] is Damage.TORN
    for old, new in ((b'"ndarray"', b'"os.system"'), (b"__type__", b"\\u005f_type__"), (b'"ndarray"', b'["x"]')):
        found = fault(GRAPH, data_of(GRAPH).replace(old, new, 1))
        assert found is not None and found[0] is Damage.CODE


class Calls:
    """Reduces to a call, as a hostile pickle does."""

    def __init__(self, function: Any, *arguments: object) -> None:
        self.reduced = function, arguments

    def __reduce__(self) -> Any:
        return self.reduced


GLOBAL_BY_A_COMPUTED_NAME = (
    b"\x80\x05\x8c\x02os\x94(\x8c\x06systemt"  # a tuple where a name should be
    b"\x93."
)


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps(Calls(os.system, "touch owned"), protocol=5),
        pickle.dumps(Calls(os.system, "touch owned"), protocol=0),
        pickle.dumps(Calls(os.system, "touch owned"), protocol=2),
        pickle.dumps([Calls(eval, "1"), Calls(exec, "1")], protocol=5),
        pickle.dumps(Calls(print), protocol=4),
        b"\x80\x05\x8c\x09numpy.f2py\x94\x8c\x07compile\x94\x93)R.",
        b"\x80\x05\x8c\x0dnumpy.testing\x94\x8c\x09runstring\x94\x93)R.",
        b"\x80\x05\x8c\x06phasic\x94\x8c\x02os\x94\x93.",
        b"\x80\x05(\x8c\x01xi__builtin__\neval\n.",
        b"\x80\x05(cos\nsystem\nX\x01\x00\x00\x00xo.",
        b"\x80\x05\x82\x01.",
        b"\x80\x05\x83\x01\x00.",
        b"\x80\x05\x84\x01\x00\x00\x00.",
        b"\x80\x05Pid\n.",
        b"\x80\x05\x8c\x02idQ.",
        GLOBAL_BY_A_COMPUTED_NAME,
        b"\x80\x05\x8c\x02os\x94\x8c\x06system\x94Nh\x00h\x01\x93.",
        b"\x80\x05\x97.",
        b"cos\nsystem\n(S'x'\ntR.",
    ],
    ids=range(19),
)
def test_a_hostile_pickle_is_found(data: bytes) -> None:
    """A pickle that reaches beyond phasic's trace and numpy's arrays is a finding, by any opcode."""
    found = fault(TRACE, data)
    assert found is not None and found[0] is Damage.CODE and not Path("owned").exists()


def test_a_pickle_of_another_protocol_is_found() -> None:
    """phasic writes protocol 5; one that Python does not know cannot be loaded."""
    data = bytearray(data_of(TRACE))
    data[1] = 255
    found = fault(TRACE, bytes(data))
    assert found is not None and found[0] is Damage.GRAMMAR


@pytest.mark.full
def test_many_names_take_no_longer_than_as_many_opcodes() -> None:
    """A pickle of nothing but names is read in linear time, and a few of them are shown."""
    data = b"\x80\x05" + b"".join(b"\x8c\x06%06d\x8c\x01a\x93" % number for number in range(100_000)) + b"."
    assert fault(TRACE, data) is not None and len(pickle_scan.read(data).names) == 100_000
    assert len(str(ADAPTER.facts(Kind.TRACES, TRACE, data)["names"])) < 200


def test_a_real_trace_with_a_call_in_it_is_found() -> None:
    """One name among a thousand opcodes is found."""
    data = data_of(TRACE)
    at = data.index(b"\x8c\x08OpType") if b"\x8c\x08OpType" in data else data.index(b"\x8c\x06OpType")
    found = fault(TRACE, data[:at] + data[at:].replace(b"OpType", b"system", 1))
    assert found is not None and found[0] is Damage.CODE and "phasic.trace_elimination.system" in found[1]


def test_what_lies_behind_a_pickle_is_found() -> None:
    """Bytes after a pickle are a finding, since phasic never reads or writes any."""
    found = fault(TRACE, data_of(TRACE) + b"cos\nsystem\n")
    assert found is not None and found[0] is Damage.GRAMMAR


def test_a_pickle_of_something_else_is_found() -> None:
    """Plain data is harmless, and no trace."""
    found = fault(TRACE, pickle.dumps({"a": 1}, protocol=5))
    assert found is not None and found[0] is Damage.GRAMMAR


def test_texts_of_a_file_do_not_reach_the_terminal_raw() -> None:
    """A name with escape sequences is shown by its escapes."""
    name = b"\x1b[2Jx"
    data = b"\x80\x05\x8c\x02os\x94\x8c" + bytes([len(name)]) + name + b"\x94\x93."
    found = fault(TRACE, data)
    assert found is not None and "\x1b" not in found[1] and "\\x1b" in found[1]
