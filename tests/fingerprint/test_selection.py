"""Of a dict or configuration that code asks by constant names alone, only the items that it names count."""

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from jcache.fingerprint import changed_meanwhile, fingerprint
from jcache.fingerprint.attributes import HANDED_ON
from tests.helpers.fingerprints import imported

SOURCE = """
import argparse, dataclasses, inspect, operator, pprint, weakref
from collections import namedtuple
from functools import cached_property, lru_cache, partial
from typing import NamedTuple
from omegaconf import OmegaConf
import pydantic
import numpy as np

@dataclasses.dataclass(frozen=True)
class Inner:
    lr: float = 1.0
    name: str = "inner"

@dataclasses.dataclass(frozen=True)
class Frozen:
    lr: float = 1.0
    name: str = "frozen"
    inner: Inner = Inner()
    @property
    def half(self): return self.lr / 2
    @cached_property
    def third(self): return self.lr / 3
    def times(self, x): return self.lr * x
    def itself(self): return len(str(self))
    def alias(self):
        me = self
        return me.lr
    @lru_cache
    def kept(self): return len(repr(self))
    to_dict = dataclasses.asdict
    shown = property(str)
    rate = property(operator.attrgetter("name"))
    def of_any(*given): return given[0]
    def by_super(self): return super().__getstate__()
    def by_hook(self): return self.__getstate__()
    def of_self(self): return lr_of(self)

class Tuple(NamedTuple):
    lr: float = 1.0
    name: str = "tuple"
    inner: Inner = Inner()
    def times(self, x): return self.lr * x

@dataclasses.dataclass(unsafe_hash=True, order=True)
class Plain:
    lr: float = 1.0
    name: str = "plain"
    inner: Inner = Inner()
    def times(self, x): return self.lr * x

class Pair(Tuple):
    def first(self): return self[0]
    def dumped(self): return self._asdict()["lr"]
    lr_again = property(operator.itemgetter(0))

class Model(pydantic.BaseModel):
    lr: float = 1.0
    name: str = "model"
    inner: Inner = Inner()
    _hidden: float = 1.0
    def times(self, x): return self.lr * x

class Dumping(Model):
    def dumped(self): return self.model_dump()["lr"]
    def copied(self): return self.model_copy()
    @property
    def hidden(self): return self._hidden

def as_dict(lr=1.0, name="dict", inner=Inner()):
    return {"lr": lr, "name": name, "inner": {"lr": inner.lr, "name": inner.name}}

def Space(**fields): return argparse.Namespace(**{"lr": 1.0, "name": "space", "inner": Inner(), **fields})

def as_omegaconf(**fields): return OmegaConf.create(as_dict(**fields))

class Holder:
    conf = property(operator.attrgetter("cfg"))
    def __init__(self, cfg): self.cfg = cfg
    def own(self): return self.is_plain(self.cfg)
    def is_plain(self, cfg): return cfg == type(cfg)()
    @staticmethod
    def is_plain_too(cfg): return equal(cfg)
    def rate(self, x, *, cfg): return cfg.lr

def twice(f): return lambda cfg: f(cfg) + f(cfg)
def lr_of(cfg): return cfg.lr
def equal(cfg): return cfg == type(cfg)()
def dump_of(cfg): return cfg.model_dump()["name"]
def lr_in(cfg): return cfg["lr"]
def all_of(x, *, cfg=None): return lr_in(cfg) + inner_of(cfg["inner"])
def inner_of(cfg): return cfg.get("lr")
def whole(cfg): return sum(each for each in cfg.values() if isinstance(each, float))
NAME, KIND = "lr", "exp"
CFG = holder = None

def hold(cfg):
    global CFG, holder
    CFG, holder = cfg, Holder(cfg)
"""
MAKERS = ("Frozen", "Tuple", "Model", "as_omegaconf", "as_dict")
BY_NAME = {
    *("CFG.lr * x", "(lambda y: y * CFG.lr)(x)", "sum(CFG.lr * y for y in [x])", "CFG.lr + CFG.inner.lr"),
    *("holder.cfg.lr * x", "holder.cfg.inner.lr"),
}
BY_KEY = {
    'CFG["lr"] * x',
    'CFG.get("lr") * x',
    'CFG["inner"]["lr"] + CFG["lr"]',
    'holder.cfg["lr"]',
    'CFG.get("lr", 2)',
}
COMPUTED = {
    *("getattr(np, KIND)(CFG.lr)", "getattr(np.linalg, KIND, np.abs)(CFG.lr)", "getattr(CFG, 'lr', 1.0)"),
    *("CFG.lr if hasattr(CFG, 'absent') else CFG.inner.lr + CFG.lr", "isinstance(CFG, str) or CFG.lr"),
}
BOUND = {"c = CFG\n    return c.lr * x", "c = holder.cfg\n    d = c.inner\n    return d.lr + c.lr"}
OF_CLASSES = {"CFG.times(x)"}
OF_FROZEN = {"CFG.half * x", "CFG.third", "CFG.alias()", "CFG.of_self()"}
PASSED_ON = {
    "lr_in(CFG)",
    "CFG['lr'] if 'absent' not in CFG else 0",
    "all_of(x, cfg=CFG)",
    "c = holder.cfg\n    return lr_in(c) + c['lr']",
}
PASSED = {"lr_of(CFG)", "partial(lr_of, CFG)()", "lr_of(cfg=holder.cfg)", "c = CFG\n    return lr_of(c)"}
WHOLE = (
    *("getattr(CFG, NAME)", "operator.attrgetter(NAME)(CFG)", "vars(CFG)['lr']"),
    *("str(CFG)", "f'{CFG}'", "'{0.lr}'.format(CFG)", "[CFG][0].lr", "{'a': CFG}['a'].lr", "(CFG if x else None).lr"),
    *("CFG[0]", "CFG._asdict()['lr']", "CFG.model_dump()['lr']", "CFG.itself()", "CFG.first()", "len(CFG)", "CFG == 1"),
    *("[*CFG][0]", "CFG.items()", "CFG[NAME]", "CFG.get(NAME)", "CFG._replace(name='')[0]", "CFG['lr' if x else 'no']"),
    *("(c := CFG).lr", "dataclasses.asdict(CFG)['lr']", "(lambda c=CFG: c.lr)()", "holder.__dict__['cfg'].lr"),
    *(
        "Holder(CFG).cfg.lr",
        "str(lr_of(CFG))",
        "whole(CFG)",
        "all_of(x, **{'cfg': CFG})",
        "holder.cfg == CFG",
        "globals()['CFG'].lr",
        "eval('CFG.lr')",
    ),
    *("CFG == type(CFG)()", "{type(CFG)(): 1}.get(CFG)", "[type(CFG)()].count(CFG)", "operator.eq(CFG, type(CFG)())"),
    *("max(CFG, type(CFG)()).name", "CFG in [type(CFG)()]", "pprint.pformat(CFG)", "inspect.getattr_static(CFG, NAME)"),
    *("equal(CFG)", "lru_cache(equal)(CFG)", "weakref.ref(CFG)() == type(CFG)()", "'%s' % CFG", "CFG.__repr__()"),
    *("CFG.kept()", "CFG.to_dict()['name']", "CFG.shown", "CFG.rate", "CFG.of_any().name", "CFG.by_super()['name']"),
    *("CFG.by_hook()['name']", "CFG.dumped()", "CFG.lr_again", "CFG.copied().name", "CFG.hidden", "dump_of(CFG)"),
    *(
        "holder.cfg['lr'] + len(holder.conf['name'])",
        "getattr(holder, NAME[:0] + 'cfg').name + str(holder.cfg.lr)",
    ),
    *("'{0.cfg.name}'.format(holder) + str(holder.cfg.lr)", "holder.__getstate__()['cfg'].name + str(holder.cfg.lr)"),
    *("[value for _, value in CFG.items()] + [CFG['lr']]", "CFG['inner.lr']", "CFG['lr'] + CFG.get('inner.lr', 0)"),
    *("holder.own()", "holder.is_plain(CFG)", "partial(holder.is_plain_too, cfg=CFG)()", "partial(equal, CFG)()"),
    *("[holder][0].rate(x, cfg=CFG)", "twice(equal)(CFG)", "[CFG] == [type(CFG)()]", "(CFG, 1).index(type(CFG)())"),
    *("list(map(lr_of, [CFG]))", "dict(**CFG)['lr']", "vars(holder)['cfg'].lr", "CFG.copy(update={})", "CFG.inner"),
)


