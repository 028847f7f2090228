"""What functions ask of what they are passed, directly and by passing it on."""

from pathlib import Path
from types import FunctionType

import pytest

from jcache.fingerprint.code import meaning_of
from jcache.fingerprint.passes import followed
from jcache.fingerprint.receivers import COMPARED, Passed
from tests.helpers.fingerprints import imported

SOURCE = """
import functools, jax, losses, pprint
from functools import partial
def rate(cfg): return cfg["lr"]
def twice(x, cfg): return x * rate(cfg) + cfg["n"]
def inner(x, *, c): return rate(c["opt"]) + c["opt"]["n"]
def both(a, b): return rate(a) + b["m"]
def again(cfg, n): return again(cfg, n - 1) if n else cfg["lr"]
def rest(*cfgs): return cfgs[0]
def named(**cfgs): return cfgs
def nested(cfg): return lambda: cfg["lr"]
def shown(cfg): return str(cfg)
def by_attribute(cfg): return cfg.lr + cfg.opt.lr
decorated = functools.lru_cache(rate)
def make():
    def local(cfg): return cfg["lr"]
    def build(x): return local(CFG)
    return build
CFG, OTHER = {}, {}
%s
"""
ASKED: dict[str, set[tuple[str, str | None]]] = {
    "rate(CFG)": {("CFG", "[lr]")},
    "twice(x, CFG)": {("CFG", "[lr]"), ("CFG", "[n]")},
    "twice(cfg=CFG, x=x)": {("CFG", "[lr]"), ("CFG", "[n]")},
    "inner(x, c=CFG)": {("CFG", "[opt]"), ("CFG[opt]", "[lr]"), ("CFG[opt]", "[n]")},
    "both(CFG, OTHER)": {("CFG", "[lr]"), ("OTHER", "[m]")},
    "both(CFG, CFG)": {("CFG", "[lr]"), ("CFG", "[m]")},
    "again(CFG, 3)": {("CFG", "[lr]")},
    "rate(CFG['opt'])": {("CFG[opt]", "[lr]")},
    "nested(CFG)()": {("CFG", "[lr]")},
    "shown(CFG)": {("CFG", COMPARED)},
    "by_attribute(CFG)": {("CFG", ".lr"), ("CFG", ".opt")},
    "losses.loss(CFG)": {("CFG", "[scale]")},
    "rest(CFG)": {("CFG", "()")},
    "named(cfg=CFG)": {("CFG", "()")},
    "decorated(CFG)": {("CFG", COMPARED)},
    "partial(rate, CFG)()": {("CFG", "[lr]")},
    "partial(both, {'lr': 1}, b=CFG)()": {("CFG", "[m]")},
    "functools.lru_cache(by_attribute)(CFG)": {("CFG", ".lr"), ("CFG", ".opt")},
    "pprint.pformat(CFG)": {("CFG", COMPARED)},
    "jax.grad(CFG)": {("CFG", "()")},
    "jax.value_and_grad(twice)(x, CFG)": {("CFG", "[lr]"), ("CFG", "[n]")},
    "missing(CFG)": {("CFG", COMPARED)},
}


def asked_through(function: FunctionType) -> set[tuple[str, str | None]]:
    found = set[tuple[str, str | None]]()
    for name, asks in meaning_of(function).asks().of_names.items():
        for each in asks if name in {"CFG", "OTHER", "CFG[opt]"} else ():
            found.update(followed(function, name, each) if isinstance(each, Passed) else [])
    return found


@pytest.mark.parametrize("expression", ASKED)
def test_what_a_function_asks_of_what_it_is_passed(tmp_path: Path, expression: str) -> None:
    """Of a parameter, through any number of functions of the user's; of others nothing is known."""
    files = {
        "model.py": SOURCE % f"def build(x): return {expression}",
        "losses.py": "def loss(c): return c['scale']\n",
    }
    with imported(tmp_path, files) as model:
        found = asked_through(model.build)
    of_items = {(name, what) for name, what in found if what in {None, COMPARED} and name.endswith("]")}
    assert found - of_items == ASKED[expression]


def test_a_function_in_a_closure(tmp_path: Path) -> None:
    """It is found in its cell."""
    with imported(tmp_path, {"model.py": SOURCE % "build = make()", "losses.py": ""}) as model:
        assert asked_through(model.build) == {("CFG", "[lr]"), ("CFG[lr]", None)}
