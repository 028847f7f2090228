"""What a call is given, and what JAX makes of it: a trace is served only where the one tells the other."""

from pathlib import Path
from typing import Any, Final

import pytest

from jcache.traces.arguments import holds_arguments, program_arguments
from tests.helpers.jax_programs import run

HEAD: Final = """
import json, os, sys, warnings
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
def value(jit):
    return [float(each) for each in call(jit)]
ours, times = value(jcache.jit), len(traced)
told = [call.reason for call in jcache.stats().traces.calls]
print(json.dumps([ours == value(jax.jit), times, told, ours]))
"""
CACHED: Final = """
register_pytree_node(P, lambda p: ((p.a, p.b), None), lambda _, parts: P(parts[0], None))
def f(p, scale, shift):
    traced.append(1)
    return [p.a * scale]
def call(jit): return jit(f)(P(jnp.float32(1), jnp.float32(7)), 2.0, 100.0)
"""
SWAPPED: Final = """
register_pytree_node(P, lambda p: ((p.a, p.b), None), lambda _, parts: P(parts[1], parts[0]))
def f(p):
    traced.append(1)
    return [p.a * 10]
def call(jit): return jit(f)(P(jnp.float32(1), jnp.float32(7)))
"""
REPEATED: Final = """
register_pytree_node(P, lambda p: ((p.a, p.b, p.a), None), lambda _, parts: P(*parts[:2]))
def f(p, x):
    traced.append(1)
    return [x * 2]
def call(jit): return jit(f)(P(jnp.float32(1), jnp.float32(7)), jnp.float32(50))
"""
NONE: Final = """
register_pytree_node(P, lambda p: ((p.a,) if p.b is None else (), None), lambda _, parts: P(*parts, 1.0))
def f(p):
    traced.append(1)
    return [p.a * 2]
def call(jit): return jit(f)(P(jnp.float32(3), None))
"""
BESIDE: Final = """
def made(aux, parts):
    p = P(*parts)
    p.real = aux
    return p
register_pytree_node(P, lambda p: ((p.a, p.b), p.mode), made)
def f(p):
    traced.append(1)
    return [p.a * {"one": 2, "two": 3}[p.real]]
def call(jit):
    g = jit(f)
    return [g(P(jnp.float32(1), jnp.float32(1), mode))[0] for mode in sys.argv[2:]]
"""
FILE: Final = """
def order(): return open(sys.argv[1] + ".txt").read().split()
register_pytree_node(
    P, lambda p: ([getattr(p, name) for name in order()], None), lambda _, parts: P(**dict(zip(order(), parts)))
)
def f(p):
    traced.append(1)
    return [p.a * 10]
def call(jit): return jit(f)(P(jnp.float32(1), jnp.float32(7)))
"""


def said(program: str, root: Path, *more: str) -> Any:
    return run(HEAD + program + TAIL, root, *more).value


@pytest.mark.jax
@pytest.mark.parametrize("program", [CACHED, SWAPPED, REPEATED, NONE], ids=["cached", "swapped", "repeated", "none"])
def test_other_leaves_than_those_of_jax_are_traced(program: str, tmp_path: Path) -> None:
    """An executable takes JAX's leaves: a class that gives others, or others in order, is traced, and that is said."""
    for _ in range(3):
        same, times, told, _ = said(program, tmp_path / "root")
        assert same and times == 1 and "is not made again from its leaves as it was" in told[0]


@pytest.mark.jax
def test_what_stands_beside_the_leaves_counts_as_it_was_given(tmp_path: Path) -> None:
    """A class may hide it from whoever flattens it again; the key has it as JAX had it."""
    root = tmp_path / "root"
    assert said(BESIDE, root, "one")[:2] == [True, 1] and said(BESIDE, root, "one")[:2] == [True, 0]
    said(BESIDE, root, "two", "one")  # another command is another world
    said(BESIDE, root, "two", "one")  # and the functions share a counter
    assert said(BESIDE, root, "two")[:2] == [True, 1] and said(BESIDE, root, "two", "one")[:2] == [True, 0]


@pytest.mark.jax
def test_what_flattening_an_argument_reads_counts(tmp_path: Path) -> None:
    """The order of the leaves is read from a file before anything is traced: the trace is of that file."""
    order = tmp_path / "root.txt"
    order.write_text("a b")
    assert [said(FILE, tmp_path / "root")[:2] for _ in range(2)] == [[True, 1], [True, 0]]
    order.write_text("b a")
    assert [said(FILE, tmp_path / "root")[:2] for _ in range(2)] == [[True, 1], [True, 0]]


@pytest.mark.jax
def test_a_class_that_is_made_again_as_it_was_is_served(tmp_path: Path) -> None:
    """With leaves in another order than its attributes, nested, and with something beside them."""
    program = """
register_pytree_node(P, lambda p: ((p.b, p.a), p.mode), lambda mode, parts: P(parts[1], parts[0], mode))
def f(tree, *, last):
    traced.append(1)
    return [tree["k"][0].b * 10 + last.a]
def call(jit):
    return jit(f)({"k": [P(jnp.float32(1), jnp.float32(7))], "j": 2.0}, last=P(jnp.float32(3), jnp.float32(5), "other"))
"""
    assert [said(program, tmp_path / "root")[:2] for _ in range(2)] == [[True, 1], [True, 0]]


def test_the_arguments_are_those_of_the_nearest_call() -> None:
    """A call inside of another one, as in a callback, has its own; elsewhere there are none."""

    @holds_arguments
    def call(inner: Any, /, *args: Any, **kwargs: Any) -> Any:
        return inner()

    assert call(program_arguments, 1, a=2) == ((1,), {"a": 2})
    assert call(lambda: call(program_arguments, 3), 1) == ((3,), {})
    with pytest.raises(LookupError):
        program_arguments()
