"""What a call sets, as far as a served call can set it again."""

from operator import is_
from pathlib import Path

import pytest

from jcache.fingerprint.restored import are_once
from tests.helpers.fingerprints import imported
from tests.helpers.set_values import called, set_again, source


@pytest.mark.parametrize(
    ("statement", "new"),
    [
        ("slotted.value = new", "(1,)"), ("held.value = new", "object()"), ("held.value = new", "[object()]"),
        ("held.value = new", "bytearray(1)"), ("held.value = new", "f'{held!r}'"), ("held.value = new", "BASE[2:]"),
        ("held.value = new", "np.arange(6).reshape(2, 3).T"), ("held.value = new", "np.array([object()])"),
        ("held.value = held.other = new", "np.arange(3)"), ("held.value = new", "(1, BASE[1:])"),
        ("held.value = new", "'\\ud800'"), ("held.value = new", "np.zeros(1 << 20)"),
        ("TABLE['a'] = TABLE.pop('a') + 1", "0"), ("TABLE['a'] = TABLE.pop('a')", "0"), ("TABLE.pop('a')", "0"),
        ("held.value = new", "np.broadcast_to(np.arange(3.0), (3,))"), ("del held.value", "None"),
        ("lazy.made = new", "object()"), ("lazy.made = own.new = new", "np.ones(2)"),
        ("lazy.made = new", "{1: lambda: 1}"), ("lazy.made = own.new = new", "[1]"),
        ("own.new = str(__import__('time').time())", "0"),
    ],
)  # fmt: skip
def test_what_cannot_be_set_again_is_told(statement: str, new: str, tmp_path: Path) -> None:
    """Objects, lists, views of what is there already, an array under two names, and what has no plain bytes."""
    with imported(tmp_path, source(statement, new)) as model:
        model.TABLE.update(a=1.5, b=2.5)
        changed, settings = called(model)
    assert changed and settings == []


COUNTS = ["counted.n += 1", "calls += 1", "TALLY['a'] = TALLY.get('a', 0) + 1", "LOG.append(x)", "SEEN.add(x)"]
USES = ["x += counted.n", "x += calls", "x += TALLY.get('a', 5)", "x += len(LOG)", "x += 3 in SEEN"]
COUNTERS = """
from collections import Counter, OrderedDict, deque
class Counted: n = 0
counted, calls, TALLY, LOG, SEEN, QUEUE, MANY = Counted(), 0, {}, [], {3}, deque(), Counter(c=2)
ORDER = OrderedDict(z=1)
counted.n = 0
def build(x):
    global calls
    @
    return x
"""


@pytest.mark.parametrize("statement", COUNTS)
def test_what_only_counts_is_not_set_again(statement: str, tmp_path: Path) -> None:
    """It counts how often a function is traced; a served call is no trace."""
    with imported(tmp_path, COUNTERS.replace("@", statement)) as model:
        assert called(model) == ([], [])


@pytest.mark.parametrize(
    ("statement", "use"),
    [
        *zip(COUNTS, USES, strict=True), ("QUEUE.append((x, 'a'))", "x += len(QUEUE)"),
        ("MANY['a'] += 2", "x += MANY['a']"), ("MANY['c'] += 2", "x += MANY['c']"),
        ("ORDER['a'] = x", "x += len(ORDER)"), ("ORDER['z'] += 1", "x += len(ORDER)"),
        ("LOG.extend([x, 2.5])", "x += sum(LOG)"),
        ("LOG.append(x); SEEN.add('b'); counted.n += 2", "x += len(LOG)"),
    ],
)  # fmt: skip
def test_what_the_function_uses_is_set_again(statement: str, use: str, tmp_path: Path) -> None:
    """So a later call has the number, or the items, that it would have had."""
    names = ("calls", "TALLY", "LOG", "SEEN", "QUEUE", "MANY", "ORDER")
    text = COUNTERS.replace("@", f"{statement}\n    {use}")
    with imported(tmp_path, text) as model:
        changed, settings = called(model)
        after = [getattr(model, each) for each in names], model.counted.n
    with imported(tmp_path, text) as model:
        set_again(model, settings)
        assert changed == [] and ([getattr(model, each) for each in names], model.counted.n) == after


@pytest.mark.parametrize(
    "statement", ["LOG.append(lambda: 1)", "LOG.insert(0, x)", "TALLY['f'] = object()", "LOG[:] = [x]"]
)
def test_what_has_no_plain_items_is_told(statement: str, tmp_path: Path) -> None:
    """Nor what has got an item in another place than at its end."""
    with imported(tmp_path, COUNTERS.replace("@", f"x += len(LOG) + len(TALLY)\n    {statement}")) as model:
        model.LOG.append(7)
        changed, settings = called(model)
    assert changed and settings == []


