"""Sizes and ages, as people write and read them."""

import re
from contextlib import suppress
from datetime import UTC, datetime
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from jcache.errors import InvalidValue
from jcache.units import (
    NANOSECONDS,
    format_age,
    format_apart,
    format_seconds,
    format_size,
    parse_age,
    parse_size,
    rfc3339,
)

BINARY = {unit: 1024**i for i, unit in enumerate("KMGTP", 1)}
AGES = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 604800, "mo": 2592000, "y": 31536000}


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("4096", 4096),
        ("1B", 1),
        ("20G", 20 * 1024**3),
        ("20GiB", 20 * 1024**3),
        ("20GB", 20 * 10**9),
        ("1.5k", 1536),
        ("1.5 kB", 1500),
        (" 3 mib ", 3 * 1024**2),
        ("2P", 2 * 1024**5),
        ("0.3", 0),
    ],
)
def test_sizes(text: str, size: int) -> None:
    """A size is bytes, or a number with an IEC unit, an SI unit, or a bare letter that means the IEC one."""
    assert parse_size(text) == size


@given(st.integers(0, 10**18), st.sampled_from(sorted(BINARY)), st.sampled_from(["", "iB", "B"]))
def test_sizes_are_exact(number: int, letter: str, rest: str) -> None:
    """A size of any magnitude is computed exactly."""
    unit = BINARY[letter] if rest != "B" else 1000 ** ("KMGTP".index(letter) + 1)
    assert parse_size(f"{number}{letter}{rest}") == number * unit
    assert parse_size(f"{number}.25{letter}{rest}".lower()) == Fraction(4 * number + 1, 4) * unit // 1


@pytest.mark.parametrize(
    "text",
    ["", " ", "G", "-1", "+1", "1e3", "1,5G", "1..5", ".5G", "5.", "1Gi", "1 X", "٣", "1\N{KELVIN SIGN}", "1\n2"],
)
def test_what_is_no_size_is_refused(text: str) -> None:
    """Signs, exponents, commas, foreign digits and unknown units are no sizes."""
    with pytest.raises(InvalidValue, match="is not a size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("5min", 300), ("1.5h", 5400), ("30 d", 2592000), ("1mo", 2592000)]
)
def test_ages(text: str, seconds: int) -> None:
    """An age is a number and one of s, min, h, d, w, mo, y."""
    assert parse_age(text) == seconds * NANOSECONDS


@given(st.integers(0, 10**11), st.sampled_from(sorted(AGES)))
def test_ages_are_exact(number: int, unit: str) -> None:
    """Ages are whole nanoseconds, and 0.5 of a unit is half of it."""
    assert parse_age(f"{number}{unit}") == number * AGES[unit] * NANOSECONDS
    assert parse_age(f"{number}.5{unit}") * 2 == (2 * number + 1) * AGES[unit] * NANOSECONDS


@pytest.mark.parametrize("text", ["3m", "3.5 m"])
def test_a_bare_m_is_refused(text: str) -> None:
    """A bare ``m`` is refused, and the message offers minutes and months."""
    with pytest.raises(InvalidValue, match=r"min for minutes or .*mo for months"):
        parse_age(text)


@pytest.mark.parametrize("text", ["", "7", "d", "-1d", "3D", "3 days", "1e9s", "3M"])
def test_what_is_no_age_is_refused(text: str) -> None:
    """A number without a unit, or with another one, is no age."""
    with pytest.raises(InvalidValue, match="is not an age"):
        parse_age(text)


@given(st.text(max_size=40))
def test_any_text_is_a_value_or_a_refusal(text: str) -> None:
    """Any text gives a number of at least 0 or an `InvalidValue`."""
    for parse in (parse_size, parse_age):
        with suppress(InvalidValue):
            assert parse(text) >= 0


@given(st.integers(0, 2**58))
def test_a_size_reads_back(size: int) -> None:
    """`parse_size` reads the output of `format_size`, to the one printed decimal."""
    text = format_size(size)
    assert re.fullmatch(r"\d+ B|\d+\.\d [KMGTPE]iB", text)
    if not text.endswith("EiB"):
        assert abs(parse_size(text) - size) <= max(1, size) / 19


@given(st.integers(0, 200 * 31536000))
def test_an_age_reads_back(seconds: int) -> None:
    """`parse_age` reads the output of `format_age`, rounded down by less than a unit."""
    text = format_age(seconds * NANOSECONDS)
    unit = AGES[text.lstrip("0123456789")]
    assert 0 <= seconds - parse_age(text) // NANOSECONDS < unit
    assert seconds < 1 or not text.startswith("0")


@pytest.mark.parametrize(
    ("age", "text"), [(-3 * 86400, "in 3d"), (-0.4, "0s"), (0, "0s"), (89, "1min"), (45 * 86400, "1mo")]
)
def test_an_age_below_zero_lies_ahead(age: float, text: str) -> None:
    """An entry that another clock wrote may be used in the future."""
    assert format_age(int(age * NANOSECONDS)) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.00 s"),
        (0.04, "0.04 s"),
        (9.999, "10.0 s"),
        (12.34, "12.3 s"),
        (59.97, "1 min 00 s"),
        (250, "4 min 10 s"),
        (3599.7, "1 h 00 min"),
        (7500, "2 h 05 min"),
        (-2, "-2.00 s"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    """Durations have the unit that people would use."""
    assert format_seconds(seconds) == text


@given(st.lists(st.integers(0, 2**58), min_size=1, max_size=4), st.integers(0, 2**20))
def test_sizes_that_differ_look_different(counts: list[int], offset: int) -> None:
    """Beside each other, however close they are; where they are not close, as always."""
    several = [*counts, counts[0] + offset]
    texts = format_apart(*several)
    assert len(set(texts)) == len(set(several))
    assert all(parse_size(text.replace(",", "")) or count == 0 for text, count in zip(texts, several, strict=True))
    assert format_apart(counts[0]) == [format_size(counts[0])]


def test_only_what_is_close_has_more_digits() -> None:
    """The others are as short as ever."""
    gib = 2**30
    assert format_apart(100 * 2**50, 73 * gib, 73 * gib + 2**20) == ["100.0 PiB", "73.000 GiB", "73.001 GiB"]
    assert format_apart(73 * gib, 73 * gib + 1) == ["78,383,153,152 B", "78,383,153,153 B"]


@given(st.integers(-62135596800 * NANOSECONDS, 253402300799 * NANOSECONDS))
def test_times_are_rfc_3339(time_ns: int) -> None:
    """Every time from the year 1 to 9999 is RFC 3339 text that reads back to the microsecond."""
    text = rfc3339(time_ns)
    assert text and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", text)
    back = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)
    assert (back.days * 86400 + back.seconds) * 10**6 + back.microseconds == time_ns // 1000


@pytest.mark.parametrize("time_ns", [2**80, -(2**80), 253402300800 * NANOSECONDS])
def test_times_beyond_the_calendar_are_none(time_ns: int) -> None:
    """A time outside the calendar has no text."""
    assert rfc3339(time_ns) is None
