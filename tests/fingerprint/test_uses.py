"""How code uses what it names, as its instructions show it, on each version of Python."""

from types import CodeType, FunctionType

import pytest

from jcache.fingerprint import uses
from jcache.fingerprint.code import meaning
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
    "x = n['a']": {"[a]"}, "x = o.n['a']['b']": {"[a]"}, "x = n['a'] and n['b']": {"[a]", "[b]"},
    "n['a'](x)": {"[a]"}, "x = o.n.get('a')": {"[a]"}, "x = n.get('a', 1)": {"[a]"},
    "f(n['a'], x=n.get('b'))": {"[a]", "[b]"}, "z = n\n    f(z['a'])": {"[a]"}, "z = o.n\n    x = z['a'] + y": {"[a]"},
    "x = n.a": {".a"}, "x = n.a(1) + n.b.c": {".a", ".b"}, "z = n\n    x = z.a + z.b": {".a", ".b"},
    "z = n\n    w = z\n    x = w['a'] + z.b": {"[a]", ".b"}, "x = n\n    z = 1": set(),
    "x = n['a'].b": {"[a]"}, "x = n.get": {".get"}, "n.a = n.b": {".b", None},
}  # fmt: skip
OPENS = (
    *("n.get(x)", "n['a'] = 1", "n['a'] += 1", "del n['a']", "x = n[x]", "x = n['a', 'b']", "x = n[0]"),
    *("for x in n: f(x)", "f(**n)", "x = (n, 'a')", "return n", "x = n.items()"),
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
    *("z = n\n    z += 1", "z = n\n    z = f\n    x = z.a", "z = n\n    return x, z, z.a"),
    *("z = n\n    def g(): return z.a", "n.a = 1", "n.a += 1", "del n.a", "z, w = n", "z = w = n", "x = n if x else y"),
    *("x = n.get('a') or n\n    return x", "x = n.get('a', n)", "from m import n", "n.get(*['a'])", "n.get('a', *x)"),
)


PASSES = (
    *("f(n)", "x = f(n, 'a')['b']", "return f(x, n)", "f(x, k=n)", "f(x)(n)", "z = n\n    f(z)", "f(o.n, x + 1)"),
    *("return m.f(n).a", "f(x, g(n))", "f(n, x, k=y)", "f(k=n, j=x)", "x = f(g(1), n) + 1", "isinstance(n, f)"),
)
READS_WHOLE = (
    *("str(n)", "hash(n)", "f(repr(n))", "'{}'.format(n)", "'{}'.format(x, n)", "list(map(f, n))", "f(*n)", "f(**n)"),
    *("f((n, 1))", "f([n])", "n(x)", "f(n == x)", "f(x[n])", "f(f'{n}')", "f(-n)", "f(n or x)", "n(x, k=1)", "n(k=x)"),
)


def made(body: str) -> FunctionType:
    space: dict[str, FunctionType] = {}
    exec(f"def f(x, y=1):\n    {body}\n", space)
    return space["f"]


def nested(code: CodeType) -> list[CodeType]:
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    return [code, *(one for each in inner for one in nested(each))]


def names(body: str, of: str) -> set[str]:
    """Return the names that a function with a body uses in some way."""
    return set(getattr(uses, of)(steps_of(made(body).__code__)))


@pytest.mark.parametrize("body", [*COUNTS, *USES])
def test_a_name_in_which_code_only_counts_is_not_used(body: str) -> None:
    """Whatever is added, in the short form and in the long one."""
    assert ("n" in names(body, "used")) is (body in USES)


@pytest.mark.parametrize("body", [*FILLS, *READS])
def test_a_container_that_is_only_filled_is_not_used(body: str) -> None:
    """Where an item is stored in it, or it is updated."""
    assert ("n" in names(body, "filled") - names(body, "used")) is (body in FILLS)


@pytest.mark.parametrize("body", [*ASKS, *OPENS])
def test_what_is_asked_of_a_name(body: str) -> None:
    """Constant items, by an index and by `get`, and attributes; any other use is one of the whole."""
    asked = {what for name, what in uses.asked(steps_of(made(body).__code__)) if name == "n"}
    assert asked == ASKS[body] if body in ASKS else None in asked or ".get" in asked or ".items" in asked


@pytest.mark.parametrize("body", [*PASSES, *READS_WHOLE])
def test_what_is_passed_to_a_function(body: str) -> None:
    """By its place or a name; functions of Python that show or compare what they are given read all of it."""
    asked = {what for name, what in uses.asked(steps_of(made(body).__code__)) if name == "n"}
    assert (asked == {uses.PASSED}) is (body in PASSES)


def test_an_item_has_a_name_of_its_own() -> None:
    """It consists of the container's name and the key, by whichever name the container is reached."""
    found = set(uses.asked(steps_of(made("z = o.n['a']\n    x = z['b'].c + z.d + z.get('e')(1)").__code__)))
    of_inner = {what for name, what in found if name == "n[a]"}
    assert of_inner == {"[b]", ".d", "[e]"} and ("n[a][b]", ".c") in found and ("n[a][e]", None) in found


def test_what_a_method_asks_of_its_object() -> None:
    """The object is the first parameter, whatever its name is, also where a nested function has it."""
    listing = steps_of(made("return x.a + x['b']").__code__)
    assert set(uses.asked_of_parameter(listing, "x")) == {".a", "[b]"}
    assert meaning(made("return x == f(x)").__code__).asked_of_first == {None, uses.PASSED}
    assert meaning(made("return lambda: x.a").__code__).asked_of_first == {".a"}


@pytest.mark.parametrize("body", [*ONLY_COUNTED, *COUNTED_AND_MORE])
def test_a_variable_that_is_only_counted(body: str) -> None:
    """By a constant, and nothing else is done with it but to print it."""
    assert ("n" in uses.only_counted(steps_of(made(body).__code__))) is (body in ONLY_COUNTED)


TELLS = (
    *("print(n)", "print(f'{n:>3} {x}')", "print('%s' % n, end='')", "print(*[n], sep=o.n)", "logger.info('%s', n)"),
    *(
        "logger.debug(n.a.b)",
        "for y in x:\n        print(n, y)",
        "if x: print(n)",
        "x and print(n)",
        "print(-n, n[x])",
        "n.info(x)",
    ),
)
MORE_THAN_TELLS = (
    *(
        "print(n(x))",
        "print(x, file=n)",
        "y = print(n)",
        "return print(n)",
        "print(n)\n    return n",
        "f(n)",
    ),
    *(
        "print([n for _ in x])",
        "print(lambda: n)",
        "print(f(n))",
        "print(y := n)\n    f(y)",
        "jax.debug.print('{}', n)",
    ),
    *("print((yield n))", "o.log.info(n)", "print(x) or f(n)", "logger.bind(n).info(x)", "n.print(x)", "print(n)(x)"),
)


@pytest.mark.parametrize("body", [*TELLS, *MORE_THAN_TELLS])
def test_what_is_only_told(body: str) -> None:
    """What is printed or given to a logger, unless something else is called for it."""
    left = [step for each in nested(made(body).__code__) for step in uses.without_told(steps_of(each))[0]]
    assert any(each.value == "n" for each in left) is (body in MORE_THAN_TELLS)


def test_what_tells() -> None:
    """The names of the globals that are called, or whose methods are called."""
    assert uses.without_told(steps_of(made("print(x)\n    logger.info(x)").__code__))[1] == {"print", "logger"}
