"""The record of a run is made of the lines of its processes."""

import json
from typing import Any

from hypothesis import given, strategies as st

from jcache.layout import Root
from jcache.runs.log import LogReader, Recording
from jcache.runs.record import Argument, record_from
from jcache.runs.records import last_runs, record_of, used_before
from jcache.store.run_records import add_record

CACHE, COMPILE = "/jax/compilation_cache/", "/jax/core/compile/"
START = {"e": "start", "t": 0.0, "pid": 7, "jax": "0.10.2", "jaxlib": "0.10.1", "cache": "used", "directory": "/c"}
FUNCTION = {
    "function": "step",
    "source": "/train.py:3",
    "arguments": [["x", "f32[3]", True, ""], ["y", "f32[]", False, "{'a': 2} ('a',)"]],
    "static": {"n": "3"},
    "constants": ["f32[5]"],
}
KEY_LINES: list[dict[str, Any]] = [
    {
        "e": "process",
        "host": "h",
        "rank": 2,
        "devices": ["1 x cpu"],
        "variables": {"JAX_X": "1"},
        "digests": {"A": "d"},
    },
    {"e": "options", "id": "o", "values": {"jax_enable_x64": "False"}},
    {"e": "value", "part": "XLA flags", "hash": "f", "value": ["--a"]},
    {"e": "value", "part": "XLA flags", "hash": "unused", "value": ["--b"]},
    {"e": "parts", "id": "p", "parts": {"XLA flags": "f"}},
    {"e": "key", "key": "jit_step-1", "computation": "c", "parts": "p", "options": "o", **FUNCTION},
]


def duration(name: str, seconds: float, at: float, prefix: str = COMPILE) -> dict[str, Any]:
    return {"e": "time", "t": at, "th": 1, "name": prefix + name, "s": seconds}


def recording(lines: list[dict[str, Any]]) -> Recording:
    reader = LogReader()
    for line in lines:
        reader.feed({"t": 0.0, "th": 1, **line})
    return reader.end()


def missed(key_lines: list[dict[str, Any]], key: str = "jit_step-1") -> list[dict[str, Any]]:
    """Return the lines of a process that traces, lowers and compiles one program."""
    message = {
        "e": "log",
        "m": "PERSISTENT COMPILATION CACHE MISS for '%s' with key %r",
        "a": ["jit_step", key],
    }
    return [
        START,
        duration("jaxpr_trace_duration", 0.5, 1.0),
        duration("jaxpr_to_mlir_module_duration", 0.25, 2.0),
        *key_lines,
        {"e": "event", "name": CACHE + "compile_requests_use_cache"},
        message,
        {"e": "event", "name": CACHE + "cache_misses"},
        duration("backend_compile_duration", 4.0, 8.0),
    ]


def test_a_program_with_all_that_is_known() -> None:
    """A record has the parts, arguments and seconds of each program, and the values that its parts refer to."""
    record = record_of([recording(missed(KEY_LINES))], run_id="r", command=["a", "--token=b"], started_ns=5)
    assert record is not None and record.command == ("a", "--token=…")
    (process,) = record.processes
    assert (process.pid, process.host, process.rank, process.jax, process.jaxlib) == (7, "h", 2, "0.10.2", "0.10.1")
    assert process.values == {"XLA flags": {"f": "--a"}}
    (program,) = process.programs
    assert (program.key, program.name, program.outcome) == ("jit_step-1", "jit_step", "stored")
    assert program.parts == {"computation": "c", "XLA flags": "f"} and program.static == {"n": "3"}
    assert process.options == ({"jax_enable_x64": "False"},) and program.options == 0
    assert program.arguments == (Argument("x", "f32[3]", True), Argument("y", "f32[]", False, "{'a': 2} ('a',)"))
    seconds = program.trace_seconds, program.lower_seconds, program.compile_seconds, program.retrieve_seconds
    assert seconds == (0.5, 0.25, 4.0, None)


def test_without_lines_about_keys() -> None:
    """A process whose keys were not recorded has its programs with their outcomes; an idle one is left out."""
    record = record_of([recording(missed([])), recording([START])], run_id="r", command=[], started_ns=5)
    assert record is not None and len(record.processes) == 1
    assert record.processes[0].programs[0].parts == {}
    assert record_of([recording([START])], run_id="r", command=[], started_ns=5) is None


def test_what_a_command_used_before(native: Root) -> None:
    """The last run of a command tells the keys that it used, each once; secrets in its words count as left out."""
    for number, command in enumerate((["a", "--token=b"], ["c"], ["a", "--token=d"], ["e"])):
        key_lines = [line | {"key": f"jit_step-{number}"} if line["e"] == "key" else line for line in KEY_LINES]
        made = record_of(
            [recording(missed(key_lines, f"jit_step-{number}"))] * 2, run_id="r", command=command, started_ns=number
        )
        assert made is not None
        add_record(native, f"r{number}", made.to_json(), {})
    assert used_before(native, ["a", "--token=x"]) == ("jit_step-2",)
    assert used_before(native, ["c"]) == ("jit_step-1",) and used_before(native, ["a"]) == ()
    used = {tuple(command): keys for command, keys in last_runs(native).items()}
    assert len(used) == 3 and used["c",] == ("jit_step-1",) and used["e",] == ("jit_step-3",)
    assert [keys for command, keys in used.items() if command[0] == "a"] == [("jit_step-2",)]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@given(st.integers(0, len(KEY_LINES) - 1), st.sampled_from([*FUNCTION, "host", "rank", "values", "parts", "id"]), JSON)
def test_any_value_makes_a_sound_record(number: int, field: str, value: Any) -> None:
    """Whatever a line of a program says, the record that is made of it can be read again."""
    lines = [dict(line) for line in KEY_LINES]
    lines[number][field] = value
    record = record_of([recording(missed(lines))], run_id="r", command=["a"], started_ns=5)
    assert record is not None
    assert record_from(json.loads(json.dumps(record.to_json()))) == record
