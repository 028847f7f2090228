"""Arrays, dtypes and generators of numpy and JAX count by their content."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jcache.fingerprint import fingerprint
from tests.helpers.fingerprints import key_of
from tests.helpers.jax_programs import run


def test_nothing_of_numpy_is_imported_to_look_at_a_users_object() -> None:
    """Numpy imports its random generators when somebody asks for them."""
    source = "import sys, numpy; from jcache.fingerprint import fingerprint"
    source += "; fingerprint(type('Own', (), {'f': lambda self: 1})().f); print('numpy.random' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_only_the_content_of_an_array_counts(tmp_path: Path) -> None:
    """Neither whether it owns its memory, may be written or lies in a file, nor which file that is."""
    made = np.arange(6.0)
    frozen = made.copy()
    frozen.flags.writeable = False
    same = [made, made.copy(), np.arange(10.0)[:6], np.arange(6.0).reshape(2, 3).reshape(6), frozen]
    assert len(set(map(key_of, same))) == 1
    mapped = []
    for name in ("a", "b"):
        made.tofile(tmp_path / name)
        mapped.append(np.memmap(tmp_path / name, "f8", mode="r"))
    assert key_of(mapped[0]) == key_of(mapped[1]) != key_of(mapped[0][::-1])


def test_the_order_of_elements_in_memory_counts() -> None:
    """The last digits of a sum depend on it."""
    made = np.arange(16.0).reshape(4, 4)
    orders = [made, np.asfortranarray(made), np.repeat(np.repeat(made, 2, 0), 2, 1)[::2, ::2]]
    assert all(np.array_equal(made, each) for each in orders)
    assert len(set(map(key_of, orders))) == 3


def test_whose_memory_an_array_has_counts_where_code_can_tell() -> None:
    """A graph that is loaded has its arrays in other memory than one that was built; both are the same to most code."""

    def beside(*made: np.ndarray[Any, Any], asks: bool = False) -> list[str]:
        def build() -> object:
            return made[0].sum()

        def ask() -> object:
            return made[0].base

        return sorted(dict(fingerprint(ask if asks else build).loose))

    own, whole = np.ones(4), np.ones(8)
    assert beside(own) == beside(whole[::2].copy()) == beside(np.frombuffer(bytearray(8))) == []
    assert beside(whole[4:]) == [] != beside(whole[4:], asks=True) and beside(own, asks=True) == []
    assert beside(whole[4:], whole) != [] != beside(np.frombuffer(bytes(8)))


def test_elements_that_are_objects_count_as_values_do() -> None:
    """By what they hold, and not by their addresses."""
    keys = [key_of(np.array([held, "a"], object)) for held in ({"x": [1]}, {"x": [1]}, {"x": [2]})]
    assert keys[0] == keys[1] != keys[2]


class Named(np.ndarray[Any, Any]):
    """An array with an attribute."""

    name = "a"


def test_an_array_of_a_class_counts_with_its_attributes() -> None:
    """And apart from the same array without the class."""
    arrays = [np.zeros(2).view(Named) for _ in range(3)]
    arrays[1].name = arrays[2].name = "b"
    keys = [*map(key_of, arrays), key_of(np.zeros(2))]
    assert keys[1] == keys[2] and len(set(keys)) == 3


DTYPES = [
    np.dtype("f8"), np.dtype("i8"), np.dtype("u8"), np.dtype(">f8"), np.dtype("M8[s]"), np.dtype("M8[ms]"),
    np.dtype("V8"), np.dtype(("f8", (2,))), np.dtype(("f8", (2, 1))), np.dtype("f8", metadata={"a": 1}),
    np.dtype("f8", metadata={"a": 2}), np.dtype([("a", "i4"), ("b", "f8")]), np.dtype([("b", "i4"), ("a", "f8")]),
    np.dtype([("a", "i4"), ("b", "f8")], align=True), np.dtype([("a", "i4"), ("b", [("c", "f8")])]),
    np.dtype([("a", "i4"), ("b", [("d", "f8")])]), np.dtype([(("title", "a"), "i4"), ("b", "f8")]),
    np.dtype({"names": ["a"], "formats": ["i4"], "itemsize": 8}),
    np.dtype({"names": ["a"], "formats": ["i4"], "itemsize": 8, "offsets": [4]}),
]  # fmt: skip


def test_the_limits_of_a_dtype_are_the_same_whatever_was_asked_for() -> None:
    """Numpy computes some of them when they are first asked for, and keeps them in the object that all code shares."""
    keys = {key_of(np.finfo(each)) for each in ("f2", "f4", "f8")}
    assert len(keys) == 3
    for name in ("tiny", "resolution", "smallest_subnormal"):
        assert getattr(np.finfo("f4"), name)
    assert key_of(np.finfo("f4")) in keys and key_of(np.iinfo("i4")) != key_of(np.iinfo("i8"))


def test_dtypes_are_told_apart_by_all_that_they_have() -> None:
    """Types, units, fields with their offsets and titles, and metadata, of an array as well."""
    assert len(set(map(key_of, DTYPES))) == len(DTYPES)
    assert len({key_of(np.zeros(2, each)) for each in DTYPES if each.subdtype is None}) == len(DTYPES) - 2
    assert key_of(np.dtype({"names": ["a", "b"], "formats": ["i4", "f8"]})) == key_of(
        np.dtype([("a", "i4"), ("b", "f8")])
    )


def test_the_sign_of_a_scalar_is_seen() -> None:
    """That of a zero, and that and the other bits of a NaN."""
    other = np.frombuffer(bytes.fromhex("010000000000f87f"), "f8")[0]
    assert other != other and key_of(np.float64(np.nan)) == key_of(np.float64("nan")) != key_of(np.float32("nan"))
    assert len({key_of(other), key_of(np.float64("nan")), key_of(-np.float64("nan"))}) == 3
    assert key_of(np.float64(0.0)) != key_of(np.float64(-0.0))


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.PCG64, np.random.RandomState])
def test_a_generator_counts_by_its_state(make: Callable[[int], Any]) -> None:
    """A draw makes it another one, and the same draws from the same seed the same."""

    def drawn(seed: int, count: int) -> str:
        made = make(seed)
        made.random_raw(count) if hasattr(made, "random_raw") else made.random(count)
        return key_of(made)

    assert drawn(1, 3) == drawn(1, 3)
    assert len({drawn(1, 0), drawn(1, 3), drawn(1, 4), drawn(2, 3)}) == 4


JAX = """
import json, jax, jax.numpy as jnp, numpy as np, functools, ml_dtypes
from jcache.errors import GraphKeyError
from jcache.fingerprint import fingerprint
def build(value=None): return value
def key_of(value): return fingerprint(build, (value,)).hash
f = lambda x, n=1: x * n
values = [
    jnp.float32(1), np.float32(1), 1.0, jnp.asarray(1.0), jnp.asarray(np.float32(1.0)), jnp.arange(3), np.arange(3),
    np.arange(3, dtype=np.int32), jnp.arange(3, dtype=jnp.bfloat16), np.arange(3).astype(ml_dtypes.bfloat16),
    np.arange(3, dtype=np.float16), np.zeros(3, ml_dtypes.float8_e4m3fn), np.zeros(3, ml_dtypes.float8_e5m2),
    ml_dtypes.bfloat16(1), np.float16(1), jnp.bfloat16, jnp.float32, np.dtype(ml_dtypes.bfloat16),
    jax.random.key(0), jax.random.key(1), jax.random.key(0, impl="rbg"), jax.random.PRNGKey(0),
    jax.ShapeDtypeStruct((3,), jnp.float32), jax.ShapeDtypeStruct((3,), jnp.int32), jax.ShapeDtypeStruct((), jnp.int32),
    jnp.sin, jnp.cos, jax.nn.relu, jax.jit(f), f, jax.jit(f, static_argnums=1), jax.jit(f, donate_argnums=0),
    jax.vmap(f), jax.vmap(f, in_axes=(0, None)), jax.grad(f), jax.grad(f, argnums=1), functools.partial(jax.jit, f),
    jax.jit(lambda x: x + 1), jax.jit(lambda x: x + 2), jax.checkpoint(f), jax.custom_jvp(f), jax.numpy, jax.lax.add,
    jax.tree.structure({"a": 1}), jax.tree.structure({"b": 1}), jax.tree.structure([1, 2]),
    jax.tree.structure((1, [2])), jax.tree.structure(None), jax.tree.structure(1),
]
hashes = [key_of(value) for value in values]
same = [key_of(value) == key for value, key in zip(values, hashes)]
def refused(value):
    try: key_of(value)
    except GraphKeyError as error: return str(error)
