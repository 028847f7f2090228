"""What the graphs and traces in phasic's cache say, read without executing any of it.

Graphs are JSON, arrays in them ``{"__type__": "ndarray", "__data__": …}``; phasic imports the module of any other
``__type__`` in ``graph_data`` and calls it. Traces are pickles of protocol 5, before 0.22 JSON. Neither has a checksum,
and the version that phasic stamps into graphs is the same in every release. For the third sort of file see
`jcache.store.foreign.phasic_tapes`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Any, Final

from jcache.errors import DamagedEntry
from jcache.findings import Damage, Fault
from jcache.store.foreign import phasic_tapes, pickle_scan

MAX_JSON: Final = 64 << 20  # bytes that are parsed, four times the largest graph seen; memory is up to 25 times that
_OTHER_TYPE: Final = re.compile(rb'"__type__"\s*:(?!\s*"ndarray")|\\u')
_TRACE: Final = "phasic.trace_elimination"
_PROTOCOL: Final = 5  # of its pickles
_SHOWN: Final = 12  # names of a pickle, which has seven of phasic's
_NAMES: Final = frozenset(
    [f"{_TRACE}.{name}" for name in ("EliminationTrace", "Operation", "OpType")]
    + ["numpy.dtype", "numpy.ndarray"]
    + [  # which numpy 2 has renamed
        f"numpy.{core}.{name}"
        for core in ("_core", "core")
        for name in ("multiarray._reconstruct", "multiarray.scalar", "numeric._frombuffer")
    ]
)


def fault_of(key: str, data: bytes, *, quick: bool) -> Fault | None:
    """Return the fault of an entry's bytes by themselves."""
    word, _, digits = key.rpartition("-")
    if not data:
        return Fault(Damage.TORN, "The file is empty.")
    if word in ("elimination", "scc"):
        return phasic_tapes.fault_of(data, quick=quick)
    if word == "trace":
        return _pickle_fault(data)
    if quick or len(data) > MAX_JSON:
        return _frame_fault(data, b"\n}" if word == "graph" else b"}")
    return _json_fault(data, digits if word == "graph" else None)


def facts_of(key: str, data: bytes) -> dict[str, object]:
    """Return the facts that an entry holds about itself.

    Raises:
        DamagedEntry: it cannot be read.
    """
    word = key.rpartition("-")[0]
    try:
        if word in ("elimination", "scc"):
            return phasic_tapes.facts_of(data)
        if word == "trace":
            return _pickle_facts(data)
        return _json_facts(data)
    except pickle_scan.TornPickle:
        raise DamagedEntry("A pickle that ends before its end.") from None


# -- JSON


def _frame_fault(data: bytes, end: bytes) -> Fault | None:
    """Return the fault that the first bytes, the last ones or the names of classes show, without parsing."""
    if data[:1] != b"{":
        return Fault(Damage.GRAMMAR, f"It begins with {data[:4].hex(' ')}, which is no JSON object.")
    if not data.rstrip().endswith(end):
        return Fault(Damage.TORN, "The JSON ends before its end.")
    if (other := _OTHER_TYPE.search(data, max(data.find(b'"graph_data"'), 0))) is not None:
        return Fault(Damage.CODE, f"It names, or hides, what is no array at byte {other.start():,}.")
    return None


def _json_fault(data: bytes, stem: str | None) -> Fault | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        return Fault(Damage.TORN if _ends_early(data, error) else Damage.GRAMMAR, f"It is no JSON: {_short(error)}.")
    if not isinstance(value, dict):
        return Fault(Damage.GRAMMAR, "It is no JSON object.")
    if (named := _first_type(value, graph=stem is not None)) is not None:
        return Fault(Damage.CODE, f"It names {named!r}, which phasic would import and call.")
    return None if stem is None else _graph_fault(value, stem)


def _ends_early(data: bytes, error: Exception) -> bool:
    """Return whether the bytes are no JSON because the rest is missing."""
    if isinstance(error, UnicodeDecodeError):
        return error.end == len(data) and error.reason == "unexpected end of data"
    if not isinstance(error, json.JSONDecodeError):
        return False
    end = len(error.doc.rstrip())
    return error.pos >= end or error.msg.startswith("Unterminated string") or _is_cut(error.doc[error.pos : end][:20])


def _is_cut(text: str) -> bool:
    """Return whether a text begins a word or ends a number."""
    words = ("true", "false", "null", "NaN", "Infinity", "-Infinity")
    return not text.strip("+-.eE0123456789") or any(word.startswith(text) for word in words)


def _short(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error)[:120]


def _objects(value: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401  of JSON, as in what follows
    """Yield all JSON objects in a value; lists of plain numbers, which are most of it, are passed over at once."""
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, dict):
            yield one
            pending += [inner for inner in one.values() if isinstance(inner, (dict, list))]
        elif not all(map(_NOTHING_INSIDE.__contains__, map(type, one))):
            pending += [inner for inner in one if isinstance(inner, (dict, list))]


_NOTHING_INSIDE: Final = frozenset({int, float, str, bool, type(None)})


