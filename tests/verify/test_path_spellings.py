"""Spellings of a directory in the keys of what lies in it."""

from pathlib import Path

import pytest

from jcache.layout import Root
from jcache.store.store import Store
from jcache.verify.path_spellings import find_spellings, named_directories
from tests.helpers.entries import key


@pytest.mark.parametrize("number", [0, 1, 300, 5000])
def test_spellings_that_are_known_need_no_entry(plain: Root, tmp_path: Path, number: int) -> None:
    """The directory, and each path that leads to it, are tried however many entries there are and whatever they say."""
    for each in range(number):
        (plain.path / f"{key(each)}-cache").write_bytes(b"nonsense")
    link = tmp_path / "link"
    link.symlink_to(plain.path)
    with Store(plain) as store:
        texts, seen = find_spellings(store, [str(link), f"{link}/", str(tmp_path / "elsewhere"), "gs://bucket/x"])
    assert texts == (str(plain.path), str(link)) and not seen


def test_what_was_given() -> None:
    """Arguments come first, then both variables, then what was given to the `jcache run` above."""
    environment = {"JCACHE_DIR": "a", "JAX_COMPILATION_CACHE_DIR": "b", "JCACHE_RUN_DIRECTORIES": "c\nd"}
    assert named_directories(environment, "first", None, "") == ["first", "a", "b", "c", "d"]
    assert named_directories({}) == []
