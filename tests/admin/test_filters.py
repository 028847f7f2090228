"""The filter language."""

import random
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, strategies as st

from jcache.admin.filters import FIELDS, OPERATORS, parse_filter, parse_sort
from jcache.entry import Entry
from jcache.errors import InvalidValue
from jcache.layout import Kind
from tests.helpers.entries import DAY, NOW, SECOND, digits, entry

ENTRIES = [
    entry(1, 50, NOW - 40 * DAY, seconds=0.5),
    entry(2, 100, NOW - 2 * DAY, seconds=2.0, created_ns=NOW - 50 * DAY),
    entry(3, 2 << 20, NOW - 3600 * SECOND, kind=Kind.TRACES, key=f"loss-{digits(3)}"),
]


def matching(*texts: str) -> list[int]:
    filters = [parse_filter(text) for text in texts]
    return [i for i, e in enumerate(ENTRIES, 1) if all(f.matches(e, NOW) for f in filters)]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("size>100", [3]),
        ("size>=100", [2, 3]),
        ("size = 100B", [2]),
        ("size!=100", [1, 3]),
        ("size<1KiB", [1, 2]),
        ("size<=50", [1]),
        ("used>30d", [1]),
        ("used<=2h", [3]),
        ("age>45d", [2]),
        ("seconds>=0.5", [1, 2]),
        ("seconds!=2", [1]),
        ("seconds<1", [1]),
        ("name=jit_step", [1, 2]),
        ("name!=jit_step", [3]),
        ("name~^jit", [1, 2]),
        ("name~s", [1, 2, 3]),
        ("kind=traces", [3]),
        ("kind!=traces", [1, 2]),
        ("kind~^(traces|graphs)$", [3]),
        ("  name  ~  ss  ", [3]),
        ("name=a=b", []),
        ("name~>", []),
    ],
)
def test_filters(text: str, numbers: list[int]) -> None:
    """Sizes, ages, seconds, names and kinds are compared; unknown seconds match no filter on them."""
    assert matching(text) == numbers


def test_several_filters_must_all_hold() -> None:
    """An entry is selected only if all filters match."""
    assert matching("size>=100", "name~jit") == [2]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not a filter"),
        ("size", "is not a filter"),
        (">5", "is not a filter"),
        ("size>", "has no value"),
        ("name= ", "has no value"),
        ("colour=red", "choose from size, age, used, name, kind, seconds"),
        ("Size>1", "'Size' is not a field"),
        ("size>>1", "'>1' is not a size"),
        ("size==1", "'=1' is not a size"),
        ("size>lots", "'lots' is not a size"),
        ("size~1", "cannot be searched"),
        ("age>5", "is not an age"),
        ("used<3m", "3min for minutes or 3mo for months"),
        ("seconds>1s", "is not a number of seconds"),
        ("seconds>nan", "is not a number of seconds"),
        ("seconds>-1", "is not a number of seconds"),
        ("name>a", "cannot be compared by '>': use =, != or ~"),
        ("kind=programs", "'programs' is not a kind"),
        ("kind>traces", "cannot be compared"),
        ("name~(", "is not a regular expression"),
        ("name~" + "(" * 5000 + ")" * 5000, "is not a regular expression"),
        ("name~a{99999999999}", "is not a regular expression"),
    ],
    ids=lambda text: text[:20],
)
def test_what_is_no_filter_is_refused(text: str, says: str) -> None:
    """The message names the part that cannot be parsed, and the alternatives."""
    with pytest.raises(InvalidValue, match=re.escape(says)) as caught:
        parse_filter(text)
    assert caught.value.exit_code == 2


PARTS = st.sampled_from(
    [*FIELDS, *OPERATORS, " ", "1", "1GiB", "5d", "traces", "[[a]", "(?i)x", "x(?i)", "(?<=a+)b", "\\", "\n"]
)


@given(st.text(max_size=30) | st.lists(PARTS | st.text(max_size=3), max_size=8).map("".join))
def test_any_text_is_a_filter_or_a_refusal(text: str) -> None:
    """Any text either raises `InvalidValue` without a warning, or is a filter that matches an entry or does not."""
    with suppress(InvalidValue):
        parsed = parse_filter(text)
        assert all(parsed.matches(e, NOW) in (True, False) for e in ENTRIES)
    with suppress(InvalidValue):
        sorted(ENTRIES, key=parse_sort(text).key(NOW))


@given(st.integers(0, 10**15), st.integers(0, 10**15), st.sampled_from(["=", "!=", "<", ">", "<=", ">="]))
def test_comparisons_are_those_of_numbers(size: int, value: int, sign: str) -> None:
    """A filter on the size agrees with Python's comparison of the two numbers."""
    expected = eval(f"{size} {'==' if sign == '=' else sign} {value}")
    assert parse_filter(f"size{sign}{value}").matches(entry(1, size), NOW) is expected


def orderings() -> list[Entry]:
    some = [
        entry(i, i * 37 % 5, NOW - i * 31 % 7 * DAY, seconds=None if i % 4 == 0 else float(i % 3)) for i in range(40)
    ]
    return [
        e._replace(key=f"{'abc'[: i % 3 + 1]}-{digits(i)}", created_ns=NOW - i % 5 * DAY) for i, e in enumerate(some)
    ]


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_orders(field: str, direction: str, chance: random.Random) -> None:
    """Entries ascend or descend by a field, unknown values last, equal ones by key."""
    values: dict[str, Callable[[Entry], Any]] = {
        "size": lambda e: e.bytes,
        "age": lambda e: -e.created_ns,
        "used": lambda e: -e.recency_ns,
        "name": lambda e: e.name,
        "kind": lambda e: str(e.kind),
        "seconds": lambda e: e.seconds,
    }
    value = values[field]
    some = orderings()
    chance.shuffle(some)
    ordered = sorted(some, key=parse_sort(f"{field}:{direction}").key(NOW))
    known = [e for e in ordered if value(e) is not None]
    by_key = sorted(known, key=lambda e: e.key)
    assert known == sorted(by_key, key=value, reverse=direction == "desc")
    assert all(value(e) is None for e in ordered[len(known) :])


def test_usual_directions() -> None:
    """Without a direction, the largest, the slowest and the most recent entries come first, and names ascend."""
    assert [parse_sort(field).descending for field in FIELDS] == [True, False, False, False, False, True]


@pytest.mark.parametrize("text", ["", "colour", "size:", "size:up", "size:asc:desc", ":asc", " size"])
def test_what_is_no_order_is_refused(text: str) -> None:
    """An unknown field or direction is a usage error."""
    with pytest.raises(InvalidValue, match="is not an order"):
        parse_sort(text)
