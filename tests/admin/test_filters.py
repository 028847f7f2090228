"""The filter language."""

import random
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, strategies as st

from jcache.admin.fields import FIELDS, Facts, parse_fields
from jcache.admin.filters import OPERATORS, parse_filter, parse_sort
from jcache.entry import Entry
from jcache.errors import InvalidValue
from jcache.layout import Kind
from tests.helpers.entries import DAY, NOW, SECOND, digits, entry, key

ENTRIES = [
    entry(1, 50, NOW - 40 * DAY, seconds=0.5),
    entry(2, 100, NOW - 2 * DAY, seconds=2.0, created_ns=NOW - 50 * DAY),
    entry(3, 2 << 20, NOW - 3600 * SECOND, kind=Kind.TRACES, key=f"loss-{digits(3)}", pinned=True),
    entry(4, 1, NOW - 20 * DAY, kind=Kind.GRAPHS, key=f"mesh-{digits(4)}", pinned=None, seconds=99.0),
]
FACTS = [
    Facts(hits=0, jaxlib="0.10.2", run="2026-a", platform="cpu", device="cpu znver3"),
    Facts(hits=3, jaxlib="0.9", run="2026-b", platform="cuda", device="cuda 9.0"),
    Facts(hits=0, jaxlib="0.9.1, 0.12.0.1"),
    Facts(),
]


def facts_of(entry: Entry) -> Facts:
    """Facts of one of the entries of these tests."""
    return FACTS[entry.bytes % len(FACTS)]


def matching(*texts: str) -> list[int]:
    filters = [parse_filter(text) for text in texts]
    pairs = zip(ENTRIES, FACTS, strict=True)
    return [i for i, (e, facts) in enumerate(pairs, 1) if all(f.matches(e, NOW, facts) for f in filters)]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("size>100", [3]),
        ("size>=100", [2, 3]),
        ("size = 100B", [2]),
        ("size!=100", [1, 3, 4]),
        ("size<1KiB", [1, 2, 4]),
        ("size<=50", [1, 4]),
        ("used>30d", [1]),
        ("used<=2h", [3]),
        ("age>45d", [2]),
        ("seconds>=0.5", [1, 2, 4]),
        ("seconds!=2", [1, 4]),
        ("seconds<1", [1]),
        ("name=jit_step", [1, 2]),
        ("name!=jit_step", [3, 4]),
        ("name~^jit", [1, 2]),
        ("name~s", [1, 2, 3, 4]),
        ("kind=traces", [3]),
        ("kind!=traces", [1, 2, 4]),
        ("kind~^(traces|graphs)$", [3, 4]),
        ("  name  ~  ss  ", [3]),
        ("name=a=b", []),
        ("name~>", []),
        ("bytes>100", [3]),
        ("build_seconds<=2", [1, 2]),
        ("function=loss", [3]),
        ("recency>30d", [1]),
        ("created>45d", [2]),
        ("hits=0", [1, 3]),
        ("hits!=0", [2]),
        ("hits>=0", [1, 2, 3]),
        ("pinned=yes", [3]),
        ("pinned=TRUE", [3]),
        ("pinned!=yes", [1, 2]),
        ("pinned=no", [1, 2]),
        ("jaxlib=0.9", [2]),
        ("jaxlib<0.10", [2]),
        ("jaxlib>=0.9", [1, 2, 3]),
        ("jaxlib<0.13", [1, 2, 3]),
        ("jaxlib>0.9", [1, 3]),
        ("jaxlib~0\\.9", [2, 3]),
        ("run=2026-a", [1]),
        ("run~2026", [1, 2]),
        ("platform=cuda", [2]),
        ("platform!=cuda", [1]),
        ("device~9.0", [2]),
        (f"key={key(1)}", [1]),
        ("key~^jit_step-", [1, 2]),
        ("step", [1, 2]),
        ("jit_", [1, 2]),
        ("s", [1, 2, 3, 4]),
        ("jit_step-", []),
        (digits(1)[:8], []),
    ],
)
def test_filters(text: str, numbers: list[int]) -> None:
    """Each type is compared in its way, a word is a part of the name, and what is not known matches nothing."""
    assert matching(text) == numbers


