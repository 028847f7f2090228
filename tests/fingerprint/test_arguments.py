"""Arguments are known by the names of their parameters, as a call would bind them."""

import functools

import pytest

from jcache.fingerprint import fingerprint
from jcache.fingerprint.arguments import Call, bound, unfolded


def test_arguments_are_bound_as_a_call_binds_them() -> None:
    """Positions, names and defaults that mean the same call share a key."""

    def f(a: int, /, b: int = 2, *rest: int, c: int = 3, **more: int) -> None: ...

    def key(*args: int, **kwargs: int) -> str:
        return fingerprint(f, args, kwargs).hash

    assert key(1) == key(1, 2) == key(1, b=2) == key(1, c=3) == key(1, 2, c=3)
    assert len({key(1), key(2), key(1, 3), key(1, 2, 3), key(1, c=4), key(1, d=3), key(1, a=1)}) == 7
    assert fingerprint(functools.partial(f, 1), (2,)).hash == key(1, 2)
    assert fingerprint(f, (1,), {"b": 5}).parts["argument b"] == "5"
    assert fingerprint(f, (), {}).hash != key(1)  # a call that fails has some key, and fails


def test_a_wrapper_decides_what_its_arguments_mean() -> None:
    """The signature of what it wraps says nothing of its own defaults."""

    def inner(x: int = 1) -> int:
        return x

    @functools.wraps(inner)
    def outer(x: int = 2) -> int:
        return inner(x)

    assert fingerprint(outer, ()).hash != fingerprint(outer, (1,)).hash
    assert fingerprint(outer, ()).hash == fingerprint(outer, (2,)).hash


def test_partials_and_bound_methods_only_add_arguments() -> None:
    """What is called is the function within them, with their arguments first and the later of two keywords."""

    class Model:
        def step(self, *args: int, **kwargs: int) -> None: ...

    model = Model()
    inner = functools.partial(model.step, 1, c=2, d=2)
    assert unfolded(functools.partial(inner, 3, c=4), (5,), {"d": 6, "e": 7}) == Call(
        Model.step, (model, 1, 3, 5), {"c": 4, "d": 6, "e": 7}
    )


def test_a_partial_of_another_class_is_called_itself() -> None:
    """A subclass may do more than add arguments."""

    class Own(functools.partial[int]):
        def __call__(self, /, *args: object, **kwargs: object) -> int:
            return -super().__call__(*args, **kwargs)

    own = Own(len)
    assert unfolded(own, ([1],), {}) == Call(own, ([1],), {})


def many(a: int, /, b: int = 2, *rest: int, c: int = 3, **more: int) -> None: ...


@pytest.mark.parametrize(
    ("args", "kwargs", "expected"),
    [
        ((1,), {}, [("a", 1), ("b", 2), ("c", 3), ("*rest", ())]),
        ((1, 5, 6, 7), {"c": 8}, [("a", 1), ("b", 5), ("c", 8), ("*rest", (6, 7))]),
        ((1,), {"z": 5, "b": 6, "y": 7}, [("a", 1), ("b", 6), ("c", 3), ("*rest", ()), ("y=", 7), ("z=", 5)]),
        ((1,), {"a": 5}, [("a", 1), ("b", 2), ("c", 3), ("*rest", ()), ("a=", 5)]),
    ],
)
def test_each_parameter_has_a_name_and_a_value(
    args: tuple[int, ...], kwargs: dict[str, int], expected: list[tuple[str, object]]
) -> None:
    """Defaults are among them, and the names of keywords that are no parameters end in an equals sign."""
    assert bound(Call(many, args, kwargs)) == expected


def test_a_keyword_is_no_value_of_a_positional_parameter() -> None:
    """The name of a positional-only parameter may be that of a keyword beside it."""

    def f(a: int = 1, /, **more: int) -> None: ...

    assert bound(Call(f, (), {"a": 5})) == [("a", 1), ("a=", 5)]


def one(a: int, *, c: int = 3) -> None: ...


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "expected"),
    [
        (one, (), {}, []),
        (one, (), {"c": 1}, [("c=", 1)]),
        (one, (1, 2), {}, [("0", 1), ("1", 2)]),
        (one, (1,), {"b": 2}, [("0", 1), ("b=", 2)]),
        (one, (1,), {"a": 2}, [("0", 1), ("a=", 2)]),
        (print, (1,), {"sep": "", "end": ""}, [("0", 1), ("end=", ""), ("sep=", "")]),
    ],
)
def test_a_call_that_cannot_be_bound_stands_as_it_is_written(
    function: object, args: tuple[int, ...], kwargs: dict[str, object], expected: list[tuple[str, object]]
) -> None:
    """A call that fails, and one of what has no Python code, has its arguments by number and by keyword."""
    assert bound(Call(function, args, kwargs)) == expected