@pytest.mark.parametrize("new", ["BASE", "(1, BASE)", "several", "[several[:0], layers, {'a': held}]", "Lazy(held)"])
def test_what_was_a_global_before_is_the_same_again(new: str, tmp_path: Path) -> None:
    """In place of what a call has set there is the present global, whatever holds it."""
    with imported(tmp_path, source("lazy.made = new", new)) as model:
        changed, settings = called(model)
        assert changed == []
    with imported(tmp_path, source("lazy.made = new", new)) as model:
        set_again(model, settings)
        made = model.lazy.made
        found = made[1:] if new[0] == "(" else made[1:2] if new[0] == "[" else getattr(made, "k", made)
        known = {"B": model.BASE, "(": (model.BASE,), "s": model.several, "[": [model.layers], "L": model.held}
        assert found is known[new[0]] or all(map(is_, found, known[new[0]]))


@pytest.mark.parametrize("new", ["list(NAMES)", "tuple(NAMES)", "{name: 1 for name in NAMES}", "[0, [*NAMES]]"])
def test_the_order_of_a_set_is_not_set_again(new: str, tmp_path: Path) -> None:
    """It is another one in each process, and other code may use that of its own."""
    for names, is_stored in (("{'a', 'b', 'c'}", False), ("{1, 2, 3}", True), ("{'a'}", True)):
        text = source("NAMES\n    held.value = new", new) + f"NAMES = {names}\n"
        with imported(tmp_path, text) as model:
            changed, settings = called(model)
        assert (changed == [] and settings != []) is is_stored


def test_a_state_is_not_set_again(tmp_path: Path) -> None:
    """Such as that of an event: a flag that is set with it would be half of what has changed."""
    text = source("event.set(); held.value = new") + "import threading\nevent = threading.Event()\n"
    with imported(tmp_path, text) as model:
        changed, settings = called(model)
    assert changed and settings == []


def test_objects_in_a_set_are_told_apart_by_nothing(tmp_path: Path) -> None:
    """So nothing is set again where a walk has visited several of one type there."""
    text = source("for each in {*layers}: each.value = new") + "layers = frozenset(layers)\n"
    with imported(tmp_path, text) as model:
        changed, settings = called(model)
    assert changed and settings == []


def test_all_is_set_again_or_nothing(tmp_path: Path) -> None:
    """A flag without the items that were collected with it would be half of a state; a memo is filled when asked."""
    for new, is_stored in (("1.5", True), ("[x]", True), ("lambda: 1", False)):
        text = COUNTERS.replace("@", f"counted.is_on = True\n    LOG.append({new})")
        with imported(tmp_path, text) as model:
            changed, settings = called(model)
            assert (changed == []) is is_stored and len(settings) == 2 * is_stored
    text = COUNTERS.replace("@", "counted.is_on = True\n    if 'f' not in TALLY: TALLY['f'] = lambda: 1")
    with imported(tmp_path, text) as model:
        assert called(model) == ([], [["object model.Counted: is_on", 0, {"new": True}]])


def test_what_is_only_counted_is_added_where_something_else_is_set(tmp_path: Path) -> None:
    """The number may be another one by then, since a variable in which code only counts is no part of a key."""
    text = COUNTERS.replace("@", "calls += 2; counted.is_on = True")
    with imported(tmp_path, text) as model:
        changed, settings = called(model)
        assert changed == [] and settings[1:] == [["model.calls", 0, {"sum": 2}]]
    with imported(tmp_path, text) as model:
        vars(model)["calls"] = 5
        set_again(model, settings)
        assert vars(model)["calls"] == 7 and model.counted.is_on


def test_equal_objects_are_told_apart(tmp_path: Path) -> None:
    """By what they are, whatever the program's classes say."""
    text = """
class Same:
    def __eq__(self, other): raise ValueError(other)
    def __hash__(self): return 1
one, two = Same(), Same()
one.n = two.n = 1
def build(x):
    two.made = (x, one.n, two.n)
    return x
"""
    with imported(tmp_path, text) as model:
        changed, settings = called(model)
    with imported(tmp_path, text) as model:
        set_again(model, settings)
        assert changed == [] and not hasattr(model.one, "made") and model.two.made == (1, 1, 1)


def test_counts_and_states_are_set_once() -> None:
    """A second trace in a process would count or draw again; a flag, a table or a text is the same again."""
    once = [
        ["f.n", 0, 3],
        ["f.n", 0, {"sum": 1}],
        ["LOG", 0, {"more": {"list": [1]}}],
        ["(generator)", 0, {"text": []}],
    ]
    other = [["f.on", 0, True], ["f.name", 0, "a"], ["f.rate", 0, 0.5], ["TABLE", 0, {"items": {"tuple": []}}]]
    assert all(are_once([each, *other]) for each in once) and not are_once(other) and not are_once(None)
