"""Containers in which code only collects count by their type alone, as long as all code does."""

import collections
from pathlib import Path

import pytest

from jcache.fingerprint import changed_meanwhile, fingerprint
from tests.helpers.fingerprints import imported

SOURCE = """
import collections, sys
log, queue, table, counts, sizes = [], collections.deque(), {}, collections.Counter(), collections.defaultdict(int)
groups, alias = collections.defaultdict(list), None
NAME = "shared"
class Held:
    shared, made = [], 0
    def __init__(self): self.log, self.counts, self.n = [], collections.Counter(), 0
    def count(self): self.n += 1
    def clear(self): self.n = 0
held = Held()
class Watched:
    def __init__(self): self.n = 0
    def __setattr__(self, name, value): self.__dict__.update({name: value, "twice": value * 2})
watched = Watched()
def around():
    inner = []
    def note(x): inner.append(x)
    return note
note = around()
def other(): return OTHER
def build(x):
    @
    return x
"""
COLLECTING = {
    "a list": "log.append(x)",
    "a list, twice": "log.extend([x, x])",
    "a deque": "queue.append(x)",
    "a counter": "counts['f'] += 1",
    "a dict of numbers": "table['f'] = table.get('f', 0) + 1",
    "a dict that has a default": "sizes[x] += 1",
    "an attribute": "held.log.append(x)",
    "a counter of an object": "held.counts['f'] += 1",
    "a variable of a function": "note(x)",
    "an integer of an object": "held.n += 1",
    "an integer in which a method counts": "held.count(); held.n -= 2",
    "an integer of a class": "Held.made += 1; print(Held.made)",
    "what is shown": "log.append(x); print(len(log))",
}
USING = {
    "its length": "log.append(x); x += len(log)",
    "an item": "counts['f'] += 1; x += counts['f']",
    "an integer": "held.n += 1; x += held.n",
    "an integer by a computed name": "held.n += 1; x += getattr(held, NAME[:0] + 'n')",
    "an integer of an object's dict": "held.n += 1; x += vars(held)['n']",
    "what is set": "watched.n += 1; x += watched.twice",
    "another name": "log.append(x); own = log; x += len(own)",
    "an argument": "log.append(x); x += len(log[:])",
    "items of several": "for each in (log, queue): each.append(x)",
    "in another function": "log.append(x); x += other()",
    "an item that is filled": "groups[x].append(1)",
    "what is computed": "log.append(x); x += len(getattr(held, 'lo' + 'g')); held.log.append(1)",
    "what a dict has": "table['f'] = 2.5",
    "a place in it": "log.append(x); log[0] = x",
    "its text": "log.append(x); x += eval('len(log)')",
    "a frame": "log.append(x); x += len(sys._getframe().f_globals['log'])",
    "all of a module": "log.append(x); x += len(vars(sys.modules[__name__])['log'])",
    "a computed name": "Held.shared.append(x); x += len(getattr(Held, NAME))",
    "a cell": "note(x); x += len(note.__closure__[0].cell_contents)",
}


def key(statement: str, directory: Path, before: str = "", other: str = "len(log)") -> str:
    """Return the key of a function that runs a statement, in a process that has run another one before."""
    with imported(directory, SOURCE.replace("@", statement).replace("OTHER", other)) as model:
        exec(before, vars(model))
        return fingerprint(model.build, (1,), for_trace=True).hash


FILL = "log.append(7); queue.append(7); table['f'] = 7; counts['f'] = 7; sizes[1] = 7; groups[1] = [7]; note(7); "
FILL += "Held.shared.append(7); held.log.append(7); held.counts['f'] = held.n = Held.made = watched.n = 7"


@pytest.mark.parametrize("case", COLLECTING)
def test_what_is_only_collected_is_no_part_of_the_key(case: str, tmp_path: Path) -> None:
    """So functions that log have one key, whatever was logged before."""
    statement = COLLECTING[case]
    assert key(statement, tmp_path / "a") == key(statement, tmp_path / "b", FILL)