def source(expression: str) -> str:
    """A module with a function that reaches a configuration by globals, and one that is given it."""
    body = expression if "\n" in expression else f"return {expression}"
    taken = ", ".join(["x", *(each for each in ("CFG", "holder") if each in body)])
    return f"{SOURCE}\ndef build(x):\n    {body}\ndef given({taken}):\n    {body}\n"


def outcome(function: Callable[[Any], Any]) -> object:
    """What a function returns as a text, or the type of the error that it raises."""
    try:
        return repr(function(2.0))
    except Exception as error:  # noqa: BLE001 - many expressions do not fit the type
        return type(error)


def function_of(model: ModuleType, maker: str, fields: dict[str, Any], *, is_given: bool = False) -> Callable[..., Any]:
    """The function that uses a configuration with some fields."""
    model.hold(getattr(model, maker)(**fields))
    taken = inspect.signature(model.given).parameters.keys() - {"x"}
    return partial(model.given, **{each: vars(model)[each] for each in taken}) if is_given else model.build


def keys_of(model: ModuleType, maker: str, *fields: dict[str, Any], is_given: bool = False) -> list[str]:
    made = (function_of(model, maker, each, is_given=is_given) for each in fields)
    return [fingerprint(each, (2.0,)).hash for each in made]


FITTING = [
    (maker, expression)
    for makers, expressions in (
        (("as_dict", "as_omegaconf"), BY_KEY),
        (MAKERS[:-1], BY_NAME | BOUND),
        (MAKERS[:3], OF_CLASSES),
        (("Frozen", "Model"), PASSED),
        (("as_dict", "as_omegaconf"), PASSED_ON),
        (MAKERS[:1], OF_FROZEN),
        (("Plain", "Space"), BY_NAME | BOUND),
        (("Frozen", "Model"), COMPUTED),
    )
    for maker in makers
    for expression in sorted(expressions)
]


