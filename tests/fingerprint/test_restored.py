"""What a call sets, and a served call sets again."""

import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, strategies as st

from jcache.fingerprint import changed_meanwhile, fingerprint
from jcache.fingerprint.restored import Settings
from tests.helpers.fingerprints import imported

SOURCE = """
import numpy as np
value = None
TABLE, BASE, SEVERAL = {}, np.arange(6.0), []
class Slotted:
    __slots__ = ("value",)
    def __init__(self): self.value = None
class Held:
    shared = None
    def __init__(self, value=None): self.value, self.other = value, None
class Kept:
    shared = None
    def __setattr__(self, name, value): raise AttributeError(name)
    def set(self, value): self.__dict__["value"] = value
held, kept, slotted, layers = Held(), Kept(), Slotted(), [Held("a"), Held("b")]
kept.set(None)
def around():
    inner = None
    def turn(new):
        nonlocal inner
        inner = new
    def get(): return inner
    return turn, get
turn, get = around()
def build(x):
    global value
    new = NEW
    value, held.value, held.other, Held.shared, get(), kept.value, TABLE, layers, slotted.value
    @
    return x
"""
PLAIN = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
)
ARRAYS = ("arange(3)", "zeros((2, 0))", "array(1.5)", "array([1j])", "array([True, False])", "ones((1, 2), 'f2')")
VALUES = st.recursive(
    PLAIN.map(repr) | st.sampled_from(ARRAYS).map(lambda each: f"np.{each}"),
    lambda inner: st.lists(inner, max_size=3).map(lambda items: "(" + "".join(f"{each}, " for each in items) + ")"),
    max_leaves=5,
)
"""Expressions of values that can be set again."""


def source(statement: str, new: str = "'new'") -> str:
    return SOURCE.replace("@", statement).replace("NEW", new)


def called(model: ModuleType) -> tuple[list[str], Settings]:
    """Return the reasons why a call is not stored that sets something, and what it sets."""
    made = fingerprint(model.build, (1,), for_trace=True)
    model.build(1)
    changed = changed_meanwhile(made, model.build, (1,), {})
    return changed, json.loads(json.dumps(made.snapshot.sets.settings))


def set_again(model: ModuleType, settings: Settings) -> None:
    fingerprint(model.build, (1,), for_trace=True).snapshot.setter(settings)()


PLACES = {
    "value = new": "value", "held.value = new": "held.value", "layers[1].value = new": "layers[1].value",
    "layers[0].value = new": "layers[0].value", "Held.shared = new": "Held.shared", "turn(new)": "get()",
    "kept.set(new) or kept.value": "kept.value", "TABLE['a'] = new": "TABLE.get('a')",
    "TABLE.update({('k', 2): new})": "TABLE.get(('k', 2))",
    "if held.value is None: held.value = new": "held.value",
}  # fmt: skip


@pytest.mark.parametrize("statement", PLACES)
def test_a_place_gets_the_value_again(statement: str, tmp_path: Path) -> None:
    """A global, an attribute of one of several objects or of a class, a variable of a closure, an item of a dict."""
    text = source(statement, "(True, 'b', 2.5, np.arange(4.0))")
    with imported(tmp_path, text) as model:
        changed, settings = called(model)
        after = eval(PLACES[statement], vars(model))
    with imported(tmp_path, text) as model:
        set_again(model, settings)
        again = eval(PLACES[statement], vars(model))
        others = [each.value for each in model.layers if each.value is not again]
    assert changed == [] and again[:3] == after[:3] == (True, "b", 2.5)
    assert np.array_equal(again[3], after[3]) and len(others) == 2 - statement.startswith("layers")


