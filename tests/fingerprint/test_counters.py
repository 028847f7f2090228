"""What only counts how often code has run is no part of a key; what anything looks at is."""

from collections.abc import Callable
from pathlib import Path

import pytest

from jcache import fingerprint as package
from jcache.fingerprint import Fingerprint
from tests.helpers.fingerprints import imported

HEAD = """
from collections import Counter, deque
from types import SimpleNamespace
n, log, seen, by, first, many, space = 0, [], set(), {'f': 0}, [0], Counter(), SimpleNamespace(n=0)
class Runs:
    n = 0
class Counted:
    def __init__(self):
        self.n = 0
class Property(Counted):
    n = property(lambda self: self.x, lambda self, value: setattr(self, 'x', value))
class Telling(Counted):
    def __setattr__(self, name, value):
        super().__setattr__(name, value)
run, proper, telling = Counted(), Property(), Telling()
def decorated(): ...
decorated.n = 0
"""
COUNTING = {
    "a number": "global n\n    n += 1",
    "a number, written out": "global n\n    n = n + 1",
    "a list": "log.append('f')",
    "a set": "seen.add(1)",
    "an item of a dict": "by['f'] += 1",
    "an item of a list": "first[0] += 2",
    "a counter": "many['f'] += 1",
    "an attribute of a class": "Runs.n += 1",
    "an attribute of an object": "run.n += 1",
    "an attribute of a namespace": "space.n += 1",
    "an attribute of a function": "decorated.n += 1",
    "several": "global n\n    n += 1\n    log.append(None)\n    by['f'] += 1",
    "a function inside": "def inner():\n        log.append('f')\n    inner()",
}
USING = {
    "returned": "global n\n    n += 1\n    return n",
    "added to by what is given": "global n\n    n += x",
    "appended what is given": "log.append(x)",
    "looked at elsewhere": "log.append(1)\n    return len(log)",
    "looked at before": "global n\n    x = x * (n + 1)\n    n += 1",
    "what append returns": "return [x, log.append(1)]",
    "looked at by a helper": "global n\n    n += 1\n    return helper(x)",
    "looked at by its frame": "def inner():\n        n = len(log)\n        return locals()\n    log.append(inner())",
    "another item": "by['f'] += 1\n    return by['f']",
    "another attribute": "run.n += 1\n    return run.n",
    "an attribute of what is looked at": "Runs.n += 1\n    return Runs",
    "a property": "proper.n += 1",
    "attributes of an own kind": "telling.n += 1",
    "of another type": "global text\n    text += 'f'",
    "a type that may do more": "queue.append(1)",
}
TAIL = "text, queue = '', deque()\ndef helper(x):\n    return x * n\n"
AROUND = """
def make():
    n, log = 0, []
    def f(x):
        nonlocal n
        n += 1
        log.append(1)
        return x{}
    return f
f = make()
"""


def fingerprint(function: Callable[[int], object], *, for_trace: bool = True) -> Fingerprint:
    return package.fingerprint(function, for_trace=for_trace)


def the(body: str, directory: Path) -> Callable[[int], object]:
    return of_module(f"{HEAD}{TAIL}def f(x):\n    {body}\n    return x\n", directory)


def of_module(source: str, directory: Path) -> Callable[[int], object]:
    with imported(directory, source) as model:
        function: Callable[[int], object] = model.f
        return function


@pytest.mark.parametrize("body", COUNTING.values(), ids=COUNTING)
def test_what_counts_is_no_part_of_a_key(body: str, tmp_path: Path) -> None:
    """However far it has counted."""
    function = the(body, tmp_path)
    before = fingerprint(function)
    for _ in range(3):
        function(1)
    assert fingerprint(function) == before


@pytest.mark.parametrize("body", USING.values(), ids=USING)
def test_what_is_looked_at_is_part_of_the_key(body: str, tmp_path: Path) -> None:
    """Be it in the same statement, in another one, or in a helper; and what may do more than count."""
    function = the(body, tmp_path)
    before = fingerprint(function)
    function(1)
    assert fingerprint(function).hash != before.hash


@pytest.mark.parametrize(("more", "is_part"), [("", False), (" * n", True), (" + len(log)", True)])
def test_variables_of_functions_around_it(more: str, is_part: bool, tmp_path: Path) -> None:
    """They count, and are looked at, alike."""
    function = of_module(AROUND.format(more), tmp_path)
    before = fingerprint(function)
    function(1)
    assert (fingerprint(function).hash != before.hash) == is_part


def test_how_it_counts_is_part_of_the_key(tmp_path: Path) -> None:
    """It is code, and the type of what counts is told with it."""
    bodies = ["global n\n    n += 1", "global n\n    n += 2", "log.append(1)"]
    assert len({fingerprint(the(body, tmp_path / str(i))).hash for i, body in enumerate(bodies)}) == len(bodies)
    function = the(bodies[0], tmp_path / "0")
    before = fingerprint(function)
    function.__globals__["n"] = 0.0
    assert fingerprint(function).hash != before.hash


def test_it_is_so_for_traces_alone(tmp_path: Path) -> None:
    """A graph whose building counts changes what it depends on, as any other that does."""
    function = the("log.append(1)", tmp_path)
    before = fingerprint(function, for_trace=False)
    function(1)
    assert fingerprint(function, for_trace=False).hash != before.hash


@pytest.mark.parametrize("more", ["    return vars()\n", "    return inspect.getclosurevars(f)\n"])
def test_whoever_looks_at_variables_without_their_names_sees_all(tmp_path: Path, more: str) -> None:
    """So that what only counts is part of the key then."""
    function = of_module(f"import inspect\n{HEAD}def f(x):\n    log.append(1)\n{more}", tmp_path)
    before = fingerprint(function)
    function(1)
    assert fingerprint(function).hash != before.hash


ALIAS = "log = []\nother = {}\ndef f(x):\n    log.append(1)\n    return other\n"


def test_what_is_looked_at_under_another_name_is_part_of_the_key(tmp_path: Path) -> None:
    """The list itself says nothing, unless it is one that the code looks at."""
    apart, alike = (of_module(ALIAS.format(each), tmp_path / each[:1]) for each in ("[]", "log"))
    assert fingerprint(apart).hash != fingerprint(alike).hash
    before = fingerprint(alike)
    alike(1)
    assert fingerprint(alike).hash != before.hash