@pytest.mark.parametrize(
    ("maker", "expression", "is_given"),
    [(*each, given) for each in FITTING for given in (False, True) if not (given and "holder" in each[1])],
)  # any other object that is an argument counts as a whole
def test_fields_that_no_code_names_do_not_count(tmp_path: Path, maker: str, expression: str, is_given: bool) -> None:
    """Of frozen dataclasses, named tuples, pydantic models, configurations of OmegaConf and dicts, nested ones, too."""
    with imported(tmp_path, source(expression)) as model:
        fields: tuple[dict[str, Any], ...] = (
            {},
            {"name": "other"},
            {"inner": model.Inner(name="other")},
            {"lr": 2.0, "inner": model.Inner(2.0)},
        )
        first, *same, other = keys_of(model, maker, *fields, is_given=is_given)
    assert set(same) == {first} != {other}


FIELDS = st.fixed_dictionaries(
    {}, optional={"lr": st.sampled_from([1.0, 2.0]), "name": st.sampled_from(["a", "bc"]), "inner": st.integers(0, 3)}
)


@pytest.mark.parametrize(
    "expression", sorted({*BY_NAME, *BY_KEY, *BOUND, *OF_CLASSES, *OF_FROZEN, *COMPUTED, *PASSED, *PASSED_ON, *WHOLE})
)
@settings(max_examples=15)
@given(
    maker=st.sampled_from([*MAKERS, "Pair", "Dumping", "Plain", "Space"]),
    one=FIELDS,
    other=FIELDS,
    is_given=st.booleans(),
)
def test_equal_keys_give_equal_results(
    tmp_path_factory: pytest.TempPathFactory,
    expression: str,
    maker: str,
    one: dict[str, Any],
    other: dict[str, Any],
    is_given: bool,
) -> None:
    """Whatever code does with a configuration: if it uses it in any other way than by names, all of it counts."""
    with imported(tmp_path_factory.getbasetemp() / "selected", source(expression)) as model:
        inner = [model.Inner(lr, name) for lr in (1.0, 2.0) for name in ("a", "bc")]
        made = [each | ({"inner": inner[each["inner"]]} if "inner" in each else {}) for each in (one, other)]
        results = [outcome(function_of(model, maker, fields, is_given=is_given)) for fields in made]
        keys = keys_of(model, maker, *made, is_given=is_given)
    assert keys[0] != keys[1] or results[0] == results[1]