@given(value=VALUES)
def test_any_value_comes_back_as_it_was(value: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Of the same type, and equal; an array is writable."""
    directory, text = tmp_path_factory.mktemp("values"), source("held.value = new", value)
    new = eval(value, {"np": np})
    with imported(directory, text) as model:
        model.held.value = "before" if type(new) is int else 7
        changed, settings = called(model)
    with imported(directory, text) as model:
        model.held.value = "before" if type(new) is int else 7
        set_again(model, settings)
        assert changed == [] and repr(model.held.value) == repr(new)
        assert not isinstance(new, np.ndarray) or model.held.value.flags.writeable


@pytest.mark.parametrize(
    ("statement", "new"),
    [
        ("slotted.value = new", "(1,)"), ("held.value = new", "object()"), ("held.value = new", "[1]"),
        ("held.value = new", "float('nan')"), ("held.value = new", "BASE"), ("held.value = new", "BASE[2:]"),
        ("held.value = new", "np.arange(6).reshape(2, 3).T"), ("held.value = new", "np.array([object()])"),
        ("held.value = held.other = new", "np.arange(3)"), ("held.value = new", "(1, BASE)"),
        ("held.value = new", "'\\ud800'"), ("held.value = new", "np.zeros(1 << 20)"),
        ("TABLE['a'] = TABLE.pop('a') + 1", "0"), ("TABLE['a'] = TABLE.pop('a')", "0"), ("TABLE.pop('a')", "0"),
        ("held.value = new", "np.broadcast_to(np.arange(3.0), (3,))"), ("del held.value", "None"),
    ],
)  # fmt: skip
def test_what_cannot_be_set_again_is_told(statement: str, new: str, tmp_path: Path) -> None:
    """Objects, lists, views of what is there already, an array under two names, and what has no plain bytes."""
    with imported(tmp_path, source(statement, new)) as model:
        model.TABLE.update(a=1.5, b=2.5)
        changed, settings = called(model)
    assert changed and settings == []


@pytest.mark.parametrize("statement", ["held.value = 2", "value = 3", "TABLE['a'] = 1", "TABLE['n'] = 1"])
def test_counters_are_not_set_again(statement: str, tmp_path: Path) -> None:
    """They count how often a function is traced; a served call is no trace."""
    with imported(tmp_path, source(statement)) as model:
        model.held.value = model.TABLE["n"] = vars(model)["value"] = 0
        assert called(model)[1] == []


def test_a_served_call_needs_each_place(tmp_path: Path) -> None:
    """Otherwise its trace does not serve."""
    with imported(tmp_path, source("held.value = new")) as model:
        _, settings = called(model)
        code = fingerprint(model.build, (1,), for_trace=True).snapshot
        code.setter(settings)()
        for name, number, value in settings:
            for other in ([name, number + 5, value], [f"other{name}", number, value]):
                with pytest.raises(LookupError):
                    code.setter([other])


def test_globals_of_several_modules_of_one_name(tmp_path: Path) -> None:
    """A function that `exec` has made sets its own globals, and nothing is set again where two have different ones."""
    text = "first = None\ndef turn():\n    global first\n    first = first or 'set'\n"
    with imported(
        tmp_path, "first = None\nspace = {'__name__': __name__}\n" + f"exec({text!r}, space)\nturn = space['turn']\n"
    ) as model:
        other = "def build(x): turn()"
        settings = []
        for own in (False, True):
            model.space["first"] = None
            exec(other, vars(model) if own else model.space)
            build = (vars(model) if own else model.space)["build"]
            made = fingerprint(build, (1,), for_trace=True)
            build(1)
            changed = changed_meanwhile(made, build, (1,), {})
            settings.append(made.snapshot.sets.settings)
            assert bool(changed) == own
        model.space["first"] = None
        fingerprint(model.space["build"], (1,), for_trace=True).snapshot.setter(settings[0])()
        assert (model.first, model.space["first"], settings[1]) == (None, "set", [])


def test_objects_in_a_set_are_told_apart_by_nothing(tmp_path: Path) -> None:
    """So nothing is set again where a walk has visited several of one type there."""
    text = source("for each in {*layers}: each.value = new") + "layers = frozenset(layers)\n"
    with imported(tmp_path, text) as model:
        changed, settings = called(model)
    assert changed and settings == []
