"""What code asks of what it names, as its instructions show it, on each version of Python."""

from types import FunctionType

import pytest

from jcache.fingerprint import asks
from jcache.fingerprint.asks import Passed
from jcache.fingerprint.code import meaning
from jcache.fingerprint.instructions import steps_of
from tests.fingerprint.test_uses import made

ASKS = {
    "x = n['a']": {"[a]"}, "x = o.n['a']['b']": {"[a]"}, "x = n['a'] and n['b']": {"[a]", "[b]"},
    "n['a'](x)": {"[a]"}, "x = o.n.get('a')": {"[a]"}, "x = n.get('a', 1)": {"[a]"},
    "f(n['a'], x=n.get('b'))": {"[a]", "[b]"}, "z = n\n    f(z['a'])": {"[a]"}, "z = o.n\n    x = z['a'] + y": {"[a]"},
    "x = n.a": {".a"}, "x = n.a(1) + n.b.c": {".a", ".b"}, "z = n\n    x = z.a + z.b": {".a", ".b"},
    "z = n\n    w = z\n    x = w['a'] + z.b": {"[a]", ".b"}, "x = n\n    z = 1": set(),
    "z = n\n    for _ in x: w = z; z = w['a']": {None},
    "x = n['a'].b": {"[a]"}, "x = n.get": {".get"}, "n.a = n.b": {".b", None},
    "x = y if n is None else n.a": {".a"}, "if n is not None: x = n['a']": {"[a]"}, "x = None is n": {None},
    "x = 'a' in n": {"[a]"}, "x = 'a' not in o.n": {"[a]"}, "x = 'a' in n and n['a']": {"[a]"},
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
        "x = y in n",
        "x = n.get('a' == y)",
    ),
    *("x = (('a' if x else 'b') in n)", "x = n.get(f'a{x}')", "x = n['a' + y]"),
    *("z = n\n    z += 1", "z = n\n    z = f\n    x = z.a", "z = n\n    return x, z, z.a"),
    *("z = n\n    def g(): return z.a", "n.a = 1", "n.a += 1", "del n.a", "z, w = n", "z = w = n", "x = n if x else y"),
    *("x = n.get('a') or n\n    return x", "x = n.get('a', n)", "from m import n", "n.get(*['a'])", "n.get('a', *x)"),
)


def asked_of_n(body: str) -> set[asks.Ask]:
    return {what for name, what in asks.asked(steps_of(made(body).__code__)) if name == "n"}


@pytest.mark.parametrize("body", [*ASKS, *OPENS])
def test_what_is_asked_of_a_name(body: str) -> None:
    """Constant items, by an index and by `get`, and attributes; any other use is one of the whole."""
    asked = asked_of_n(body)
    assert asked == ASKS[body] if body in ASKS else asked & {None, asks.COMPARED, ".get", ".items"}


def f(*chain: str, argument: int | str = 0, kind: str = asks.GLOBAL, by: str = "") -> Passed:
    return Passed(chain or ("f",), kind, argument, tuple(by.split()))


