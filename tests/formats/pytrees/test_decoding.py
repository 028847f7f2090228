"""Hostile graphs with a valid seal: no code runs, memory stays bounded, and the process survives."""

import json
import resource
import struct
import subprocess
import sys
import tracemalloc
import warnings
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from jcache.errors import DamagedEntry, Unresolved
from jcache.formats import pytrees
from jcache.formats.pytrees.decoding import _DECODERS
from tests.formats.pytrees.test_pytrees import stored, values
from tests.helpers import graph_classes  # noqa: F401  (so that its classes are there)


def payload(tree: object, blocks: bytes = b"", *, text: str | None = None) -> memoryview:
    """A payload with any tree."""
    data = (json.dumps(tree) if text is None else text).encode(errors="surrogatepass")
    head = b"jctree1\n" + len(data).to_bytes(8, "big") + data
    return memoryview(bytearray(head + (bytes(-len(head) % 64) + blocks if blocks else b"")))


HUGE = (-1, 0, 1, 3, 1 << 31, (1 << 31) - 1, 1 << 32, 1 << 62, (1 << 63) - 1, 1 << 63, 1 << 64, 10**30)
DTYPES = (
    "<f8", ">i4", "|b1", "<U3", "<U0", "<U536870912", "<U2147483647", "|S4294967296", "|V9999999999", "<M8[ns]", "|O",
    "<M8[0s]", "<M8[s/3]", "<M8[99999999999s]", "<M8[２s]", "O", "i4,O", "<f16", "<f3", "ml_dtypes.bfloat16",
    "ml_dtypes.int4", "ml_dtypes.finfo", "ml_dtypes.x", "ml_dtypes.__name__", "float64", "",
)  # fmt: skip
CLASSES = (
    *(f"tests.helpers.graph_classes:{name}" for name in ("Color", "Mode", "Slotted", "Pair", "Plain", "Finalized")),
    "os:environ", "builtins:dict", "builtins:type",
    "builtins:object", "subprocess:CompletedProcess", "subprocess:Popen", "numpy:ndarray", "enum:Enum", "enum:Flag",
    "jcache:Kind", "x:y", "", ":", "a", "sys:modules.os", "\ud800:\ud800",
)  # fmt: skip
FIELDS = st.sampled_from(["size", "more", "left", "right", "value"])
DEEP: Any = "<f8"
for _ in range(12):
    DEEP = ["array", DEEP, [1]]
leaves = (
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.sampled_from(HUGE) | st.sampled_from(DTYPES)
    | st.sampled_from(CLASSES) | st.sampled_from(["C", "F", "K", "struct", "array", "RED", "READ", "size", "ff", "zz"])
    | st.sampled_from(["7ff0000000000000", "00" * 8, "eda080", "$array"])
)  # fmt: skip
tags = st.sampled_from(sorted(set(_DECODERS) - {"$jax", "$key"}))  # see test_jax_pytrees.py
sizes = st.lists(st.sampled_from(HUGE), max_size=4) | st.just([1] * 65)
described = st.recursive(
    st.sampled_from(DTYPES),
    lambda inner: (
        st.tuples(st.just("array"), inner, sizes)
        | st.tuples(
            st.just("struct"), st.sampled_from(HUGE), st.booleans(),
            st.lists(st.tuples(FIELDS, st.none() | st.just("t"), st.sampled_from(HUGE), inner), max_size=3),
        )
    ),
    max_leaves=4,
)  # fmt: skip
nodes = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(tags | st.sampled_from(["a", "$unknown", ""]), inner, max_size=2)
        | st.builds(lambda *body: {"$array": body}, described, sizes, st.sampled_from("CFK"))
        | st.builds(lambda *body: {"$scalar": body}, described, st.sampled_from(["", "00", "00" * 8, "00" * 16]))
        | st.builds(
            lambda tag, *body: {tag: body}, st.sampled_from(["$dataclass", "$namedtuple"]), st.sampled_from(CLASSES),
            st.lists(FIELDS, max_size=2), st.lists(inner, max_size=2),
        )
        | st.builds(lambda tag, *body: {tag: body}, tags, inner, inner)
        | st.builds(lambda tag, *body: {tag: body}, tags, inner, inner, inner)
    ),
    max_leaves=10,
)  # fmt: skip