gone = jnp.arange(3)
gone.delete()
traced = []
jax.jit(lambda x: traced.append(refused(x)) or x)(1.0)
def tables(): return {"sin": jnp.sin, "cos": jnp.cos}
before = fingerprint(tables).hash
jax.config.update("jax_enable_x64", True)
after = fingerprint(tables)
print(json.dumps([len(values), len(set(hashes)), all(same), refused(gone), traced, before != after.hash,
                  [i for i, h in enumerate(hashes) if hashes.count(h) > 1], dict(after.parts)]))
"""


@pytest.mark.contract
@pytest.mark.jax
def test_a_jaxpr_keeps_its_key_while_jax_uses_it() -> None:
    """What JAX notes in types and primitives once it has differentiated or batched is no part of a key."""
    told = run("""
import json
import jax, jax.numpy as jnp
from tests.helpers.fingerprints import key_of
made = jax.make_jaxpr(lambda x: x * 2.0 + jnp.sin(x))(1.0)
keys = [key_of(made)]
jax.grad(lambda x: x * 2.0 + jnp.sin(x))(1.0), jax.vmap(lambda x: x * 2.0)(jnp.ones(3))
keys += [key_of(made), key_of(jax.make_jaxpr(lambda x: x * 3.0 + jnp.sin(x))(1.0))]
print(json.dumps(keys))
""")
    before, after, other = told.value
    assert before == after != other


@pytest.mark.jax
def test_values_of_jax() -> None:
    """JAX's arrays, keys, dtypes and transformed functions are told apart from numpy's and from one another."""
    count, different, same, deleted, traced, x64, twice, parts = run(JAX).value
    assert twice == [0, 4]  # two ways to the same array
    assert count == different + 1 and same and x64
    assert "donated or deleted" in deleted and "tracing" in traced[0]
    assert parts["environment jax_enable_x64"] == "True"
