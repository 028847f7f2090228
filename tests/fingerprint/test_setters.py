"""The places where a served call sets values are found again in another process."""

from pathlib import Path

import numpy as np
import pytest

from jcache.fingerprint import changed_meanwhile, fingerprint
from tests.helpers.fingerprints import imported
from tests.helpers.set_values import called, set_again, source

PLACES = {
    "value = new": "value", "held.value = new": "held.value", "layers[1].value = new": "layers[1].value",
    "layers[0].value = new": "layers[0].value", "Held.shared = new": "Held.shared", "turn(new)": "get()",
    "kept.set(new) or kept.value": "kept.value", "TABLE['a'] = new": "TABLE.get('a')",
    "TABLE.update({('k', 2): new})": "TABLE.get(('k', 2))",
    "if held.value is None: held.value = new": "held.value",
    "lazy.made = new": "lazy.made", "lazy.other = new": "lazy.other", "several[1].made = new": "several[1].made",
    "if not hasattr(Lazy, 'new'): Lazy.new = new\n    Lazy.new": "Lazy.new", "own.new = new": "own.new",
    "guarded.__dict__['new'] = new": "guarded.new", "get.new = new": "get.new",
    "global fresh\n    fresh = new\n    fresh": "fresh", "globals()['fresh'] = new": "fresh",
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