@pytest.mark.full
@settings(max_examples=1500)
@given(nodes, st.sampled_from([b"", bytes(8), bytes(64), b"\xff" * 200]))
def test_any_tree_is_read_or_refused(tree: object, blocks: bytes) -> None:
    """Any JSON tree loads to a value, or raises DamagedEntry or Unresolved, without a warning."""
    with warnings.catch_warnings(), suppress(DamagedEntry, Unresolved):
        warnings.simplefilter("error")
        pytrees.load(payload(tree, blocks))


LIES: dict[str, object] = {
    "offset before": {"$array": ["<f8", [-1], "C"]},
    "more than there is": {"$array": ["<f8", [9], "C"]},
    "overflowing": {"$array": ["<f8", [1 << 61, 1 << 62], "C"]},
    "overflowing to nothing": {"$array": ["<f8", [1 << 32, 1 << 32], "C"]},
    "nothing but large": {"$array": ["<f8", [0, 1 << 62, 1 << 62], "C"]},
    "huge text": {"$array": ["<U2147483647", [1], "C"]},
    "huge structure": {"$array": [["struct", 1 << 40, False, []], [1], "C"]},
    "field outside": {"$array": [["struct", 4, False, [["a", None, 8, "<f8"]]], [1], "C"]},
    "objects": {"$array": ["|O", [1], "C"]},
    "objects inside": {"$array": [["struct", 8, False, [["a", None, 0, "|O"]]], [1], "C"]},
    "objects in arrays": {"$array": [["array", "|O", [1]], [1], "C"]},
    "deep dtype": {"$array": [DEEP, [1], "C"]},
    "division by zero": {"$array": ["<M8[0s]", [1], "C"]},
    "other order": {"$array": ["<f8", [1], "A"]},
    "no order": {"$array": ["<f8", [1]]},
    "bool as size": {"$array": ["<f8", [True], "C"]},
    "float as size": {"$array": ["<f8", [1.0], "C"]},
    "bytes before": {"$bytes": -1},
    "bytes beyond": {"$bytes": 65},
    "bytes unread": 1,
    "bool as length": {"$bytes": True},
    "same as none": {"$same": 0},
    "same from behind": [{"$array": ["<f8", [8], "C"]}, {"$same": -1}],
    "again of none": {"$again": 0},
    "again from behind": [{"$shared": [1]}, {"$again": -1}],
    "huge memory": {"$memory": [1 << 60, False]},
    "memory before": {"$memory": [-1, True]},
    "memory beyond": {"$memory": [65, True]},
    "view of no memory": {"$view": [0, "<f8", [1], [8], 0, True, None]},
    "view beyond": {"$view": [{"$memory": [64, True]}, "<f8", [9], [8], 0, True, None]},
    "view before": {"$view": [{"$memory": [64, True]}, "<f8", [2], [-8], 0, True, None]},
    "view of another rank": {"$view": [{"$memory": [64, True]}, "<f8", [2], [8, 8], 0, True, None]},
    "view with a text as offset": {"$view": [{"$memory": [64, True]}, "<f8", [2], [8], "0", True, None]},
    "view of a text": {"$view": [{"$memory": [64, True]}, "<f8", [2], [8], 0, True, "base"]},
    "view that is perhaps writable": {"$view": [{"$memory": [64, True]}, "<f8", [2], [8], 0, None, None]},
    "objects in a view": {"$view": [{"$memory": [64, True]}, "|O", [2], [8], 0, True, None]},
    "unhashable": {"$set": [[1]]},
    "unhashable key": {"$dict": [[[1], 2]]},
    "no pair": {"$dict": [[1, 2, 3]]},
    "set of a text": {"$set": "abc"},
    "tuple of a dict": {"$tuple": {"a": 1, "b": 2}},
    "unknown": {"$pickle": "gASVC"},
    "short float": {"$float": "00"},
    "no integer": {"$int": "0x"},
    "scalar of another size": {"$scalar": ["<f8", "00"]},
    "steps of none": {"$range": [0, 1, 0]},
}  # fmt: skip


