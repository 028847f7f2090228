"""Which function takes a value, as the instructions show it, on each version of Python."""

from types import FunctionType

import pytest

from jcache.fingerprint import asks, receivers
from jcache.fingerprint.instructions import steps_of
from jcache.fingerprint.receivers import Passed
from tests.fingerprint.test_asks import asked_of_n


def f(*chain: str, argument: int | str = 0, kind: str = receivers.GLOBAL, by: str = "") -> Passed:
    return Passed(chain or ("f",), kind, argument, tuple(by.split()))


PASSES: dict[str, receivers.Ask | set[receivers.Ask]] = {
    "f(n)": f(), "x = f(n, 'a')['b']": f(), "return f(x, n)": f(argument=1), "f(x, k=n)": f(argument="k"),
    "f(x, j=1, k=n)": f(argument="k"), "f(k=n, j=x)": f(argument="k"), "f(n, x, k=y)": f(), "z = n\n    f(z)": f(),
    "f(o.n, x + 1)": f(), "f(x, y, n)": f(argument=2), "return m.f(n).a": f("m", "f"), "m.k.f(1, n)":
    f("m", "k", "f", argument=1), "f(x, g(n))": f("g"), "x = f(g(1), n) + 1": f(argument=1), "f(g(j=x), n)":
    f(argument=1), "f(f'{x}', n)": f(argument=1), "x = f(y) + f(x, n)": f(argument=1), "f(f(x), f(f(y), n))":
    f(argument=1), "f(x)(n)": receivers.PASSED, "f(x)(y, n)": receivers.PASSED,
    "x.f(n)": f(kind=receivers.METHOD), "f(x).g(y, n)": f("g", argument=1, kind=receivers.METHOD),
    "partial(f, n)": f(by="partial"), "functools.partial(m.f, x, n)()":
    f("m", "f", argument=1, by="functools partial"), "partial(x.f, n)": f(kind=receivers.METHOD), "partial(f, k=n)":
    f(argument="k", by="partial"), "partial(x, n)": receivers.PASSED, "partial(n)": f("partial"),
    "jax.grad(f)(n)": f(by="jax grad"), "jax.vmap(m.f, in_axes=x)(x, n)": f("m", "f", argument=1, by="jax vmap"),
    "jax.jit(x.f)(n)": f(kind=receivers.METHOD), "g(f)(n)": {f(), receivers.PASSED}, "g(f, x)(x, n)":
    {f(argument=1), receivers.PASSED}, "g(h(f))(n)": receivers.PASSED,
    "f[x](n)": receivers.PASSED, "isinstance(n, f)": f("isinstance"), "g = lambda: 1\n    g(n)": receivers.PASSED,
}  # fmt: skip
READS_WHOLE = (
    *("str(n)", "hash(n)", "f(repr(n))", "'{}'.format(n)", "'{}'.format(x, n)", "list(map(f, n))", "f(*n)", "f(**n)"),
    *("f((n, 1))", "f([n])", "n(x)", "f(n == x)", "f(x[n])", "f(f'{n}')", "f(-n)", "f(n or x)", "n(x, k=1)", "n(k=x)"),
    *("f(*x, n)", "f(n, *x)", "f(n, **x)"),
)


@pytest.mark.parametrize("body", [*PASSES, *READS_WHOLE])
def test_what_is_passed_to_a_function(body: str) -> None:
    """Which function and which argument; Python's functions that show or compare what they are given read all of it."""
    asked, passed = asked_of_n(body), PASSES.get(body, set())
    assert asked == (passed if isinstance(passed, set) else {passed}) if passed else asked <= {None, receivers.COMPARED}
    assert asked


@pytest.mark.parametrize("body", ["(f if x else g)(n)", "(f or g)(y, n)", "jax.grad(f if x else g)(n)"])
def test_what_is_passed_to_one_of_several_functions(body: str) -> None:
    """The function counts as one that is not known, also if the last of them could be named."""
    assert not asked_of_n(body).isdisjoint({None, receivers.PASSED, receivers.COMPARED})


@pytest.mark.parametrize("body", ["x = n == y", "x = n in y", "x = y[n]", "x = f'{n}'", "str(n)", "y.get(n)", "-x + n"])
def test_what_is_compared_or_shown(body: str) -> None:
    """Also by what a method of a container looks for it."""
    assert asked_of_n(body) == {receivers.COMPARED}


RAISES = (
    *("if x: raise ValueError(f'bad {n}')", "assert x, f'{n!r} of {y}'", "raise f(f'{n:>9}', x) from None"),
    *("raise f('bad', n)", "raise f('bad %s' % n)", "raise f(n == x)"),
)


@pytest.mark.parametrize("body", RAISES)
def test_what_is_shown_in_the_text_of_an_error(body: str) -> None:
    """It decides nothing unless code handles the error."""
    assert asked_of_n(body) == {receivers.RAISED}


@pytest.mark.parametrize("body", ["y = f'{n}'\n    raise f(y)", "raise f(str(n))", "raise f(g(n))"])
def test_what_else_is_used_in_the_statement_of_an_error(body: str) -> None:
    assert receivers.RAISED not in asked_of_n(body)


def test_what_is_passed_to_a_function_in_a_cell() -> None:
    """It may be one that the function is nested in, or a variable of that one."""
    space: dict[str, FunctionType] = {}
    exec("def outer(f, n):\n def inner(x): return f(x, k=n)\n return inner", space)
    inner = next(each for each in space["outer"].__code__.co_consts if hasattr(each, "co_code"))
    assert set(asks.asked(steps_of(inner))) == {("f", None), ("n", Passed(("f",), receivers.CELL, "k"))}
