"""Traces and graphs made of objects of other libraries are served while these are the same, and never afterwards."""

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.jax_programs import run
from tests.helpers.library_objects import kinds

pytestmark = pytest.mark.jax

PROGRAM = """
import json, sys, warnings
warnings.simplefilter("ignore")
import jax, jax.numpy as jnp
import jcache
from tests.helpers import library_objects as objects

kind, variant, root = sys.argv[1:]
jcache.enable(root, strict=True)
RECIPES = dict(table=objects.TABLE, network=objects.NETWORK, sparse=objects.CSR, configuration=objects.CONFIGURATION,
               model=objects.MODEL, physics=objects.PHYSICS)
NUMBER = dict(
    table=lambda each: float(each["a"].sum()), network=lambda each: float(sum(w for *_, w in each.edges.data("w", 1))),
    sparse=lambda each: float(each.sum()), configuration=lambda each: float(each.twice),
    model=lambda each: float(each.rate), physics=lambda each: float(each.body_mass[1]),
    wheel=lambda each: each.size[0],
)
CHANGE = dict(table="a value", network="an attribute of an edge", sparse="a value", configuration="a value",
              model="a field", physics="a mass")

class Wheel:
    __slots__ = ("size", "__weakref__")
    def __init__(self, size): self.size = size
jcache.register_key(Wheel, lambda wheel: [*wheel.size])

def change(it):
    if kind == "wheel":
        it.size[0] = 5.0
    else:
        [made] = [each for each in objects.changes() if each.recipe[0] == kind and each.name == CHANGE[kind]]
        made.make(it)

it = Wheel([2.0]) if kind == "wheel" else objects.build(RECIPES[kind])
if variant == "changed":
    change(it)
number, ran, x = NUMBER[kind], [], jnp.ones(2)

def in_closure(given):
    def step(x):
        print("traced")
        return x * number(given)
    return step

def in_global(x):
    print("traced")
    return x * number(it)

class Holder:
    def __init__(self, held): self.held = held
    def step(self, x):
        print("traced")
        return x * number(self.held)

def static(holder, x):
    print("traced")
    return x * number(holder.held)

import contextlib, io
def served(step, *args, **options):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        result = jcache.jit(step, check="never", **options)(*args)
    return [printed.getvalue().count("traced"), result.tolist()]

built = []
cache = jcache.GraphCache(root, check="never")
def of_argument(given):
    print("built")
    return number(given)
def of_global():
    print("built")
    return number(it)
def graph(build, *args):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        result = cache.get_or_build(build, *args)
    return [printed.getvalue().count("built"), result]

found = [served(in_closure(it), x), served(in_global, x), served(Holder(it).step, x),
         served(static, Holder(it), x, static_argnums=0), graph(of_argument, it), graph(of_global)]
if variant == "changed in between":
    change(it)
    found += [graph(of_argument, it), graph(of_global)]
print(json.dumps([found, [call.reason for call in jcache.stats().traces.calls]]))
"""


@pytest.mark.parametrize("kind", ["wheel", *(kind for kind in kinds() if kind != "yaml")])
def test_no_change_of_an_object_is_missed(tmp_path: Path, kind: str) -> None:
    """As closures, globals, attributes and arguments: served in the next process, made anew after any change."""

    def said(variant: str) -> Any:
        return run(PROGRAM, kind, variant, tmp_path / "root", env={"PYTHONPATH": Path(__file__).parents[2]}).value

    first, reasons = said("as it was")
    assert [count for count, _ in first] == [1] * 6, reasons
    again, reasons = said("changed in between")
    assert again[:6] == [[0, result] for _, result in first], reasons
    other, reasons = said("changed")
    assert [count for count, _ in other] == [1] * 4 + [0] * 2, reasons  # the graphs were built in between
    assert all(one != changed for (_, one), (_, changed) in zip(first, other, strict=True))
    assert again[6:] == [[1, result] for _, result in other[4:]]
