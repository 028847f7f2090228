"""What is stored, in which bytes, and which values are refused by name."""

import subprocess
import sys
import time
from collections import ChainMap, defaultdict
from typing import Any

import numpy as np
import pytest

from jcache.errors import NotStorable
from jcache.formats import pytrees
from jcache.formats.envelope import Codec, seal, unseal
from tests.formats.pytrees.test_pytrees import again, stored

REFUSED = {
    "object": (object(), "it is of type object, which no codec knows: return arrays and plain values"),
    "function": ([{"f": len}], r"`\[0\]\['f'\]` is of type builtin_function_or_method"),
    "defaultdict": ({"a": defaultdict(lambda: 1)}, "collections:defaultdict, which has a default factory that is none"),
    "ChainMap": (ChainMap(), "collections:ChainMap, which no codec knows"),
    "objects": (np.array([1, "a"], dtype=object), "holds Python objects: convert it"),
    "objects in fields": (np.zeros(2, np.dtype([("a", "O")])), "holds Python objects"),
    "long double": (np.zeros(2, np.longdouble), "which is not the same on every machine"),
    "long double, one": (np.longdouble(1), "which is not the same on every machine"),
    "masked": (np.ma.zeros(3), "MaskedArray, which is a class of arrays of its own"),
    "records": (np.rec.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]), "recarray, which is a class of arrays"),
    "metadata": (np.zeros(2, np.dtype("f4", metadata={"a": 1})), "has metadata in its dtype"),
    "a type": (int, "it is of type type"),
    "a dtype": (np.dtype("O"), r"numpy(\.dtypes:ObjectDType|:dtype\[object_\]), which no codec knows"),
    "key": ({(1, len): 2}, r"`.keys\(\)\[0\]\[1\]`"),
    "local time": (time.localtime(), "time:struct_time"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_stored_is_named(name: str) -> None:
    """A refusal is one sentence with the path to the part, its type, the reason and a remedy."""
    value, message = REFUSED[name]
    with pytest.raises(NotStorable, match=message) as refused:
        pytrees.dump(value)
    assert str(refused.value).startswith("The value cannot be stored: ") and str(refused.value).endswith(".")
    assert "give the cache a `codec=jcache.FileCodec(save, load)`" in str(refused.value)


def test_cycles_are_refused() -> None:
    """A container that holds itself, at any distance, is refused by its path."""
    circle: list[Any] = [1]
    circle.append({"a": (circle,)})
    with pytest.raises(NotStorable, match=r"`\[1\]\['a'\]\[0\]` is of type list, which contains itself"):
        pytrees.dump(circle)


@pytest.mark.parametrize("wrap", [lambda v: [v], lambda v: (v,), lambda v: {"a": v}, lambda v: {1: v}])
def test_deep_values_are_refused_and_others_load(wrap: Any) -> None:
    """A hundred levels are stored and load; one more, or a hundred thousand, are refused in one short sentence."""
    value: Any = 1
    for _ in range(100):
        value = wrap(value)
    assert again(value) == value
    for more in (1, 100_000):
        for _ in range(more):
            value = wrap(value)
        with pytest.raises(NotStorable, match="nested more than 100 levels deep: flatten") as refused:
            pytrees.dump(value)
        assert len(str(refused.value)) < 400
    while isinstance(value, list | tuple | dict):  # from the outside, so that freeing it needs no stack
        value = next(iter(value.values() if isinstance(value, dict) else value))


def test_values_that_unfold_without_end_are_small() -> None:
    """A list that holds one list twice, which holds one list twice, and so on, is stored and loaded as what it is."""
    value: Any = [1]
    for _ in range(90):
        value = [value, value]
    found = pytrees.load(memoryview(bytearray(b"".join(pytrees.dump(value).pieces))))
    for _ in range(90):
        assert found[0] is found[1]
        found = found[0]
    assert found == [1]


def test_very_many_values_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are counted before they fill memory."""
    from jcache.formats.pytrees import grammar

    monkeypatch.setattr(grammar, "MAX_VALUES", 10_000)
    with pytest.raises(NotStorable, match="makes it more than 10,000 values: make arrays of them"):
        pytrees.dump([[1, "a"] for _ in range(4_000)])


def test_an_error_of_the_value_is_a_refusal() -> None:
    """An error that the value's own code raises becomes a refusal."""

    class Odd(type):
        def __hash__(cls) -> int:
            raise RuntimeError("odd")

    with pytest.raises(NotStorable, match="RuntimeError: odd"):
        pytrees.dump([Odd("Odder", (), {})()])


def test_bytes_are_the_same_each_time() -> None:
    """The same value gives the same bytes, in this process and in another."""
    code = "import sys, numpy; from jcache.formats import pytrees; {}"
    value = "{'b': [1, 2.5, (numpy.arange(5), b'x')], 'a': None}"
    program = code.format(f"sys.stdout.buffer.write(b''.join(pytrees.dump({value}).pieces))")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == stored(eval(value, {"numpy": np}))


def test_large_arrays_are_not_copied() -> None:
    """The pieces of a large array are views of it, and sealing the pieces gives the same as sealing the whole."""
    value = np.arange(1 << 16)
    dumped = pytrees.dump({"a": value})
    assert any(np.shares_memory(np.asarray(piece), value) for piece in dumped.pieces if isinstance(piece, memoryview))
    sealed = seal(dumped.pieces, kind="graphs", name="f", key="k", build_seconds=1.0, created_ns=1, codec=Codec.NONE)
    assert unseal(sealed).payload == stored({"a": value})
