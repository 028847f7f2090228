"""What a container holds that code only fills is no part of a key; what one holds that code uses otherwise is."""

from pathlib import Path
from types import ModuleType

import pytest

from jcache.fingerprint import changed_meanwhile, fingerprint
from tests.helpers.fingerprints import imported

HEAD = """
from collections import Counter, OrderedDict, defaultdict, deque
log, seen, last, times, many, order = [], set(), deque(maxlen=2), {}, Counter(), OrderedDict()
sums, lists, counts, pair = defaultdict(int), {'a': [], 'b': []}, {'f': 0}, ([], [])
class Model:
    runs = []
    def __init__(self): self.kept, self.calls, self.x = [], {'n': 0}, 0
    def __call__(self, x):
        self.kept.append(x)
        self.calls['n'] += 1
        return x
    def total(self): return sum(self.kept)
class Sized(Model):
    def __len__(self): return len(self.kept)
model, other = Model(), Sized()
def given(container): container.append(1)
def size(container): return len(container)
def make():
    own = []
    def filled(x, kept=[]):
        own.append(x)
        kept.append(x)
        return x
    def sized(): return len(own)
    return filled, sized
filled, sized = make()
"""
FILLED = {
    "a list": "log.append(x)",
    "a list that gets several": "log.extend([x, x])",
    "a set": "seen.add(x)",
    "a deque": "last.append(x)",
    "a dict": "times[x] = 1.5",
    "an item that is replaced": "times['last'] = x",
    "an ordered dict": "order.update(a=x)",
    "a counter": "many[x] += 1",
    "a dict with defaults": "sums[x] += 1",
    "an item that counts": "counts['f'] += 1",
    "a list in a dict": "lists['a'].append(x)",
    "a list of an object": "model(x)",
    "a list of a class": "Model.runs.append(x)",
    "lists of functions": "filled(x)",
    "by a name of its own": "own = log\n    own.append(x)",
    "that is printed": "log.append(x)\n    print(log)",
}
USED = {
    "its length": "log.append(x)\n    x += len(log)",
    "by another name": "log.append(x)\n    x += len(alias)",
    "in a helper": "log.append(x)\n    x += size(log)",
    "by a helper that fills it": "given(log)\n    x += len(log)",
    "in a tuple": "pair[0].append(x)\n    x += len(pair[0])",
    "in a tuple beside an object": "log.append(x)\n    x += len(both[1])",
    "an item that counts": "counts['f'] += 1\n    x += counts['f']",
    "an item of a counter": "many['f'] += 1\n    x += many['f']",
    "a list in a dict": "lists['a'].append(x)\n    x += len(lists['a'])",
    "lists of a dict": "lists['a'].append(x)\n    x += sum(map(len, lists.values()))",
    "a list of an object in a method": "model(x)\n    x += model.total()",
    "an object that has a length": "other(x)\n    x += len(other)",
    "an object whose attributes are read": "model(x)\n    x += len(vars(model)['kept'])",
    "a list of a function": "filled(x)\n    x += sized()",
    "a default": "filled(x)\n    x += len(filled.__defaults__[0])",
    "defaults by name": "filled(x)\n    x += len(filled.__kwdefaults__ or filled.__defaults__[-1])",
    "a cell": "filled(x)\n    x += len(filled.__closure__[0].cell_contents)",
    "all globals": "log.append(x)\n    x += len(globals()['log'])",
    "a method that is bound": "log.append(x)\n    x += length()",
    "a key that may lack": "try: counts['g'] += 1\n    except KeyError: x += 1; counts['g'] = 0",
    "a return": "log.append(x)\n    return [*log]",
    "a comparison": "log.append(x)\n    x += log == [1]",
    "an attribute that a getter reads": "model(x)\n    x += len(get(model))",
    "an object that is shown": "shown.log.append(x)\n    x += len(str(shown))",
    "an object that is compared": "shown.log.append(x)\n    x += shown == Shown([1])",
    "a default that is bound again": "log.append(x)\n    x += again()",
    "a dict that has attributes": "named.log.append(x)\n    x += len(named['log'])",
    "an argument of a partial": "log.append(x)\n    x += of_partial()",
    "one of two that a condition chooses": "log.append(x)\n    own = log if x else seen\n    x += len(own)",
    "on one line": "own = log; own.append(x); x += len(own)",
    "beside another argument": "log.append(x)\n    x += both_of(x, log)",
    "what is bound twice": "own = log\n    own.append(x)\n    x += len(own)\n    own = x",
    "a list that is unpacked": "log.append(x)\n    a, *b = log\n    x += len(b)",
}
TAIL = """
import operator
from dataclasses import dataclass, field
from functools import partial
@dataclass
class Shown:
    log: list = field(default_factory=list)
class Named(dict):
    __getattr__ = dict.__getitem__
def again(log=log):
    log = list(log)
    return len(log)
def both_of(x, log): return len(log)
alias, length, both, get, of_partial = log, log.__len__, (model, log), operator.attrgetter("kept"), partial(size, log)
shown, named = Shown(), Named(log=[])
"""


def the(body: str, directory: Path) -> ModuleType:
    with imported(directory, f"{HEAD}{TAIL}def f(x):\n    {body}\n    return x\n") as model:
        return model


def key(model: ModuleType) -> str:
    return fingerprint(model.f, (1,)).hash


@pytest.mark.parametrize("body", FILLED.values(), ids=FILLED)
def test_what_is_only_filled_has_one_key(body: str, tmp_path: Path) -> None:
    """A second call of a function that logs has the same key as its first one, also where that was served."""
    model = the(body, tmp_path)
    keys = []
    for _ in range(3):
        before = fingerprint(model.f, (1,))
        model.f(1)
        assert changed_meanwhile(before, model.f, (1,), {}) == []
        keys.append(before.hash)
    assert len(set(keys)) == 1


@pytest.mark.parametrize("body", USED.values(), ids=USED)
def test_what_is_used_counts(body: str, tmp_path: Path) -> None:
    """Code that uses what it fills gives another result the next time, which must have another key."""
    model = the(body, tmp_path)
    keys, results = [key(model)], [model.f(1)]
    for _ in range(2):
        keys.append(key(model))
        results.append(model.f(1))
    assert len(set(map(str, results))) > 1
    for one, other in ((0, 1), (1, 2), (0, 2)):
        assert keys[one] != keys[other] or results[one] == results[other]


def test_a_log_is_shown_without_its_items(tmp_path: Path) -> None:
    """`explain` must not call its items a reason."""
    model = the("log.append(x)", tmp_path)
    model.f(1)
    assert fingerprint(model.f, (1,)).parts["global log"] == "[]"


def test_what_an_argument_holds_counts(tmp_path: Path) -> None:
    """The caller may look for what a function adds to what it was given."""
    model = the("x.append(1)", tmp_path)
    assert fingerprint(model.f, ([],)).hash != fingerprint(model.f, ([1],)).hash
