"""The callables whose values a program says its results depend on."""

import functools
from collections.abc import Callable, Iterable

import pytest

from jcache.errors import GraphKeyError, InvalidValue
from jcache.fingerprint import fingerprint
from jcache.fingerprint.depends_on import parse_depends_on


class Settings:
    rate = 1

    def read(self) -> int:
        return self.rate

    def __call__(self) -> int:
        return self.rate


def rate() -> int:
    return 2


settings = Settings()
GIVEN: list[tuple[Callable[[], object] | Iterable[Callable[[], object]], list[str]]] = [
    (rate, ["rate"]),
    ([rate, settings.read], ["rate", "Settings.read"]),
    (iter([functools.partial(rate)]), ["rate"]),
    (settings, ["Settings"]),
    ((), []),
]


@pytest.mark.parametrize(("given", "names"), GIVEN)
def test_one_callable_or_several_are_given(
    given: Callable[[], object] | Iterable[Callable[[], object]], names: list[str]
) -> None:
    """Each has the name by which messages tell of it."""
    assert [each.name for each in parse_depends_on(given)] == names


@pytest.mark.parametrize("given", [1, None, [rate, "rate"]])
def test_what_cannot_be_called_is_refused(given: object) -> None:
    """The message shows what was given in the place of a callable."""
    with pytest.raises(InvalidValue, match=r"depends_on=(1|None|'rate') cannot be called"):
        parse_depends_on(given)  # type: ignore[arg-type]


def test_the_value_counts_as_it_is_when_a_key_is_made() -> None:
    """A callable is called for each key, and its value is a part under its name."""
    mine = Settings()
    (dependency,) = dependencies = parse_depends_on(mine.read)
    made = []
    for mine.rate in (1, 2, 1):
        assert dependency.value() == mine.rate
        made.append(fingerprint(rate, depends_on=dependencies))
        assert made[-1].parts["depends_on Settings.read"] == str(mine.rate)
    assert made[0].hash == made[2].hash != made[1].hash


def test_a_callable_that_raises_leaves_no_key() -> None:
    """The message names the callable and what it raised."""

    def failing() -> None:
        raise ZeroDivisionError("no rate")

    with pytest.raises(GraphKeyError, match=r"`test_\w+.failing` raised ZeroDivisionError: no rate\.$"):
        fingerprint(rate, depends_on=parse_depends_on(failing))
