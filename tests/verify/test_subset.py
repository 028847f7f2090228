"""The part of a root that one run of `jcache verify` checks."""

import pytest
from hypothesis import given, strategies as st

from jcache.errors import InvalidValue
from jcache.verify.subset import Subset

SIZES = st.lists(st.integers(0, 10**12), max_size=60)


@pytest.mark.parametrize(
    ("text", "of_ten"),
    [("1/7", 2), ("1/1", 10), ("3/10", 3), (" 1 / 2 ", 5), ("5%", 1), ("25%", 3), ("100 %", 10), ("12.5%", 2)],
)
def test_shares(text: str, of_ten: int) -> None:
    """A share of the number of entries is rounded up, whatever their size."""
    assert Subset.parse(text).count([7] * 10) == of_ten
    assert Subset.parse(text).count([]) == 0


@pytest.mark.parametrize(("text", "count"), [("30", 3), ("39", 3), ("40", 4), ("1", 1), ("1GiB", 5), ("0.03k", 3)])
def test_sizes(text: str, count: int) -> None:
    """A size takes as many entries as fit, and at least one, so that a larger entry gets its turn."""
    assert Subset.parse(text).count([10] * 5) == count
    assert Subset.parse(text).count([]) == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "lots",
        "0",
        "0%",
        "0/7",
        "8/7",
        "7/0",
        "0/0",
        "101%",
        "-5%",
        "1/-7",
        "5 % of it",
        "1/7/2",
        "½",
        "١/٧",
        "1e3%",
    ],
)
def test_what_is_no_part(text: str) -> None:
    """Nothing, more than everything and nonsense are refused in one sentence that names the valid forms."""
    with pytest.raises(InvalidValue) as caught:
        Subset.parse(text)
    assert repr(text) in str(caught.value) and "1/7" in str(caught.value) and "\n" not in str(caught.value)


@given(SIZES, st.integers(1, 40))
def test_as_many_shares_as_there_are_take_all(sizes: list[int], parts: int) -> None:
    """Seven runs with a share of 1/7 check every entry."""
    number = Subset.parse(f"1/{parts}").count(sizes)
    assert number * parts >= len(sizes) and number <= len(sizes)


@given(SIZES, st.integers(1, 10**12))
def test_a_size_is_kept_to(sizes: list[int], limit: int) -> None:
    """The entries taken fit, or are one, and one more would not fit."""
    number = Subset.parse(str(limit)).count(sizes)
    assert number == min(len(sizes), 1) or sum(sizes[:number]) <= limit
    assert number == len(sizes) or sum(sizes[: number + 1]) > limit
