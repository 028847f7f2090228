"""Errors of `checkify` in results: in the process after the one that traced, they are the same and say the same."""

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import version_of
from tests.helpers.jax_programs import run

pytestmark = [
    pytest.mark.jax,
    pytest.mark.contract,
    pytest.mark.skipif(version_of("jax") < [0, 6], reason="its jaxlib cannot make a traceback from frames"),
]

# Written to a file, whose lines the tracebacks show.
CHECKED = """
import jax
import jax.numpy as jnp
from jax.experimental import checkify

def positive(x):
    checkify.check(jnp.all(x > 0), "the least is {least}", least=x.min())
    return jnp.log(x)

def step(x, table):
    checkify.check(table.sum() < 100, "too much")
    return positive(x) * 2 + table[3]

def loop(x, table):
    def body(i, value):
        checkify.check(value[0] < 5, "{i} is too late: {value}", i=i, value=value)
        return value * x + 1
    return jax.lax.fori_loop(0, table.shape[0], body, table[:2])
"""
PROGRAM = """
import json, sys, traceback
import jax, jax.numpy as jnp
from jax.experimental import checkify
sys.path.insert(0, sys.argv[1])
import checked
if sys.argv[2] == "jax":
    jit = jax.jit
else:
    import jcache
    jcache.enable(sys.argv[2], strict=True)
    jit = jcache.jit
told = []
def tell(error, out):
    told.append([error.get(), str(out)])
    for act in (error.throw, lambda: checkify.check_error(error)):
        try:
            act()
        except Exception as raised:
            told.append("".join(traceback.format_exception(raised)).replace(sys.argv[1], ""))
table = jnp.arange(5.0)
for errors in (checkify.user_checks, checkify.all_checks):
    for function in (checked.step, checked.loop):
        checks = checkify.checkify(function, errors=errors)
        jitted = jit(checks)
        for x, given in ((2.0, table), (-1.0, table), (0.5, table * 90), (3.0, table[:3])):
            tell(*jitted(x, given))
        tell(*jit(jax.vmap(checks, in_axes=(0, None)))(jnp.array([1.0, -1.0]), table))
calls = [] if jit is jax.jit else [[one.outcome, one.reason] for one in jcache.stats().traces.calls]
print(json.dumps([told, calls]))
"""


def test_errors_are_the_same_in_the_next_process(tmp_path: Path) -> None:
    """Messages, types and tracebacks are those under `jax.jit`, also where the program lies in another directory."""
    places = [tmp_path / "here", tmp_path / "there"]
    for place in places:
        place.mkdir()
        (place / "checked.py").write_text(CHECKED)

    def said(place: Path, whose: object) -> list[Any]:
        found: list[Any] = run(PROGRAM, place, whose, cwd=place, new_interpreter=True).value
        return found

    expected, _ = said(places[0], "jax")
    assert sum("Traceback" in each for each in expected) > 10 and any("is too late" in str(each) for each in expected)
    for _ in range(2):
        told, calls = said(places[0], tmp_path / "root")
        assert told == expected
    assert calls and {outcome for outcome, _ in calls} == {"hit"}, calls
    told, _ = said(places[1], tmp_path / "root")
    assert told == expected
