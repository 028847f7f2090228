"""Values of the standard library come back as they were, of the same type, or are not stored."""

import array
import collections
import datetime
import decimal
import pathlib
import re
import types
import uuid
import zoneinfo
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from jcache.errors import NotStorable, Unresolved
from jcache.formats.pytrees import dump
from jcache.formats.pytrees.adapters import from_plain
from jcache.formats.pytrees.standard_values import ADAPTERS
from tests.formats.pytrees.test_pytrees import again

day = datetime.timedelta(hours=23)
offsets = st.timedeltas(min_value=-day, max_value=day)
zones = st.none() | st.timezones() | st.builds(datetime.timezone, offsets) | st.just(datetime.UTC)
keys = st.integers() | st.text(max_size=3) | st.dates() | st.decimals(allow_nan=False)
items = st.integers() | st.lists(st.dates(), max_size=2)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "array:array": st.builds(array.array, st.just("d"), st.lists(st.floats(), max_size=4)) | st.builds(
        array.array, st.sampled_from("bhilq"), st.lists(st.integers(-9, 9))),
    "builtins:bytearray": st.builds(bytearray, st.binary()),
    "collections:Counter": st.builds(collections.Counter, st.lists(keys, max_size=5)),
    "collections:defaultdict": st.builds(
        collections.defaultdict, st.sampled_from([None, list, int, dict]), st.dictionaries(keys, items, max_size=4)),
    "collections:deque": st.builds(collections.deque, st.lists(items, max_size=5), st.none() | st.integers(0, 7)),
    "datetime:date": st.dates(),
    "datetime:datetime": st.datetimes(timezones=zones),
    "datetime:time": st.times(timezones=zones),
    "datetime:timedelta": st.timedeltas(),
    "datetime:timezone": st.sampled_from([
        datetime.UTC, datetime.timezone(datetime.timedelta()), datetime.timezone(datetime.timedelta(), "UTC"),
        datetime.timezone(datetime.timedelta(hours=2)), datetime.timezone(datetime.timedelta(hours=2), "X"),
    ]),
    "decimal:Decimal": st.decimals() | st.sampled_from(["-sNaN12", "NaN3", "-0E+3", "1E-999"]).map(decimal.Decimal),
    "fractions:Fraction": st.fractions(),
    "pathlib:PosixPath": st.sampled_from(["", "a//b/../c", "/x", "\udcff"]).map(pathlib.Path),
    "pathlib:PurePosixPath": st.sampled_from(["a", "//x"]).map(pathlib.PurePosixPath),
    "pathlib:PureWindowsPath": st.sampled_from(["c:a", "c:/a", "//host/share/a"]).map(pathlib.PureWindowsPath),
    "re:Pattern": st.sampled_from([re.compile("(?i)a(b)"), re.compile(b"x.", re.DOTALL), re.compile("a", re.ASCII)]),
    "types:SimpleNamespace": st.builds(types.SimpleNamespace, a=items, b=st.builds(types.SimpleNamespace, c=keys)),
    "uuid:UUID": st.uuids() | st.builds(uuid.uuid1),
    "zoneinfo:ZoneInfo": st.timezones(),
}  # fmt: skip


def told(value: Any) -> tuple[object, ...]:
    """Return what tells a value from others, also where equal ones differ."""
    beside = getattr(value, "fold", None), getattr(value, "maxlen", None), getattr(value, "flags", None)
    return type(value), repr(value), *beside, getattr(value, "is_safe", None), getattr(value, "tzinfo", None)


@pytest.mark.parametrize("name", [name for name in ADAPTERS if name != "pathlib:WindowsPath"])
@given(data=st.data())
def test_a_value_comes_back(name: str, data: st.DataObject) -> None:
    """With all that tells it from others, alone and in containers, and as one object where it was one."""
    value = data.draw(VALUES[name])
    assert told(again(value)) == told(value)
    one, other = again([value, {"a": (value,)}])
    assert told(one) == told(value) and other["a"][0] is one


def cycle() -> object:
    held = types.SimpleNamespace()
    held.itself = held
    return held


class Words(collections.Counter[str]):
    """A class of the program's own."""


def titled() -> object:
    made: Any = collections.Counter("ab")
    made.title = "mine"
    return made


REFUSED: dict[str, Callable[[], object]] = {
    "a cycle": cycle,
    "a factory of the program's own": lambda: collections.defaultdict(lambda: 1),
    "a subclass": lambda: Words("ab"),
    "an attribute": titled,
    "a zone of its own": lambda: zoneinfo.ZoneInfo.no_cache("Europe/Berlin"),
    "an object in a namespace": lambda: types.SimpleNamespace(a=object()),
}


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
def test_others_are_refused(make: Callable[[], object]) -> None:
    """What would come back as something else is not stored, and the message says which part it is."""
    with pytest.raises(NotStorable, match="cannot be stored"):
        dump(make())


@pytest.mark.parametrize(
    ("name", "state"),
    [("array:array", ["d", 3, b""]), ("datetime:date", [0, 0, 0]), ("collections:defaultdict", ["eval", {}])],
)
def test_a_state_of_no_value_is_told(name: str, state: object) -> None:
    """Nothing is made of it."""
    with pytest.raises(Unresolved, match="cannot be made"):
        from_plain(f"jcache:{name}", state)
