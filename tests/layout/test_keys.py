"""Keys are told from other texts, and shortened to fit a file name."""

import os

import pytest
from hypothesis import given, strategies as st

from jcache.errors import InvalidValue
from jcache.layout import FileKind, are_files_of_keys, check_key, is_key, kept_of, member, name_of, storable
from tests.helpers.entries import digits, key
from tests.helpers.jax_entries import cpu_entries_fixture as cpu_entries_fixture

HEX = digits(1)


names = st.text(max_size=300) | st.binary(max_size=255).map(os.fsdecode)


functions = st.text(st.characters(min_codepoint=32, exclude_characters="/"), min_size=1, max_size=40).filter(
    str.isprintable
)


@given(functions, st.integers(0, 9))
def test_keys_and_names(function: str, number: int) -> None:
    """A key's file is its entry, its sidecar has its own name, and the function's name precedes the hash."""
    key = f"{function}-{digits(number)}"
    assert is_key(key)
    assert name_of(key) == function
    assert member(f"{key}-cache") == (FileKind.ENTRY, key)
    assert member(f"{key}-atime") == (FileKind.SIDECAR, key)


def test_a_legacy_key_has_no_name() -> None:
    """jax <= 0.4.16 kept no name."""
    assert name_of(HEX) == ""


@pytest.mark.parametrize(
    "key", ["", "jit_f", HEX, f"-{HEX}", f"a/b-{HEX}", f"../../x-{HEX}", f"a\0b-{HEX}", f"a\udcff-{HEX}"]
)
def test_what_is_no_key_is_refused(key: str) -> None:
    """A text that names a file elsewhere, or a file that is no entry's, is refused as a key."""
    with pytest.raises(InvalidValue, match="is not a key"):
        check_key(key)


def test_keys_must_fit_a_file_name() -> None:
    """184 bytes of name fit with hash and suffix into 255, in any alphabet; one more does not."""
    assert check_key("n" * 184 + f"-{HEX}")
    for name in ("n" * 185, "ö" * 93):
        with pytest.raises(InvalidValue, match="too long"):
            check_key(f"{name}-{HEX}")


@given(
    st.lists(
        st.from_regex(r"[a-z\n -]{0,3}-?[0-9a-fg]{63,65}-(cache|atime)", fullmatch=True)
        | st.builds(lambda name: f"{name}-{HEX}-cache", st.text(max_size=3)),
        max_size=4,
    )
)
def test_many_names_at_once(names: list[str]) -> None:
    """Judged all at once, names are keys exactly if each of them is one."""
    assert are_files_of_keys(names) == all(is_key(name[:-6]) for name in names)


def test_names_are_told_apart() -> None:
    """Keys that fit are left as they are; long ones that begin alike, and texts that are no keys, do not meet."""
    assert storable(key(1)) == key(1) and kept_of(key(1)) is None
    keys = [key(1, "n" * 300), key(1, "n" * 301), key(2, "n" * 300), "key1", "key2", "k" * 400, "k" * 401]
    assert len({storable(a_key) for a_key in keys}) == len(keys)
    assert all(storable(storable(a_key)) == storable(a_key) == check_key(storable(a_key)) for a_key in keys)
