"""A result is handed on as JAX would see the function's own, or as it is."""

from pathlib import Path
from typing import Final

import pytest

from tests.helpers.jax_programs import run

pytestmark = pytest.mark.jax

HEAD: Final = """
import json, os, sys
import jax, jax.numpy as jnp
import jcache
from jax.tree_util import register_pytree_node
jcache.enable(sys.argv[1])
traced = []
class P:
    def __init__(self, a, b, mode="kept"):
        self.a, self.b, self.mode = a, b, mode
"""
TAIL: Final = """
def f(x):
    traced.append(1)
    return P(x * 2, x * 3)
def value(jit):
    p = jit(f)(jnp.float32(1))
    return [float(p.a), float(p.b), p.mode]
ours, times = value(jcache.jit), len(traced)
print(json.dumps([ours == value(jax.jit), times, ours]))
"""
INEXACT: Final = {
    "swapped": "register_pytree_node(P, lambda p: ((p.a, p.b), None), lambda _, parts: P(parts[1], parts[0]))",
    "scaled": "register_pytree_node(P, lambda p: ((p.a, p.b), None), lambda _, parts: P(parts[0] * 2, parts[1]))",
    "grown": "register_pytree_node(P, lambda p: ((p.a, p.b), p.mode), lambda mode, parts: P(*parts, mode + '+'))",
    "dropped": "register_pytree_node(P, lambda p: ((p.a, p.b, p.a), None), lambda _, parts: P(*parts[1:]))",
    "equal to anything": """
class Any(str):
    __hash__ = str.__hash__
    def __eq__(self, other): return True
    def __ne__(self, other): return False
register_pytree_node(P, lambda p: ((p.a, p.b), Any(p.mode)), lambda mode, parts: P(*parts, str(mode) + "+"))
""",
    "raising": """
def made(_, parts):
    if isinstance(parts[0], jax.core.Tracer):
        raise ValueError("no tracers")
    return P(*parts)
register_pytree_node(P, lambda p: ((p.a, p.b), None), made)
""",
}


@pytest.mark.parametrize("program", INEXACT.values(), ids=INEXACT)
def test_a_result_that_is_not_made_again_as_it_was_is_left_alone(program: str, tmp_path: Path) -> None:
    """It is what `jax.jit` returns, cold too; its trace is not stored, so that later processes trace as well."""
    for _ in range(2):
        assert run(HEAD + program + TAIL, tmp_path / "root").value[:2] == [True, 1]


def test_what_flattening_a_result_reads_counts(tmp_path: Path) -> None:
    """The order of a result's leaves is read from a file, and by code that only a computed name leads to."""
    program = """
import importlib
sys.path.insert(0, os.path.dirname(sys.argv[1]))
def order(): return open(sys.argv[1] + ".txt").read().split() + importlib.import_module("ord" + "ers").names()
def flat(p):
    names = order()[:2] if p.mode == "kept" else order()[2:]
    return [getattr(p, name) for name in names], tuple(names)
register_pytree_node(P, flat, lambda names, parts: P(**dict(zip(names, parts))))
"""
    file, module = tmp_path / "root.txt", tmp_path / "orders.py"
    for text, names in (("a b", "b a"), ("b a", "b a"), ("b a", "a b")):
        file.write_text(text)
        module.write_text(f"def names(): return {names.split()}  # {text}\n")
        for times in (1, 0):
            assert run(HEAD + program + TAIL, tmp_path / "root").value[:2] == [True, times]


@pytest.mark.parametrize("options", ["", ", keep_unused=True"])
def test_a_class_that_is_made_otherwise_only_later_is_traced_then(options: str, tmp_path: Path) -> None:
    """What decides it is not seen by jcache: the stored trace does not serve, and the program has no trace of that."""
    program = """
sys.setrecursionlimit(int(sys.argv[2]))  # which nothing tells jcache of
def made(_, parts):
    if sys.getrecursionlimit() > 4000 and isinstance(parts[0], jax.core.Tracer):
        raise ValueError("no tracers")
    return P(*parts)
register_pytree_node(P, lambda p: ((p.a, p.b), None), made)
"""
    tail = TAIL.replace("jit(f)(", f"jit(f{options})(")
    said = [run(HEAD + program + tail, tmp_path / "root", limit).value for limit in (4000, 4000, 4001, 4000)]
    assert [each[:2] for each in said] == [[True, 1], [True, 0], [True, 1], [True, 0]]
