"""The settings of ``jcache.toml``."""

import pytest
from hypothesis import given, strategies as st

from jcache.configuration.settings import LIMITS, SETTINGS, as_json, setting
from jcache.errors import InvalidValue

TOML = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30) | st.dates() | st.datetimes(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("max_size", "20GiB", 20 << 30), ("max_size", 4096, 4096), ("max_entries", "5", 5), ("max_entries", 5, 5),
        ("min_free", "1kB", 1000), ("older_than", "2d", 2 * 86400 * 10**9), ("keep_last", 0, 0),
        ("order", "cost", "cost"),
        ("preset", "fast_compile", "fast_compile"), ("places", ["/a", "b"], ("/a", "b")), ("places", "/a", ("/a",)),
    ],
)  # fmt: skip
def test_values(name: str, given: object, value: object) -> None:
    """A value is read as people write it, as text or as a number of TOML."""
    assert SETTINGS[name].parse(given) == value


@given(st.sampled_from(list(SETTINGS)), TOML)
def test_any_value_is_read_or_refused(name: str, value: object) -> None:
    """Whatever stands in a file is a value of the setting, in its range, or is refused in a sentence."""
    try:
        parsed = SETTINGS[name].parse(value)
    except InvalidValue:
        pass
    else:
        assert isinstance(parsed, str | tuple) or (0 <= parsed < 2**63 and not isinstance(parsed, bool))
        assert as_json(name, parsed) is not None


@pytest.mark.parametrize(("name", "near"), [("max_siz", "max_size"), ("keep", "keep_last"), ("preests", "preset")])
def test_a_name_that_is_nearly_right(name: str, near: str) -> None:
    """The message names the setting that was meant, and all of them."""
    with pytest.raises(InvalidValue, match=f"did you mean '{near}'") as raised:
        setting(name)
    assert all(known in str(raised.value) for known in SETTINGS)


def test_names_may_have_dashes() -> None:
    """A setting may be written as the option of the same meaning."""
    assert setting("max-size") is SETTINGS["max_size"] and setting(" Keep-Last ") is SETTINGS["keep_last"]


def test_limits_are_what_a_root_may_set() -> None:
    """A root from elsewhere sets bounds, order and what to keep; never a preset, nor directories to look at."""
    assert {name for name, known in SETTINGS.items() if known.in_root} == {*LIMITS, "keep_last", "order"}
