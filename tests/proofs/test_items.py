"""Whatever item of a dict a function's result depends on is in the function's key, however the function reaches it."""

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from jcache.fingerprint import fingerprint
from tests.helpers.fingerprints import imported

HEAD = """
import copy, functools, json, operator
CFG = {cfg!r}
OTHER = {cfg!r}
alias = CFG
def total(given): return sum(v for v in given.values() if type(v) is int)
def one(given, name='a'): return given[name]
def by_name(): return CFG['b']
def default(given=CFG): return given['c']
class Model:
    def __init__(self, cfg):
        self.cfg, self.OTHER = cfg, cfg
    def own(self): return self.cfg['c']
    @property
    def whole(self): return total(self.cfg)
    def __call__(self): return self.cfg.get('b', 0)
class Derived(Model):
    def own(self): return super().own() + getattr(self, 'cfg')['a']
model, derived = Model(CFG), Derived(OTHER)
def around(cfg):
    def inner(): return cfg['a']
    def loop(): return sum(cfg[each] for each in ('b', 'c'))
    def later(): return (lambda: cfg.get('c'))()
    return inner, loop, later
inner, loop, later = around(CFG)
"""
READS = (
    *("CFG['a']", "CFG.get('b', 1)", "int('c' in CFG)", "CFG['d']['x']", "CFG['d'].get('y', 0)", "OTHER['b']"),
    *("alias['b']", "total(CFG)", "one(CFG)", "one(OTHER, 'c')", "by_name()", "default()", "len(CFG)", "len(OTHER)"),
    *("model.own()", "model.whole", "model()", "derived.own()", "derived.cfg['b']", "model.OTHER['a']"),
    *("inner()", "loop()", "later()", "sum(v for v in CFG.values() if type(v) is int)", "total({**OTHER, 'd': 0})"),
    *("operator.itemgetter('b')(CFG)", "operator.attrgetter('cfg')(model)['c']", "(lambda: OTHER['c'])()"),
    *("[CFG[each] for each in 'ab'][1]", "globals()['CFG']['a']", "eval('OTHER')['b']", "len(json.dumps(CFG))"),
    *("vars(model)['cfg']['c']", "copy.copy(CFG)['a']", "(CFG | OTHER)['c']"),
    *("functools.partial(one, CFG)()", "model.__dict__['cfg']['a']", "CFG.__getitem__('b')", "matched()"),
)
STATEMENTS = ("x += {}", "y = {}\n    x += y", "if {}: x += 2", "x = x * 2 + ({})", "def f(): return {}\n    x += f()")
USE = "def matched():\n    match CFG:\n        case {'c': c}: return c\ndef use(x):\n"
CFG: dict[str, Any] = {"a": 1, "b": 2, "c": 3, "d": {"x": 4, "y": 5}}


def read(bodies: list[tuple[str, str]], cfg: dict[str, Any], directory: Path) -> tuple[object, str]:
    """Return what a function that reads a dict gives, and its key."""
    lines = "".join(f"    {statement.format(body)}\n" for statement, body in bodies)
    with imported(directory, f"{HEAD.format(cfg=cfg)}{USE}{lines}    return x\n") as module:
        key = fingerprint(module.use, (1,)).hash
        return module.use(1), key


@pytest.mark.whole
@given(bodies=st.lists(st.tuples(st.sampled_from(STATEMENTS), st.sampled_from(READS)), min_size=1, max_size=3))
def test_an_item_that_has_an_effect_is_in_the_key(
    bodies: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """By an index, an alias, a helper, a closure, an attribute, or with all others."""
    directory = tmp_path_factory.mktemp("items")
    before, key = read(bodies, CFG, directory)
    for path in (["a"], ["b"], ["c"], ["d", "x"], ["d", "y"]):
        changed = copy.deepcopy(CFG)
        holder = changed["d"] if len(path) > 1 else changed
        holder[path[-1]] += 10
        after, other = read(bodies, changed, directory)
        assert (before == after) or (key != other), (path, bodies)
    assert read(bodies, CFG, directory) == (before, key)