CHANGING = {
    "in place": "CFG['lr'] = x\n    return CFG['name']",
    "by another name": "holder.cfg['lr'] = x\n    return CFG['lr']",
    "a field of a model": "CFG.lr += x\n    return CFG.lr",
}


@pytest.mark.parametrize("body", CHANGING.values(), ids=CHANGING)
@pytest.mark.parametrize("maker", ["as_dict", "Model"])
def test_what_code_changes_counts_as_a_whole(tmp_path: Path, maker: str, body: str) -> None:
    """Also if another name is used by constant names alone."""
    with imported(tmp_path, source(body)) as model:
        first, *others = keys_of(model, maker, {}, {"lr": 2.0}, {"name": "other"})
    assert first not in others


def test_a_field_that_the_code_names_later_counts(tmp_path: Path) -> None:
    """Where a function that the configuration itself holds names another field, or is given all of it."""
    held = "f = lambda: holder.cfg['name']\n    return CFG['lr'] + len(FUNCTIONS[0]())"
    with imported(tmp_path, source(held) + "FUNCTIONS = [lambda: CFG['name']]\n") as model:
        first, other = keys_of(model, "as_dict", {}, {"name": "other"})
    assert first != other


def test_a_field_that_is_looked_for_and_comes_later_counts(tmp_path: Path) -> None:
    """Where code asks whether it is there, or has a value for its absence."""
    for at, expression in enumerate(("'extra' in CFG", "CFG.get('extra', 1)", "CFG['lr'] if 'extra' in CFG else 1")):
        with imported(tmp_path / str(at), source(expression)) as model:
            model.hold({"lr": 1.0, "name": "a"})
            before = fingerprint(model.build, (2.0,)).hash
            model.hold({"lr": 1.0, "name": "b"})
            same = fingerprint(model.build, (2.0,)).hash
            model.hold({"lr": 1.0, "name": "a", "extra": 2})
            assert fingerprint(model.build, (2.0,)).hash != before == same


@pytest.mark.parametrize("maker", ["Frozen", "Tuple", "as_dict"])
def test_fields_may_be_arrays(tmp_path: Path, maker: str) -> None:
    """They are never compared, only encoded."""
    asking = 'CFG["lr"].sum()' if maker == "as_dict" else "CFG.lr.sum()"
    with imported(tmp_path, source(asking)) as model:
        first, same, other = keys_of(
            model, maker, {"lr": np.arange(3.0)}, {"lr": np.arange(3.0), "name": "other"}, {"lr": np.ones(3)}
        )
    assert first == same != other


def test_references_between_fields_count(tmp_path: Path) -> None:
    """A configuration of OmegaConf with interpolations counts as a whole."""
    with imported(tmp_path, source("CFG.lr")) as model:
        found = []
        for rate in (1.0, 2.0):
            model.hold(model.OmegaConf.create({"lr": "${inner.lr}", "inner": {"lr": rate}}))
            found.append(fingerprint(model.build, (2.0,)).hash)
    assert found[0] != found[1]


def test_what_is_left_out_is_compared(tmp_path: Path) -> None:
    """It has a digest beside the key, by the name of the field."""
    with imported(tmp_path, source("CFG.lr")) as model:
        model.hold(model.Frozen())
        found = fingerprint(model.build, (2.0,))
    assert found.parts["global CFG"].startswith("Frozen(lr=1.0) ")
    assert {"attribute name of Frozen", "attribute inner of Frozen"} <= set(found.loose)


