"""`depends_on` of `jcache.jit`: what the program says that counts, counts in later processes."""

from pathlib import Path
from typing import Any

import pytest

from jcache.errors import InvalidValue
from jcache.traces.jit import jit
from tests.helpers.jax_programs import run

PROGRAM = """
import json, sys
import jax, jax.numpy as jnp
import jcache
root, table, scale = sys.argv[1], sys.argv[2], float(sys.argv[3])
jcache.enable(root, strict=True)
class Database:
    def version(self):
        return table

def scales():
    if scale < 0:
        raise OSError("no such table")
    return {"scale": jnp.asarray(scale) * 2}

def step(x):
    print("traced", file=sys.stderr)
    return x * 2

inner = jcache.jit(step, depends_on=(scales, Database().version))
outer = jcache.jit(lambda x: inner(x) + 1)
said = inner.explain(jnp.ones(3))
results = [inner(jnp.ones(3)).tolist(), outer(jnp.ones(3)).tolist()]
[done] = jcache.precompile(inner, (jax.ShapeDtypeStruct((3,), "float32"),))
print(json.dumps([said.reason, said.changes, results, done.outcome]))
"""


@pytest.mark.jax
def test_what_the_callables_return_counts(tmp_path: Path) -> None:
    """A second process is served, one in which a value differs is not, and the reason names the callable."""

    def said(table: str, scale: float) -> Any:
        done = run(PROGRAM, tmp_path / "root", table, scale)
        return [done.err.count("traced"), *done.value]

    traced, *_ = said("one", 1.0)
    assert traced == 1
    traced, reason, _, results, precompiled = said("one", 1.0)
    assert traced == 0 and precompiled == "hit" and results == [[2.0] * 3, [3.0] * 3], reason
    traced, reason, changes, _, precompiled = said("two", 1.0)
    assert (
        traced == 1
        and precompiled == "hit"
        and [each.split(" ")[:2] for each in changes] == [["depends_on", "Database.version"]]
    )
    traced, _, changes, _, _ = said("one", 2.0)
    assert traced == 1 and "depends_on scales" in changes[0]
    traced, *_ = said("two", 1.0)
    assert traced == 0


@pytest.mark.jax
def test_a_callable_that_raises(tmp_path: Path) -> None:
    """The function is traced by `jax.jit` as ever, and `explain` says which callable raised what."""
    for _ in range(2):
        done = run(PROGRAM, tmp_path / "root", "one", -1.0)
        reason, _, results, precompiled = done.value
        assert "traced" in done.err and results == [[2.0] * 3, [3.0] * 3] and precompiled == "not_stored"
        assert reason == "depends_on `scales` raised OSError: no such table."


def test_what_cannot_be_called() -> None:
    """An option that is no callable, or has one that is none, is refused when the function is decorated."""
    for wrong in (3, "name", [len, 3]):
        with pytest.raises(InvalidValue, match="cannot be called"):
            jit(len, depends_on=wrong)  # type: ignore[arg-type]  # that is what is tested
