"""A function is traced once for arguments of certain types, whatever uses it, as with `jax.jit`."""

from pathlib import Path

import pytest

from tests.helpers.jax_programs import run

pytestmark = pytest.mark.jax
PROGRAM = """
import json, pathlib, sys
import jax, jax.numpy as jnp
import jcache
jcache.enable(sys.argv[1], strict=True)
rate, traced = pathlib.Path(sys.argv[2]), []
x = jnp.ones(3)

@jcache.jit
def inner(x):
    traced.append("inner")
    return x * float(rate.read_text())

@jcache.jit
def outer(x):
    traced.append("outer")
    return inner(x) + 1

results = [float(eval(use)[0]) for use in sys.argv[3:]]
print(json.dumps([results, traced, [each.outcome for each in jcache.stats().traces.calls if each.key]]))
"""
USES: dict[tuple[str, ...], list[str]] = {
    ("inner(x)", "outer(x)"): ["stored", "stored"],
    ("outer(x)", "inner(x)"): ["stored", "stored"],
    ("inner.lower(x).compile()(x)", "inner(x)"): ["stored"],
    ("jax.grad(lambda x: inner(x).sum())(x)", "inner(x)"): ["stored"],
}


GRAPH = """
import json, os, sys
import jax.numpy as jnp
import jcache
jcache.enable(sys.argv[1], strict=True)

@jcache.jit
def inner(x):
    return x * os.path.getsize(sys.argv[2])

@jcache.graph
def table(n):
    return [float(each) * n for each in inner(jnp.ones(2))]

inner(jnp.ones(2))
print(json.dumps([table(2), jcache.stats().graphs.hits]))
"""


def test_a_graph_depends_on_what_a_function_has_read_that_was_traced_before(tmp_path: Path) -> None:
    """It calls a jitted function that JAX does not trace again."""
    file = tmp_path / "file"
    file.write_text("a")
    assert [run(GRAPH, tmp_path / "root", file).value for _ in range(2)] == [[[2.0, 2.0], 0], [[2.0, 2.0], 1]]
    file.write_text("abc")
    assert run(GRAPH, tmp_path / "root", file).value == [[6.0, 6.0], 0]


CHANGED = PROGRAM.replace("results = ", "inner(x); rate.write_text('5'); inner(jnp.ones(4)); results = ")


def test_a_change_between_two_traces_is_seen(tmp_path: Path) -> None:
    """The first jaxpr was made from what the file held before, so what uses it is not stored."""
    rate, uses = tmp_path / "rate", ("outer(x)", "outer(jnp.ones(4))")
    for start in range(2):
        rate.write_text("2")
        results, _, outcomes = run(CHANGED, tmp_path / "root", rate, *uses).value
        assert "hit" not in outcomes[2:] and (start or results == [3.0, 6.0])


@pytest.mark.parametrize("uses", USES)
def test_what_a_function_has_read_counts_where_its_jaxpr_is_used(uses: tuple[str, ...], tmp_path: Path) -> None:
    """It is read once, and a change of it is seen by the functions that use the jaxpr."""
    rate = tmp_path / "rate"

    def start(text: str) -> tuple[list[float], list[str], list[str]]:
        rate.write_text(text)
        results, traced, outcomes = run(PROGRAM, tmp_path / "root", rate, *uses).value
        return results, traced, outcomes

    first = start("2")
    assert first[2] == USES[uses] and len(first[1]) == len({*first[1]})
    assert start("2") == (first[0], ["inner"] * (len(uses) - len(first[2])), ["hit"] * len(first[2]))
    changed = start("3")
    assert changed[0] != first[0] and "hit" not in changed[2]
    assert start("3")[0] == changed[0]


TWICE = """
import json, sys
import jax, numpy as np
import jcache
jcache.enable(sys.argv[1], strict=True)
rng = np.random.default_rng(0)

@jcache.jit
def drawn(x):
    return x + rng.normal()

values = [float(eval(use)) for use in sys.argv[2:]]
print(json.dumps([values, [each.reason for each in jcache.stats().traces.calls]]))
"""


@pytest.mark.parametrize(
    "uses", [["drawn(1.0)", "jax.jit(lambda x: -drawn(x))(1.0)"], ["jax.grad(drawn)(1.0)", "drawn(1.0)", "drawn(1)"]]
)
def test_what_draws_and_is_used_inside_others_is_not_served(uses: list[str], tmp_path: Path) -> None:
    """JAX would trace it once for both, so that each start draws once, and all starts the same numbers."""
    first, _ = run(TWICE, tmp_path, *uses).value
    for _ in range(2):
        values, reasons = run(TWICE, tmp_path, *uses).value
        assert values == first
        assert "it counts, or draws random numbers, and is used inside others as well" in reasons
