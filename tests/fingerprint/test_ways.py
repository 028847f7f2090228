"""How code uses containers, as its instructions show it, on each version of Python."""

import pytest

from jcache.fingerprint.instructions import steps_of
from jcache.fingerprint.ways import Way, ways
from tests.fingerprint.test_uses import made

WAYS = {
    Way.FILLED: ("n.append(x)", "o.n.add(x)", "if n is None: x()", "m = n\n    m.append(x)"),
    Way.COUNTED: ("n[x] += 1", "o.n['a'] += x"),
    Way.INNER: ("n[x][y] = 1", "n[x].append(1)", "n[x][y] += 1"),
    Way.ITEM: (
        *("n.get(x)", "y = n[x]", "o.n[x](1)", "x in n", "x not in o.n", "n.setdefault(x, 1)", "n.get('a', y)"),
        *("m = n\n    m.get(x)", "y = n.get(x) + 1", "n[-1]", "y = n[o := x]", "return n[x].shape", "n.get('a', None)"),
    ),
    Way.FLAG: ("1 in n", "if 'a' not in o.n: x()"),
    Way.WHOLE: (
        *("len(n)", "sum(o.n)", "if not n: x()", "if n: x()", "for x in n: x()", "[x for x in n]", "n.items()"),
        *("n[-2:]", "o.n[:x]", "n[:]", "n[x::2]", "o.n.values()", "n.pop()", "while o.n: x()", "f(n)", "y = n + x"),
        *("return n", "n == x", "f(*n)", "y = f'{n}'", "a, *b = n", "a, b, c = n", "n.count(1)", "y = n, x"),
        *("n is None", "o.x = n", "m = n\n    len(m)", "m = n\n    m = x\n    m.get(x)", "n.get(x, 0)", "y = m[n]"),
        *("x[0] = n.get(x, 0) + 1", "len(y := n)"),
        *("y = o = n\n    o.append(x)", "y, o = n, []\n    o.append(x)", "from m import n\n    len(n)"),
        *("n = [*n]\n    x(n)", "f(x, n)", "(n if x else o).append(1)"),
        *("y = n and o", "match n:\n        case [a, b]: x()", "y = n[x:][0]"),
    ),
}
SEVERAL = {
    "n[x] = n.get(x, 0) + 1": {Way.COUNTED},
    "o.n[x] = 2 * o.n.get(x, 1)": {Way.COUNTED},
    "n[x] = 1": {Way.FILLED, Way.STORED},
    "m = n; m.append(x); m[0] = x": {Way.FILLED, Way.STORED},
    "n[x] = m.get(x, 0) + 1": {Way.FILLED, Way.STORED},
    "n[x] = y = n.get(x, 0) + 1": {Way.FILLED, Way.STORED, Way.WHOLE},
    "n[x] = f(n.get(x, 0) + 1)": {Way.FILLED, Way.STORED, Way.WHOLE},
    "m = n; m.append(x); len(m)": {Way.FILLED, Way.WHOLE},
}
ITEMS = {
    "n['a'].append(1)": {("n[a]", "FILLED")},
    "n[x].append(1)": {("n[]", "FILLED")},
    "len(n['a'])": {("n[a]", "WHOLE")},
    "return n['a'][x]": {("n[a]", "ITEM"), ("n[a][]", "WHOLE")},
    "n['a']['b'].add(x)": {("n[a]", "INNER"), ("n[a][b]", "FILLED")},
    "o.n['a'][-1:]": {("n[a]", "WHOLE")},
    "n.get('a').append(1)": {("n[a]", "FILLED")},
    "n.setdefault('a', []).append(1)": {("n[a]", "FILLED")},
    "n.setdefault(x, []).append(1)": {("n[]", "FILLED")},
    "len(n.get('a' + y))": {("n[]", "WHOLE")},
    "m = n['a']\n    m.append(x)": {("n[a]", "FILLED")},
    "m = n['a']\n    m.append(x)\n    len(m)": {("n[a]", "FILLED"), ("n[a]", "WHOLE")},
    "m = n\n    m.append(x)": set(),
    "n[f(x)[0]].append(1)": {("n[]", "FILLED")},
    "n['a' if x else 'b'].append(1)": set(),  # a use of the whole
    "print(n['a'])": set(),
    "n['a'] = 1": set(),
    "n.items()": set(),
}


def found(body: str) -> set[tuple[str, Way]]:
    """Return the names of what a function with a body loads, with the ways of their use."""
    return set(ways(steps_of(made(body).__code__)))


@pytest.mark.parametrize(("way", "body"), [(way, body) for way, bodies in WAYS.items() for body in bodies])
def test_a_container_is_used_in_one_of_five_ways(way: Way, body: str) -> None:
    """A memo is filled and asked for items; whatever is not known to be less counts as a use of the whole."""
    assert {its for name, its in found(body) if name == "n"} == {way}


@pytest.mark.parametrize(("body", "expected"), SEVERAL.items())
def test_a_container_is_used_in_several_ways(body: str, expected: set[Way]) -> None:
    """What counts is stored where it was asked for, and nowhere else."""
    assert {its for name, its in found(body) if name == "n"} == expected


@pytest.mark.parametrize("body", ["print(n)", "log.info('%d', len(n))", "print('traced', len(o.n))"])
def test_what_is_printed_or_logged_is_not_used(body: str) -> None:
    """As a counter is not."""
    assert not [name for name, _ in found(body) if name == "n"]


@pytest.mark.parametrize("body", ITEMS)
def test_the_use_of_an_item_that_is_a_container(body: str) -> None:
    """It has the name of the container with its key; without one where the key is no constant text."""
    assert {(name, way.name) for name, way in found(body) if name.startswith("n[")} == ITEMS[body]