@pytest.mark.parametrize("name", LIES)
def test_lies_are_damage(name: str) -> None:
    """Impossible lengths, offsets, types and shapes are damage, which is found before memory of that size is taken."""
    tracemalloc.start()
    try:
        with pytest.raises(DamagedEntry, match="does not follow the grammar"):
            pytrees.load(payload(LIES[name], bytes(64)))
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "text",
    ["NaN", "[Infinity]", "-Infinity", "1 2", "", "{", "'a'", "[1,]", "\x00", "9" * 5000, '{"$bytes": NaN}', "\ud800"],
    ids=repr,
)  # fmt: skip
def test_what_is_no_json_is_damage(text: str) -> None:
    """Constants that JSON lacks, numbers of thousands of digits and bytes that are no text are damage."""
    with pytest.raises(DamagedEntry):
        pytrees.load(payload(None, text=text))


@pytest.mark.parametrize("opening", ["[", '{"a":', '{"$tuple":[', '{"$dict":[['])
def test_depth_is_refused(opening: str) -> None:
    """A tree of a hundred thousand levels is refused, in a thread of little stack as well."""
    closing = {"[": "]", '{"a":': "}", '{"$tuple":[': "]}", '{"$dict":[[': "]]}"}[opening]
    hostile = payload(None, text=opening * 100_000 + "1" + closing * 100_000)
    with pytest.raises((Unresolved, DamagedEntry)):
        pytrees.load(hostile)


FINALIZED = """
import json, sys
from dataclasses import dataclass
from jcache.formats import pytrees
from jcache.errors import Unresolved

@dataclass
class Temporary:
    path: str
    def __del__(self): print("REMOVED", self.path)

tree = json.dumps({"$dataclass": ["__main__:Temporary", ["path"], ["/etc/passwd"]]}).encode()
try:
    pytrees.load(memoryview(b"jctree1\\n" + len(tree).to_bytes(8, "big") + tree))
except Unresolved as error:
    print(error)
"""


def test_no_finalizer_gets_what_bytes_say() -> None:
    """An instance of a class with a finalizer is not made from an entry's content."""
    done = subprocess.run([sys.executable, "-c", FINALIZED], capture_output=True, text=True, check=True)
    assert "REMOVED" not in done.stdout and "finalizer" in done.stdout


WIDE = """
import resource, sys
from jcache.formats import pytrees
from jcache.errors import DamagedEntry, Unresolved
count, unit = int(sys.argv[1]), sys.argv[2].encode()
tree = b"[" + unit * count + b"0]"
data = memoryview(b"jctree1\\n" + len(tree).to_bytes(8, "big") + tree)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
pytrees.load(data)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / len(tree))
"""


@pytest.mark.parametrize("unit", ["[],", "{},", '{"$tuple":[]},'])
def test_memory_grows_with_the_tree_only(unit: str) -> None:
    """A tree made of the smallest containers takes at most forty times its bytes."""
    done = subprocess.run([sys.executable, "-c", WIDE, "400000", unit], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 40


def test_bits_of_a_small_graph() -> None:
    """Each flipped bit of a small sealed graph is found."""
    from jcache.formats.envelope import Codec, open_envelope, seal

    pieces = pytrees.dump({"a": [1, (2.5, b"x")], "b": struct.pack("d", 1.0)}).pieces
    data = seal(pieces, kind="graphs", name="f", key="k", build_seconds=1.0, created_ns=1, codec=Codec.NONE)
    for position in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            with pytest.raises(DamagedEntry):
                open_envelope(memoryview(flipped))


def limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))


def run_limited(program: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, preexec_fn=limit, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_shapes_cost_nothing() -> None:
    """An array without elements, of any size otherwise, takes no memory when it is loaded."""
    program = """
import json
from jcache.formats import pytrees
tree = json.dumps({"$array": ["<f8", [0, 1 << 40], "C"]}).encode()
data = b"jctree1\\n" + len(tree).to_bytes(8, "big") + tree
data += bytes(-len(data) % 64)
print(pytrees.load(memoryview(bytearray(data))).shape)
"""
    assert run_limited(program) == "(0, 1099511627776)\n"


@given(values, st.data())
def test_cut_and_mutated_payloads_raise_only_what_is_documented(value: object, data: st.DataObject) -> None:
    """A payload with bytes changed, cut or inserted is read, or raises DamagedEntry or Unresolved."""
    payload = stored(value)
    start = data.draw(st.integers(0, len(payload)))
    end = data.draw(st.integers(start, min(len(payload), start + 8)))
    payload[start:end] = data.draw(st.binary(max_size=8) | st.sampled_from([b"[", b"]", b"{}", b'"$', b"9" * 30]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with suppress(DamagedEntry, Unresolved):
            pytrees.load(memoryview(payload))