def test_several_filters_must_all_hold() -> None:
    """An entry is selected only if all filters match."""
    assert matching("size>=100", "name~jit") == [2]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not a filter"),
        ("size", "'size' is not a filter, but a field"),
        ("bytes", "such as 'size>100MB'"),
        ("two words", "is not a filter"),
        ("*", "is not a filter"),
        (">5", "is not a filter"),
        ("size>", "has no value"),
        ("name= ", "has no value"),
        ("colour=red", "choose from size, age, used, name, kind, seconds, hits, pinned, jaxlib, run, platform, device"),
        ("Size>1", "'Size' is not a field to filter by; did you mean 'size'? Choose from"),
        ("pined=yes", "did you mean 'pinned'"),
        ("time>3d", "did you mean 'used'?"),
        ("gpu=9.0", "did you mean 'device'?"),
        ("hits>few", "is not a whole number"),
        ("hits>1.5", "is not a whole number"),
        ("hits~1", "cannot be searched"),
        ("pinned=maybe", "is neither yes nor no"),
        ("pinned>no", "cannot be compared by '>': use = or !="),
        ("jaxlib<new", "is not a version"),
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
    [
        *FIELDS,
        *OPERATORS,
        " ",
        "1",
        "1GiB",
        "5d",
        "traces",
        "yes",
        "0.9",
        "[[a]",
        "(?i)x",
        "x(?i)",
        "(?<=a+)b",
        "\\",
        "\n",
    ]
)


@pytest.mark.full
@given(st.text(max_size=30) | st.lists(PARTS | st.text(max_size=3), max_size=8).map("".join))
def test_any_text_is_a_filter_or_a_refusal(text: str) -> None:
    """Any text either raises `InvalidValue` without a warning, or is a filter that matches an entry or does not."""
    with suppress(InvalidValue):
        parsed = parse_filter(text)
        assert all(parsed.matches(e, NOW, facts) in (True, False) for e in ENTRIES for facts in FACTS)
    with suppress(InvalidValue):
        sorted(ENTRIES, key=parse_sort(text).key(NOW, facts_of))


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
        "pinned": lambda e: e.pinned,
        "key": lambda e: e.key,
        "hits": lambda e: facts_of(e).hits,
        "run": lambda e: facts_of(e).run,
        "platform": lambda e: facts_of(e).platform,
        "device": lambda e: facts_of(e).device,
        "jaxlib": lambda e: {"0.10.2": 3, "0.9": 1, "0.9.1, 0.12.0.1": 2}.get(str(facts_of(e).jaxlib)),
    }
    value = values[field]
    some = orderings()
    chance.shuffle(some)
    ordered = sorted(some, key=parse_sort(f"{field}:{direction}").key(NOW, facts_of))
    known = [e for e in ordered if value(e) is not None]
    by_key = sorted(known, key=lambda e: e.key)
    assert known == sorted(by_key, key=value, reverse=direction == "desc")
    assert all(value(e) is None for e in ordered[len(known) :])


def test_usual_directions() -> None:
    """Without a direction, the largest, the slowest and the most recent entries come first, and names ascend."""
    first = {name for name in FIELDS if parse_sort(name).descending}
    assert first == {"size", "seconds", "hits", "pinned"}


@pytest.mark.parametrize(
    ("text", "says"),
    [("", "is not a field"), ("colour", "is not a field"), ("sise", "did you mean 'size'?"), (" size", "did you mean"),
     ("size:", "is not an order"), ("size:up", "is not an order"), ("size:asc:desc", "is not an order"),
     (":asc", "is not a field"), ("modified", "is not a field"), ("last_used", "did you mean 'used'?")],
)  # fmt: skip
def test_what_is_no_order_is_refused(text: str, says: str) -> None:
    """An unknown field or direction is a usage error, which names what may have been meant."""
    with pytest.raises(InvalidValue, match=re.escape(says)) as caught:
        parse_sort(text)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("name", [name for field in FIELDS.values() for name in field.names])
def test_every_name_of_a_field_is_taken_everywhere(name: str) -> None:
    """A name works in filters, orders and columns, and its example is a filter."""
    field = parse_sort(name).field
    assert parse_fields(f" {name}, {name}") == (field,)
    assert parse_filter(field.example.replace(field.name, name, 1)).field is field
