"""Arrays, dtypes and generators of numpy and JAX count by their content."""

import pytest

from tests.helpers.jax_programs import run

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


@pytest.mark.jax
def test_values_of_jax() -> None:
    """JAX's arrays, keys, dtypes and transformed functions are told apart from numpy's and from one another."""
    count, different, same, deleted, traced, x64, twice, parts = run(JAX).value
    assert twice == [0, 4]  # two ways to the same array
    assert count == different + 1 and same and x64
    assert "donated or deleted" in deleted and "tracing" in traced[0]
    assert parts["environment jax_enable_x64"] == "True"