def _first_type(value: dict[str, Any], *, graph: bool) -> str | None:
    """Return the first name of a class that is none of phasic's arrays.

    What a graph was called with is on record by its class, too, and never read again: there only modules of Python's
    own are strange.
    """
    asked = value.get("construction_params") if graph else None
    asked = asked if isinstance(asked, (dict, list)) else {}
    rest = {name: inner for name, inner in value.items() if inner is not asked}
    for one in _objects(rest):
        if "__type__" in one and one["__type__"] != "ndarray":
            return pickle_scan.plain(one["__type__"])[:120]
    for one in _objects(asked):
        named = one.get("__type__", "ndarray")
        module = str(named).partition(".")[0]
        if not isinstance(named, str) or (module != "__main__" and module in sys.stdlib_module_names):
            return pickle_scan.plain(named)[:120]
    return None


def _graph_fault(value: dict[str, Any], stem: str) -> Fault | None:
    graph = value.get("graph_data")
    if not isinstance(value.get("version"), str) or not isinstance(graph, dict):
        return Fault(Damage.GRAMMAR, "It has no version, or no graph in it.")
    if value.get("callback_hash") != stem:
        return Fault(Damage.NAME, f"It holds the graph {pickle_scan.plain(value.get('callback_hash'))[:40]!r}.")
    vertices = graph.get("n_vertices")
    for name in ("states", "vertex_indices"):
        if (count := _length(graph.get(name))) is not None and vertices is not None and count != vertices:
            said = str(_fact(vertices))[:40]
            return Fault(Damage.GRAMMAR, f"It has {count:,} {name.replace('_', ' ')} of {said} vertices.")
    return None


def _length(array: Any) -> int | None:  # noqa: ANN401
    data = array.get("__data__") if isinstance(array, dict) else None
    return len(data) if isinstance(data, list) else None


def _json_facts(data: bytes) -> dict[str, object]:
    if len(data) > MAX_JSON:
        return {"format": "JSON"}
    try:
        value = json.loads(data)
        graph = value.get("graph_data") or value
        edges = [_length(graph.get(name)) for name in ("edges", "param_edges", "start_edges", "start_param_edges")]
        found = {
            "format": "JSON",
            "vertices": graph.get("n_vertices"),
            "edges": sum(filter(None, edges)) if any(count is not None for count in edges) else None,
            "state length": graph.get("state_length"),
            "parameters": graph.get("param_length"),
            "weights": graph.get("weight_mode"),
            "called with": _called_with(value.get("construction_params")),
            "python": value.get("python_version"),
            "written": value.get("created_at"),
        }
    except (ValueError, RecursionError, AttributeError, TypeError) as error:
        raise DamagedEntry(f"JSON that cannot be read: {_short(error)}.") from error
    return {name: _fact(fact) for name, fact in found.items() if fact is not None}


def _fact(value: object) -> object:
    """Return a number as it is, all else as a text that is fit to print."""
    return value if type(value) is int and abs(value) < 1 << 63 else pickle_scan.plain(value)[:200]


def _called_with(params: Any) -> str | None:  # noqa: ANN401
    if not isinstance(params, dict) or not params:
        return None
    return ", ".join(f"{name}={_argument(value)}" for name, value in params.items())


def _argument(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, dict) and isinstance(value.get("__type__"), str):
        return f"{value['__type__']}({json.dumps(value.get('__data__'))[:40]})"
    return json.dumps(value)[:40]


def written_ns(data: bytes) -> int | None:
    """Return when phasic wrote a graph, as the graph says."""
    head = data[:512].decode(errors="replace")
    _, found, rest = head.partition('"created_at": "')
    try:
        return int(datetime.fromisoformat(rest.partition('"')[0]).timestamp() * 1e9) if found else None
    except (ValueError, OverflowError, OSError):
        return None


# -- pickles


def _pickle_fault(data: bytes) -> Fault | None:
    if data[:1] != b"\x80":
        return Fault(Damage.CODE, f"It begins with {data[:4].hex(' ')}, as no pickle of phasic's does.")
    try:
        program = pickle_scan.read(data)
    except pickle_scan.TornPickle:
        return Fault(Damage.TORN, "The pickle ends before its end.")
    if (strange := _reach(program)) is not None:
        return Fault(Damage.CODE, f"It reaches beyond phasic and numpy: {strange}.")
    if program.protocol != _PROTOCOL:
        return Fault(Damage.GRAMMAR, f"It says protocol {program.protocol}, where phasic's have {_PROTOCOL}.")
    if program.behind:
        return Fault(Damage.GRAMMAR, f"{program.behind:,} bytes lie behind the pickle.")
    if f"{_TRACE}.EliminationTrace" not in program.names:
        return Fault(Damage.GRAMMAR, "It holds no EliminationTrace.")
    return None


def _reach(program: pickle_scan.PickleEffects) -> str | None:
    """Return the names in a pickle that phasic's traces do not have; None if there are none."""
    foreign = [name for name in program.names if name not in _NAMES]
    return ", ".join(map(pickle_scan.plain, foreign[:3]))[:200] if foreign else program.strange


def _pickle_facts(data: bytes) -> dict[str, object]:
    program = pickle_scan.read(data)
    found: dict[str, object] = {
        "format": f"pickle {program.protocol}, not executed",
        "vertices": program.numbers.get("n_vertices"),
        "state length": program.numbers.get("state_length"),
        "parameters": program.numbers.get("param_length"),
        "opcodes": program.opcodes,
        "names": ", ".join(map(pickle_scan.plain, islice(program.names, _SHOWN))),
        "reaches": _reach(program),
    }
    return {name: value for name, value in found.items() if value is not None}