def test_what_is_left_out_of_what_is_handed_on(tmp_path: Path) -> None:
    """It is told apart, and so are the fields of what is in there: a class may show them all."""
    with imported(
        tmp_path, source("(Holder(CFG), CFG.inner.lr)") + "class Holder:\n    def __init__(self, *a): ...\n"
    ) as model:
        model.hold(model.Frozen(inner=model.Frozen()))
        found = fingerprint(model.build, (2.0,))
    assert {f"{HANDED_ON}attribute name of {each}" for each in ("Frozen", "Frozen#2")} <= set(found.loose)
    assert "attribute name of Frozen" not in found.loose


@pytest.mark.parametrize("kind", ["argparse.Namespace", "SimpleNamespace", "Holder"])
def test_an_attribute_that_is_only_written_is_told(tmp_path: Path, kind: str) -> None:
    """Serving a graph would not set it; serving a trace sets it again."""
    for for_trace in (False, True):
        with imported(tmp_path, source("CFG.lr") + WRITER.replace("%s", kind)) as model:
            found = fingerprint(model.write, (2.0,), for_trace=for_trace)
            model.write(2.0)
            assert bool(changed_meanwhile(found, model.write, (2.0,), {})) is not for_trace
            assert [each[0] for each in found.snapshot.sets.settings] == ["name"] * for_trace


WRITER = """
from types import SimpleNamespace
own = %s(1.0) if "%s" == "Holder" else %s(lr=1.0, name="a")
own.lr, own.name = 1.0, "a"
def write(x):
    own.name = "b"
    return own.lr * x
"""
CHECKED = """
class Manager:
    def __enter__(self): return self
    def __exit__(self, kind, error, traceback):
        self.text = str(error)
        return True
def checked():
    if CFG.lr < 5:
        raise ValueError(f"bad {CFG}")
def handled():
    try:
        checked()
    except ValueError as error:
        return str(error)
def managed():
    with Manager() as manager:
        checked()
    return manager.text
"""


@pytest.mark.parametrize(("name", "counts"), [("checked", False), ("handled", True), ("managed", True)])
def test_what_is_shown_in_an_error_counts_where_code_may_handle_it(tmp_path: Path, name: str, counts: bool) -> None:
    """A field that is only shown there is left out as one that is handed on to unknown functions."""
    keys = set()
    with imported(tmp_path, source(f"{name}()") + CHECKED) as model:
        for each in ("a", "b"):
            model.hold(model.Frozen(name=each))
            found = fingerprint(model.build, (2.0,))
            keys.add(found.hash)
            assert counts or f"{HANDED_ON}attribute name of Frozen" in found.loose
    assert len(keys) == 1 + counts


LINEN = """
import dataclasses
from flax import linen as nn

@dataclasses.dataclass(frozen=True)
class Config:
    width: int = 8
    name: str = "a"

class Block(nn.Module):
    cfg: Config
    @nn.compact
    def __call__(self, x): return nn.relu(nn.Dense(self.cfg.width)(x))

class Net(nn.Module):
    config: Config
    @nn.compact
    def __call__(self, x):
        %s
        return nn.Dense(1)(Block(self.config)(x))

def build(x): return model.apply({}, x)
"""


@pytest.mark.parametrize(
    ("statement", "counts"), [("", False), ("print(self.config)", False), ("str(self.config)", True)]
)
@pytest.mark.parametrize("by_method", [False, True])
def test_a_configuration_in_a_module_of_flax_counts_by_its_fields(
    tmp_path: Path, statement: str, counts: bool, by_method: bool
) -> None:
    """Flax compares modules as a whole for its own caches alone; other code that shows one makes all of it count. So
    it is for `model.apply` itself.
    """
    with imported(tmp_path, LINEN % statement) as model:
        found = []
        for config in (model.Config(), model.Config(name="b"), model.Config(width=9)):
            vars(model)["model"] = net = model.Net(config)
            call: tuple[Any, Any] = (net.apply, ({}, 2.0)) if by_method else (model.build, (2.0,))
            found.append(fingerprint(*call, for_trace=True))
    keys = [each.hash for each in found]
    assert keys[0] != keys[2] and (keys[0] != keys[1]) == counts
    assert counts or "attribute name of Config" in found[0].loose
