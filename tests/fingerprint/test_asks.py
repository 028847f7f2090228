"""What code asks of what it names, as its instructions show it, on each version of Python."""

import pytest

from jcache.fingerprint import asks, receivers
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


def asked_of_n(body: str) -> set[receivers.Ask]:
    return {what for name, what in asks.asked(steps_of(made(body).__code__)) if name == "n"}


@pytest.mark.parametrize("body", [*ASKS, *OPENS])
def test_what_is_asked_of_a_name(body: str) -> None:
    """Constant items, by an index and by `get`, and attributes; any other use is one of the whole."""
    asked = asked_of_n(body)
    assert asked == ASKS[body] if body in ASKS else asked & {None, receivers.COMPARED, ".get", ".items"}


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
        ("y", receivers.COMPARED),
    }
    known = meaning(made("return x == (lambda: y['a'].b)").__code__).asks().of_parameters
    assert known == {"x": {receivers.COMPARED}, "y": {"[a]"}, "y[a]": {".b"}}


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
