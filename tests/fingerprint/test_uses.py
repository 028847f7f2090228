"""How code uses what it names, as its instructions show it, on each version of Python."""

from types import FunctionType

import pytest

from jcache.fingerprint import uses
from jcache.fingerprint.instructions import steps_of

COUNTS = (
    *("global n\n    n += 1", "global n\n    n = n + 1", "global n\n    n -= 1"),
    *("o.n += 1", "o.n = o.n + 1", "o.n += x", "global n\n    n = 2 * (x + n)", "o.n -= f(x) * 2"),
    *("print('traced', n)", "print(f'traced {n}')", "if x: print(o.n)", "log.info('traced %d', n)"),
)
USES = (
    *("n = o.n // 2\n    return x * n", "o.n = (yield o.n // 2) * 1", "mt.log.append(n)", "o.x = o.n + 1"),
    *("global n\n    n = y = n + 1", "global n\n    return (n := n + 1)", "o.n = y = o.n + 1", "o.n += [f(o.n)][0]"),
    *("global n\n    n = f(n) + 1", "o.n = f(o.n, x) + 1", "global n\n    n = x + f(1, n)", "o.n = o.f(o.n) + 1"),
    *("return n", "global n\n    n += n", "x = n + 1", "global n\n    n += 1\n    return n"),
    *(
        "o.n += 1\n    return o.n",
        "x = print(n)",
        "jax.debug.print('{}', n)",
        "print(x)\n    return n",
        "n.info(x)\n    y(n)",
    ),
)
WAYS = {
    uses.Way.FILLED: ("n[x] = 1", "n.append(x)", "o.n.add(x)", "if n is None: x()", "m = n\n    m.append(x)"),
    uses.Way.COUNTED: ("n[x] += 1", "o.n['a'] += x", "x[0] = n.get(x, 0) + 1"),
    uses.Way.INNER: ("n[x][y] = 1", "n[x].append(1)", "n[x][y] += 1"),
    uses.Way.ITEM: (
        *("n.get(x)", "y = n[x]", "o.n[x](1)", "x in n", "x not in o.n", "n.setdefault(x, 1)", "n.get('a', y)"),
        *("m = n\n    m.get(x)", "y = n.get(x) + 1", "n[-1]", "return n[x].shape", "n.get('a', None)"),
    ),
    uses.Way.FLAG: ("1 in n", "if 'a' not in o.n: x()"),
    uses.Way.WHOLE: (
        *("len(n)", "sum(o.n)", "if not n: x()", "if n: x()", "for x in n: x()", "[x for x in n]", "n.items()"),
        *("n[-2:]", "o.n[:x]", "n[:]", "n[x::2]", "o.n.values()", "n.pop()", "while o.n: x()", "f(n)", "y = n + x"),
        *("return n", "n == x", "f(*n)", "y = f'{n}'", "a, *b = n", "a, b, c = n", "n.count(1)", "y = n, x"),
        *("n is None", "o.x = n", "m = n\n    len(m)", "m = n\n    m = x\n    m.get(x)", "n.get(x, 0)", "y = m[n]"),
        *("y = n and o", "match n:\n        case [a, b]: x()", "y = n[x:][0]"),
    ),
}
FILLS = (
    *("n[x] = 1", "o.n[x] = y", "n[f(x)] = 1", "n[x, m.a] = 1", "n[f'{x}'] = 1", "n[m[x]] = 1", "n[m(x + 1)] = 1"),
    *("n.update(a=1)", "o.n.update(x)", "n.append(x)", "o.n.append(f(x))", "n.add(1)"),
)
READS = (
    *("n[x] += 1", "o.n[x, 1] -= f(x)", "n[x].append(1)", "o.n.setdefault(x, []).append(f(x) + 1)", "n[x].add(x)"),
    *("n[x][y] += 1", "y = n[x].append", "n[x](1)", "n[x].run(1)", "n.setdefault(x, 1)", "n.setdefault(x, []).run(1)"),
    *("y = n.setdefault(x, [])", "n.get(x).append(1)", "n += [x]", "n[x][y] = 1", "m[n[x]] = 1", "m[x] = n"),
    *("m[n] = 1", "y = n[x]", "x in n", "n.get(x)", "n.pop(x)", "n[x] = 1\n    y = n[x]", "f(n)[x] = 1"),
    *("n.m[x] = 1", "n(x)[y] = 1"),
)
ONLY_COUNTED = ("global n\n    n += 1", "global n\n    n = n + 2", "global n\n    n += 1\n    print('n', n)")
COUNTED_AND_MORE = (
    *("o.n += 1", "global n\n    n += x", "global n\n    n += 1.5", "global n\n    n += 1\n    return n"),
    *("global n\n    n += 1\n    n = 0", "global n\n    n += 1\n    del n", "global n\n    n += n", "n = o.n + 1"),
    *("global n\n    n += 1\n    log.info('%d', n)", "global n\n    x = n + 1", "global n\n    n = y = n + 1"),
)
ASKS = {
    "x = n['a']": {"a"}, "x = o.n['a']['b']": {"a"}, "x = n['a'] and n['b']": {"a", "b"}, "n['a'](x)": {"a"},
    "x = o.n.get('a')": {"a"}, "x = n.get('a', 1)": {"a"}, "f(n['a'], x=n.get('b'))": {"a", "b"},
}  # fmt: skip
OPENS = (
    *("n.get(x)", "f(n)", "n['a'] = 1", "n['a'] += 1", "del n['a']", "x = n[x]", "x = n['a', 'b']", "x = n[0]"),
    *("for x in n: f(x)", "f(**n)", "x = (n, 'a')", "x = f(n, 'a')['b']", "x = n", "x = n.get", "x = n.items()"),
    *("x = f'{n}'", "x = n == 'a'", "x = x['a'] in n", "x = n.get('a' if x else 'b')", "x = n['a' if x else 'b']"),
    *(
        "x = n.get('a', y)",
        "x = n.get('ab'[y])",
        "x = n.get('a' + y)",
        "x = n.get('a', 1, 2)",
        "x = n.get('a', x + 1)",
        "x = 'a' in n",
        "x = n.get('a' == y)",
    ),
    *("x = (('a' if x else 'b') in n)", "x = n.get(f'a{x}')", "x = n['a' + y]"),
    *("x = n.get('a') or n", "x = n.get('a', n)", "from m import n", "n.get(*['a'])", "n.get('a', *x)"),
)