@pytest.mark.parametrize("case", USING)
def test_what_is_used_counts(case: str, tmp_path: Path) -> None:
    """However the function uses it, and also where code that is found later does."""
    statement = USING[case]
    assert key(statement, tmp_path / "a") != key(statement, tmp_path / "b", FILL)


@pytest.mark.parametrize("case", ["its text", "a frame", "a computed name", "all of a module", "a cell"])
def test_what_is_used_by_a_text_is_set_again(case: str, tmp_path: Path) -> None:
    """As if the function had used it by its name."""
    with imported(tmp_path, SOURCE.replace("@", USING[case]).replace("OTHER", "1")) as model:
        made = fingerprint(model.build, (1,), for_trace=True)
        model.build(1)
        changed = changed_meanwhile(made, model.build, (1,), {})
        assert changed or made.snapshot.sets.settings


@pytest.mark.parametrize("statement", ["log[0] = x", "log[:] = [x]", "table['f'] += 'b'", "table['f'] |= True"])
def test_what_is_replaced_is_no_log(statement: str, tmp_path: Path) -> None:
    """It is set again, or the call is refused: other code may use it."""
    with imported(tmp_path, SOURCE.replace("@", statement).replace("OTHER", "1")) as model:
        model.log.append(None)
        model.table["f"] = "" if "'b'" in statement else False
        made = fingerprint(model.build, (1,), for_trace=True)
        model.build(1)
        changed = changed_meanwhile(made, model.build, (1,), {})
        assert changed or made.snapshot.sets.settings


def test_another_type_is_another_key(tmp_path: Path) -> None:
    """A log may be any type that has the method."""
    text = "log.append(x)"
    assert key(text, tmp_path / "a") != key(text, tmp_path / "b", "log = collections.deque()")
    assert key(text, tmp_path / "c") != key(text, tmp_path / "d", "log = None")


def test_a_graph_has_all_that_it_reaches_in_its_key(tmp_path: Path) -> None:
    """Its function may return a log."""
    with imported(tmp_path, SOURCE.replace("@", "log.append(x)").replace("OTHER", "1")) as model:
        before = fingerprint(model.build, (1,)).hash
        model.log.append(7)
        assert fingerprint(model.build, (1,)).hash != before


@pytest.mark.parametrize("case", COLLECTING)
def test_a_call_that_only_collects_is_stored(case: str, tmp_path: Path) -> None:
    """Its effects are told beside it, and nothing is set again."""
    with imported(tmp_path, SOURCE.replace("@", COLLECTING[case]).replace("OTHER", "1")) as model:
        made = fingerprint(model.build, (1,), for_trace=True)
        model.build(1)
        assert changed_meanwhile(made, model.build, (1,), {}) == []
        assert any(made.snapshot.effects) and made.snapshot.sets.settings == []


def test_a_log_is_set_again_with_what_else_was_set(tmp_path: Path) -> None:
    """A flag without the items that were logged with it would be half of a state; to a count the same is added."""
    statement = "log.append(x); counts['f'] += 1; held.is_on = True"
    with imported(tmp_path, SOURCE.replace("@", statement).replace("OTHER", "1")) as model:
        made = fingerprint(model.build, (1,), for_trace=True)
        model.build(1)
        assert changed_meanwhile(made, model.build, (1,), {}) == []
        settings = made.snapshot.sets.settings
        assert [each[0].rpartition(" ")[2] for each in settings] == ["counts", "log", "is_on"]
    with imported(tmp_path, SOURCE.replace("@", statement).replace("OTHER", "1")) as model:
        model.counts["f"] = 3
        fingerprint(model.build, (1,), for_trace=True).snapshot.setter(settings)()
        assert (model.log, model.held.is_on, model.counts) == ([1], True, collections.Counter(f=4))
