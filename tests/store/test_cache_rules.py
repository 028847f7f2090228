"""The rules in which jcache's cache and the one in the place of JAX's own differ."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from jcache.errors import InvalidValue
from jcache.layout import Kind, Root, is_key
from jcache.store.cache_rules import JAX_RULES, JCACHE_RULES
from jcache.store.store import Store
from tests.helpers.entries import NOW, add, key


@given(st.text(min_size=1, max_size=400).filter(lambda text: text.isprintable()))
def test_every_key_is_stored_under_a_file_name(text: str) -> None:
    """By both rules the stored key fits into one file name, and storing by it again changes nothing."""
    for rules in (JCACHE_RULES, JAX_RULES):
        stored = rules.stored_as(text)
        assert "/" not in stored and len(f"{stored}-cache".encode(errors="surrogateescape")) <= 255
        assert rules.stored_as(stored) == rules.check(stored) == stored
    assert is_key(JCACHE_RULES.stored_as(text))


def test_only_jax_takes_any_text_as_a_key() -> None:
    """A store of jcache refuses what is no key."""
    assert JAX_RULES.check("model") == JAX_RULES.stored_as("model") == "model"
    with pytest.raises(InvalidValue):
        JCACHE_RULES.check("model")


def test_entries_under_other_names_count_as_in_jax(plain: Root, tmp_path: Path) -> None:
    """They are listed, with their recency, and make room; links and directories of such names are no entries."""
    add(plain.path, key(1), 100, used_ns=NOW + 1)
    add(plain.path, "model", 100, used_ns=NOW)
    (plain.path / "link-cache").symlink_to(tmp_path)
    (plain.path / "directory-cache").mkdir()
    with Store(plain) as ours, Store(plain, max_bytes=250, rules=JAX_RULES) as theirs:
        assert [entry.key for entry in ours.entries()] == [key(1)]
        assert [(entry.key, entry.recency_ns) for entry in theirs.entries()] == [(key(1), NOW + 1), ("model", NOW)]
        assert (ours.catalog.count(Kind.EXECUTABLES), theirs.catalog.count(Kind.EXECUTABLES)) == (1, 2)
        theirs.put(Kind.EXECUTABLES, "other", b"x" * 100)
        assert [entry.key for entry in theirs.entries()] == [key(1), "other"]
