"""What the interpreter runs: a digest of it, and the names that it looks up."""

from types import CodeType
from typing import Any

import pytest

from jcache.fingerprint.bytecode import NOTHING, Chain, Named, computed, reads, signature
from jcache.fingerprint.instructions import steps_of


def code_of(body: str, path: str = "model.py") -> CodeType:
    """The code of a function with this body."""
    namespace: dict[str, Any] = {}
    exec(compile(f"def f(x=1, seed=2, cfg=3):\n    {body}", path, "exec"), namespace)
    code: CodeType = namespace["f"].__code__
    return code


@pytest.mark.parametrize(
    "body", ["'a'\n    return 1", "\n\n    return 1  # one", "return (1)", "'a' 'b'; return 1", "return 3 - 2"]
)
def test_the_text_of_a_function_does_not_count(body: str) -> None:
    """Neither a docstring nor comments, lines and notation are in the digest, nor is the file's path."""
    assert signature(code_of(body, "elsewhere.py")) == signature(code_of("return 1"))


def test_what_a_function_does_counts() -> None:
    """Each of these bodies, which differ in a type, a sign, a name or a place, has a digest of its own."""
    bodies = [
        "return 1", "return 1.0", "return True", "return '1'", "return b'1'", "return 0.0", "return -0.0", "return x",
        "return seed", "return a", "return b", "return x.a", "return x.b", "return lambda: 1", "return lambda: 2",
        "return ['a' for y in x]", "return ['b' for y in x]", "return lambda: 'a'", "return lambda: 'b'",
        "return lambda y: 1", "return lambda *y: 1", "return lambda *, y: 1", "yield 1",
        "try: g()\n    except A: h()", "try: g(); h()\n    except A: pass", "return x in {1, 2}", "return x in {1, 3}",
    ]  # fmt: skip
    assert len({signature(code_of(body)) for body in bodies}) == len(bodies)


CHAINS: list[tuple[str, set[Chain]]] = [
    ("return x.a.b", set()),
    ("return np.linalg.norm(x)", {("np", "linalg", "norm")}),
    ("return lambda: [g.h for y in k]", {("g", "h"), ("k",)}),
    ("global n; n = 1", {("n",)}),
    ("class C:\n        m = n", {("n",)}),
    ("import a.b; return a.c", {("import:0:a.b",), ("import:0:a", "c")}),
    ("import a.b as c; return c.d", {("import:0:a.b",), ("import:0:a.b", "d")}),
    ("from a import b as c; return c.d", {("import:0:a",), ("import:0:a", "b"), ("import:0:a", "b", "d")}),
    ("from .. import r; return r.n", {("import:2:",), ("import:2:", "r"), ("import:2:", "r", "n")}),
    ("import a\n    return lambda: a.b", {("import:0:a",), ("import:0:a", "b")}),
]


@pytest.mark.parametrize(("body", "chains"), CHAINS)
def test_names_are_looked_up_with_their_attributes(body: str, chains: set[Chain]) -> None:
    """Globals and what is imported, wherever in the function; variables of its own are none."""
    assert reads(code_of(body)).chains == chains


GIVEN: list[tuple[str, Any]] = [
    ("return os.getenv('A')", "A"),
    ("return os.getenv('A', 'B')", "A"),
    ("return os.getenv['A']", "A"),
    ("return 'A' in os.getenv", "A"),
    ("return os.getenv()", NOTHING),
    ("return os.getenv(None)", NOTHING),
    ("return os.getenv(seed=None)", NOTHING),
    ("return os.getenv(seed)", Named("seed")),
    ("return os.getenv(cfg.inner.rate)", Named("rate")),
    ("return os.getenv(1)", None),
    ("return os.getenv(x + 1)", None),
    ("return os.getenv", None),
]


@pytest.mark.parametrize(("body", "given"), GIVEN)
def test_what_a_name_is_given_is_told(body: str, given: object) -> None:
    """A text that stands there, the name of a variable, or that nothing is given."""
    assert reads(code_of(body)).given["os", "getenv"] == {given}


ATTRIBUTES = {
    "return x.a.b": {"a", "b"},
    "x.a = 1": set(),
    "return lambda: x.a": {"a"},
    "return 'a'": set(),
    "return getattr(x, 'a')": {"a"},
    "return getattr(x, 'a', None)": {"a"},
    "return attrgetter('a.b')(x)": {"a", "b"},
    "match x:\n        case C(a=1): return 1": {"a"},
    "match x:\n        case C(1): return 1": {"*"},
    "return getattr(x, seed)": {"*"},
    "return getattr(x, g())": {"*"},
    "return getattr(*x)": {"*"},
    "return attrgetter('a', seed)(x)": {"*", "a"},
    "return x.__dict__": {"*", "__dict__"},
    "return x.__getstate__()": {"*", "__getstate__"},
    "return '{0.a[b]}'.format(x)": {"a", "b", "format"},
    "return getattr(np, seed)": set(),
}
COMPUTED: dict[str, set[tuple[str, ...] | None]] = {
    "return getattr(np, x)": {("np",)},
    "return getattr(np.linalg, x.kind)(x)": {("np", "linalg")},
    "return getattr(np, x.get('kind'), None)": {("np",)},
    "return getattr(np, 'a')": set(),
    "return getattr(x, y) + getattr(np, y)": {None, ("np",)},
    "return getattr(*np)": {None},
    "return getattr(np or x, y)": {None},
    "return getattr(np(), y)": {None},
    "return x.getattr(np, y)": {None},
    "return attrgetter(np, y)": {None},
}


@pytest.mark.parametrize("body", COMPUTED)
def test_of_what_attributes_are_read_by_computed_names(body: str) -> None:
    """A global and attributes of it, or anything."""
    assert computed(steps_of(code_of(body))) == COMPUTED[body]


@pytest.mark.parametrize("body", ATTRIBUTES)
def test_the_attributes_that_may_be_read_are_told(body: str) -> None:
    """By their names, also as texts; a star stands for any where code computes the name."""
    assert reads(code_of(body)).attributes == ATTRIBUTES[body]
