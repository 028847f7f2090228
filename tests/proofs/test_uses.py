"""Random uses of jitted functions, by themselves and inside others: each is traced as often as under `jax.jit`."""

import json
import random
from pathlib import Path

import pytest

from tests.helpers.jax_programs import run

pytestmark = [pytest.mark.jax, pytest.mark.whole, pytest.mark.smoke, pytest.mark.full]
PROGRAM = """
import functools, json, os, sys
import jax, jax.numpy as jnp, numpy as np
import jcache
jcache.enable(sys.argv[1], strict=True)
jit = jcache.jit if sys.argv[2] == "jcache" else jax.jit

def made(number, draws):
    told, drawn = [], np.random.default_rng(0)
    def noise(name, x):
        told.append((name, x.shape))
        if draws in ("file", "size") and name not in ("inner", "act"): return 2.0 + number
        if draws == "file":
            with open(sys.argv[4]) as file: return float(file.read()) + number
        if draws == "size":
            return os.path.getsize(sys.argv[4]) + number
        return drawn.normal() if draws else 2.0 + number
    @jit
    def inner(x): return x * noise("inner", x)
    @functools.partial(jit, static_argnums=1, static_argnames="k")
    def many(tree, n, *, b=1.0, k="a"): return {"x": tree["x"] * n * noise("many" + k, tree["x"]), "b": (b, tree["b"])}
    @jit
    def outer(x): return inner(x) + many({"x": x, "b": x}, 2)["x"] * noise("outer", x)
    @jit
    def loss(x): return (inner(x) ** 2).sum() + noise("loss", x)
    class Layer:
        @functools.partial(jit, static_argnums=0)
        def act(self, x): return x - noise("act", x)
        @functools.partial(jit, static_argnums=0)
        def step(self, x): return x - jax.grad(lambda x: self.act(x).sum())(x) + loss(x)
    return told, dict(inner=inner, many=many, outer=outer, loss=loss, layer=Layer(), x=jnp.arange(3.0), y=jnp.ones(2))

found = []
for number, (draws, uses) in enumerate(json.loads(sys.argv[3])):
    told, names = made(number, draws)
    names |= dict(jax=jax, jnp=jnp)
    results = [jax.tree_util.tree_map(lambda leaf: np.asarray(leaf).tolist(), eval(use, names)) for use in uses]
    found.append([told, results])
print(json.dumps(found, default=str))
"""
USES = (
    *("inner(x)", "inner(y)", "outer(x)", "outer(y)", "loss(x)", "loss(y)", "layer.act(x)", "layer.step(x)"),
    *("jax.grad(loss)(x)", "jax.value_and_grad(loss)(x)", "jax.vmap(inner)(jnp.ones((2, 3)))", "jax.jit(inner)(x)"),
    *("jax.jit(lambda x: inner(x) * loss(x))(x)", "inner.lower(x).compile()(x)", "outer.eval_shape(x).shape"),
    *("str(inner.trace(x).jaxpr.in_avals)", "jax.jvp(inner, (x,), (x,))", "jax.vmap(jax.grad(loss))(jnp.ones((4, 3)))"),
    *("many({'x': x, 'b': y}, 2)", "many({'x': x, 'b': y}, n=2)['b'][1]", "many({'x': x, 'b': y}, 2, k='b', b=y)"),
    *("jax.jit(lambda x: many({'x': x, 'b': y}, 2, b=x, k='b'))(y)", "jax.lax.map(inner, jnp.ones((2, 3)))"),
    *("jax.jit(lambda x: many({'b': y, 'x': x}, 2))(x)", "jax.hessian(loss)(y)", "jax.checkpoint(loss)(x)"),
)
SEQUENCES = 40


def drawn_from(chance: random.Random, kinds: list[object], count: int) -> list[tuple[object, list[str]]]:
    """Return sequences of uses, each with what its functions use while they are traced."""
    return [(kinds[at % len(kinds)], [chance.choice(USES) for _ in range(chance.randint(2, 6))]) for at in range(count)]


@pytest.mark.parametrize("kind", ["file", "size"])
def test_a_change_is_seen_by_all_uses(kind: str, tmp_path: Path, chance: random.Random) -> None:
    """Whichever use has read the file: another one that has used its trace is not served after a change."""
    drawn, rate = drawn_from(chance, [kind], SEQUENCES // 2), tmp_path / "rate"
    expected: dict[str, list[list[object]]] = {}
    for text in ("2", "2", "30", "30", "2"):
        rate.write_text(text)
        if text not in expected:
            expected[text] = run(PROGRAM, tmp_path / "root", "jax", json.dumps(drawn), rate).value
        found = run(PROGRAM, tmp_path / "root", "jcache", json.dumps(drawn), rate).value
        for (_, given), (_, right), sequence in zip(found, expected[text], drawn, strict=True):
            assert given == right, (text, sequence)


def test_each_use_traces_what_it_would_trace_under_jax(tmp_path: Path, chance: random.Random) -> None:
    """The results are the same in all starts; in the first one, functions are traced in the same order as well."""
    drawn = drawn_from(chance, [0, 1], SEQUENCES)

    def told(jit: str) -> list[list[object]]:
        found: list[list[object]] = run(PROGRAM, tmp_path / "root", jit, json.dumps(drawn)).value
        return found

    expected = told("jax")
    assert len(expected) == SEQUENCES
    for start in range(3):
        for found, right, sequence in zip(told("jcache"), expected, drawn, strict=True):
            assert found[1] == right[1], (start, sequence)
            assert start or found[0] == right[0], sequence