def made(body: str) -> FunctionType:
    space: dict[str, FunctionType] = {}
    exec(f"def f(x, y=1):\n    {body}\n", space)
    return space["f"]


def names(body: str, of: str) -> set[str]:
    """Return the names that a function with a body uses in some way."""
    return set(getattr(uses, of)(steps_of(made(body).__code__)))


@pytest.mark.parametrize("body", [*COUNTS, *USES])
def test_a_name_in_which_code_only_counts_is_not_used(body: str) -> None:
    """Whatever is added, in the short form and in the long one."""
    assert ("n" in names(body, "used")) is (body in USES)


@pytest.mark.parametrize(("way", "body"), [(way, body) for way, bodies in WAYS.items() for body in bodies])
def test_a_container_is_used_in_one_of_five_ways(way: uses.Way, body: str) -> None:
    """A memo is filled and asked for items; whatever is not known to be less counts as a use of the whole."""
    assert {its for name, its in uses.ways(steps_of(made(body).__code__)) if name == "n"} == {way}


@pytest.mark.parametrize("body", ["print(n)", "log.info('%d', len(n))", "print('traced', len(o.n))"])
def test_what_is_printed_or_logged_is_not_used(body: str) -> None:
    """As a counter is not."""
    assert not [name for name, _ in uses.ways(steps_of(made(body).__code__)) if name == "n"]


@pytest.mark.parametrize("body", [*FILLS, *READS])
def test_a_container_that_is_only_filled_is_not_used(body: str) -> None:
    """Where an item is stored in it, or it is updated."""
    assert ("n" in names(body, "filled") - names(body, "used")) is (body in FILLS)


@pytest.mark.parametrize("body", [*ASKS, *OPENS])
def test_a_dict_that_is_asked_for_constant_texts_is_not_opened(body: str) -> None:
    """By an index and by `get`, and by no other use of its name."""
    keys = {key for name, key in uses.asked(steps_of(made(body).__code__)) if name == "n"}
    assert keys == (ASKS[body] if body in ASKS else {None, *(keys & {"a"})})


@pytest.mark.parametrize("body", [*ONLY_COUNTED, *COUNTED_AND_MORE])
def test_a_variable_that_is_only_counted(body: str) -> None:
    """By a constant, and nothing else is done with it but to print it."""
    assert ("n" in uses.only_counted(steps_of(made(body).__code__))) is (body in ONLY_COUNTED)
