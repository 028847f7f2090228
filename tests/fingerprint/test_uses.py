"""How code uses what it names, as its instructions show it, on each version of Python."""

from types import CodeType, FunctionType

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
ONLY_COUNTED = (
    *("global n\n    n += 1", "global n\n    n = n + 2", "global n\n    n += 1\n    print('n', n)", "o.n += 1"),
    *("o.a.n -= 2", "x[0].n += 1", "f(x).n += 1\n    o.n += 2", "o.n += 1\n    print(o.n)"),
)
COUNTED_AND_MORE = (
    *(
        "o.n += 1\n    return o.n",
        "global n\n    n += x",
        "global n\n    n += 1.5",
        "global n\n    n += 1\n    return n",
    ),
    *(
        "o.n += 1\n    o.n = 0",
        "o.n = o.n + 1",
        "o.n *= 2",
        "global n\n    n *= 2",
        "o.n += 1\n    del o.n",
        "o.n += x",
    ),
    *("global n\n    n += 1\n    n = 0", "global n\n    n += 1\n    del n", "global n\n    n += n", "n = o.n + 1"),
    *("global n\n    n += 1\n    log.info('%d', n)", "global n\n    x = n + 1", "global n\n    n = y = n + 1"),
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


def test_what_is_told_first() -> None:
    """Also in a function that has variables of another one, or gives it some."""
    space: dict[str, FunctionType] = {}
    exec("def outer(n):\n def inner(x):\n  print(n)\n  return lambda: x\n return inner", space)
    inner = nested(space["outer"].__code__)[1]
    assert not any(each.value == "n" for each in uses.without_told(steps_of(inner))[0])


def test_what_tells() -> None:
    """The names of the globals that are called, or whose methods are called."""
    assert uses.without_told(steps_of(made("print(x)\n    logger.info(x)").__code__))[1] == {"print", "logger"}