PASSES: dict[str, asks.Ask | set[asks.Ask]] = {
    "f(n)": f(), "x = f(n, 'a')['b']": f(), "return f(x, n)": f(argument=1), "f(x, k=n)": f(argument="k"),
    "f(x, j=1, k=n)": f(argument="k"), "f(k=n, j=x)": f(argument="k"), "f(n, x, k=y)": f(), "z = n\n    f(z)": f(),
    "f(o.n, x + 1)": f(), "f(x, y, n)": f(argument=2), "return m.f(n).a": f("m", "f"), "m.k.f(1, n)":
    f("m", "k", "f", argument=1), "f(x, g(n))": f("g"), "x = f(g(1), n) + 1": f(argument=1), "f(g(j=x), n)":
    f(argument=1), "f(f'{x}', n)": f(argument=1), "x = f(y) + f(x, n)": f(argument=1), "f(f(x), f(f(y), n))":
    f(argument=1), "f(x)(n)": asks.PASSED, "f(x)(y, n)": asks.PASSED,
    "x.f(n)": f(kind=asks.METHOD), "f(x).g(y, n)": f("g", argument=1, kind=asks.METHOD),
    "partial(f, n)": f(by="partial"), "functools.partial(m.f, x, n)()":
    f("m", "f", argument=1, by="functools partial"), "partial(x.f, n)": f(kind=asks.METHOD), "partial(f, k=n)":
    f(argument="k", by="partial"), "partial(x, n)": asks.PASSED, "partial(n)": f("partial"),
    "jax.grad(f)(n)": f(by="jax grad"), "jax.vmap(m.f, in_axes=x)(x, n)": f("m", "f", argument=1, by="jax vmap"),
    "jax.jit(x.f)(n)": f(kind=asks.METHOD), "g(f)(n)": {f(), asks.PASSED}, "g(f, x)(x, n)":
    {f(argument=1), asks.PASSED}, "g(h(f))(n)": asks.PASSED,
    "f[x](n)": asks.PASSED, "isinstance(n, f)": f("isinstance"), "g = lambda: 1\n    g(n)": asks.PASSED,
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
    assert asked == (passed if isinstance(passed, set) else {passed}) if passed else asked <= {None, asks.COMPARED}
    assert asked


@pytest.mark.parametrize("body", ["(f if x else g)(n)", "(f or g)(y, n)", "jax.grad(f if x else g)(n)"])
def test_what_is_passed_to_one_of_several_functions(body: str) -> None:
    """The function counts as one that is not known, also if the last of them could be named."""
    assert not asked_of_n(body).isdisjoint({None, asks.PASSED})


@pytest.mark.parametrize("body", ["x = n == y", "x = n in y", "x = y[n]", "x = f'{n}'", "str(n)", "y.get(n)", "-x + n"])
def test_what_is_compared_or_shown(body: str) -> None:
    """Also by what a method of a container looks for it."""
    assert asked_of_n(body) == {asks.COMPARED}


def test_what_is_passed_to_a_function_in_a_cell() -> None:
    """It may be one that the function is nested in, or a variable of that one."""
    space: dict[str, FunctionType] = {}
    exec("def outer(f, n):\n def inner(x): return f(x, k=n)\n return inner", space)
    inner = next(each for each in space["outer"].__code__.co_consts if hasattr(each, "co_code"))
    assert set(asks.asked(steps_of(inner))) == {("f", None), ("n", Passed(("f",), asks.CELL, "k"))}


def test_an_item_has_a_name_of_its_own() -> None:
    """It consists of the container's name and the key, by whichever name the container is reached."""
    found = set(asks.asked(steps_of(made("z = o.n['a']\n    x = z['b'].c + z.d + z.get('e')(1)").__code__)))
    of_inner = {what for name, what in found if name == "n[a]"}
    assert of_inner == {"[b]", ".d", "[e]"} and ("n[a][b]", ".c") in found and ("n[a][e]", None) in found


def test_what_is_asked_of_parameters() -> None:
    """Of each of them and of its items, also where a nested function has it."""
    listing = steps_of(made("return x.a + x['b'].c + y").__code__)
    assert set(asks.asked_of_parameters(listing, "xy")) == {
        ("x", ".a"),
        ("x", "[b]"),
        ("x[b]", ".c"),
        ("y", asks.COMPARED),
    }
    known = meaning(made("return x == (lambda: y['a'].b)").__code__).asks().of_parameters
    assert known == {"x": {asks.COMPARED}, "y": {"[a]"}, "y[a]": {".b"}}


def test_what_is_within_something() -> None:
    """It bears its name, or that of an item in it."""
    assert [asks.is_within(each, "n") for each in ("n", "n[a]", "n[a][b]", "na", "m[n]")] == [True] * 3 + [False] * 2


def test_local_names_that_stand_for_one_another() -> None:
    """Each is looked at once, also where a loop binds them to one another or to items of one another."""
    loop = "for _ in y:\n        z = x\n        x = z['a']\n        w = z\n        z = w"
    found = set(asks.asked_of_parameters(steps_of(made(f"{loop}\n    return x.b").__code__), "x"))
    assert found == {("x", ".b"), ("x", None)}  # `z` is bound twice
    for body in ("for _ in y: x = x", "z = x\n    x = z\n    return x.b"):
        assert set(asks.asked_of_parameters(steps_of(made(body).__code__), "x")) <= {("x", ".b")}
    deep = set(asks.asked_of_parameters(steps_of(made("for _ in y: x = x['a']").__code__), "x"))
    assert ("x[a]", "[a]") in deep and [what for _, what in deep].count(None) == 1
    many = "\n    ".join(f"z{n + 1} = z{n}" for n in range(30))
    assert asked_of_n(f"z0 = n\n    {many}\n    return z30.a") == {".a"}
