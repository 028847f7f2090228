"""The fingerprint of a call has a name and a key, and tells what the call has changed."""

import functools
import types

import pytest

from jcache.errors import GraphKeyError
from jcache.fingerprint import changed_meanwhile, fingerprint
from jcache.fingerprint.call import home_of
from jcache.fingerprint.depends_on import parse_depends_on
from jcache.layout import check_key
from tests.helpers.fingerprints import build


def test_names_are_readable_and_fit_into_a_file() -> None:
    """Whatever the callable is called."""

    def inner() -> None: ...

    inner.__qualname__ = "a/b\n" + "x" * 300
    assert fingerprint(inner).name.startswith("a_b_xxx")
    assert check_key(fingerprint(inner).key)
    assert fingerprint(lambda: 1).name.endswith("file.lambda")
    assert fingerprint(types.SimpleNamespace).name == "SimpleNamespace"


def refuse() -> None:
    raise AssertionError


def test_the_fingerprint_of_a_call_calls_nothing() -> None:
    """Its key is its name and its hash, which the parts in words tell."""
    made = fingerprint(refuse)
    assert made.key == f"refuse-{made.hash}" and len(made.hash) == 64
    assert list(made.parts) == ["function"] and made == fingerprint(refuse)


def test_the_order_of_a_dictionary_counts_for_a_trace() -> None:
    """JAX sees it, and a graph does not."""

    def f(given: dict[str, int]) -> None: ...

    keys = {
        for_trace: [
            fingerprint(f, (given,), for_trace=for_trace).hash for given in ({"a": 1, "b": 2}, {"b": 2, "a": 1})
        ]
        for for_trace in (False, True)
    }
    assert keys[False][0] == keys[False][1] and keys[True][0] != keys[True][1]
    given = {"b": 2, "a": 1}
    assert changed_meanwhile(fingerprint(f, (given,), for_trace=True), f, (given,), {}) == []


@pytest.mark.parametrize(
    ("function", "home"),
    [
        (refuse, __name__),
        (functools.partial(functools.partial(refuse)), __name__),
        (types.SimpleNamespace, "types"),
        (len, "builtins"),
    ],
)
def test_a_callable_has_a_home(function: object, home: str) -> None:
    """The module in which its code stands, through partials."""
    assert home_of(function) == home


def test_a_container_within_a_tuple_that_the_caller_passed_may_not_grow() -> None:
    """The caller may look for what was added, as in a container that it passed by itself."""
    log: list[int] = []

    def add(pair: tuple[list[int], int]) -> int:
        pair[0].append(pair[1])
        return 1

    before = fingerprint(add, ((log, 2),))
    add((log, 2))
    assert changed_meanwhile(before, add, ((log, 2),), {}) == ["pair [] → [2]"]


def test_what_a_call_has_made_unreadable_is_a_change() -> None:
    """A value that has no fingerprint afterwards is told as the reason, and nothing is raised."""
    held: list[object] = [1]

    def f() -> list[object]:
        held[:] = [iter([1])]
        return held

    before = fingerprint(f)
    assert changed_meanwhile(before, f, (), {}) == []
    before = fingerprint(f)
    f()
    (told,) = changed_meanwhile(before, f, (), {})
    assert "an iterator, which reading uses up" in told


def test_what_a_callable_says_it_depends_on_may_not_change_meanwhile() -> None:
    """The value after the call is compared with the one before."""
    rates = ["a"]

    def f() -> None:
        rates[0] += "b"

    before = fingerprint(f, depends_on=parse_depends_on(lambda: rates[0]))
    f()
    assert any("'a' → 'ab'" in told for told in changed_meanwhile(before, f, (), {}))


def test_a_method_that_raises_is_a_refusal() -> None:
    """Whatever the user's code does while it is asked, a caller gets one kind of error."""

    class Broken:
        def __cache_key__(self) -> object:
            raise ZeroDivisionError

    with pytest.raises(GraphKeyError, match="ZeroDivisionError"):
        fingerprint(build, (Broken(),))
