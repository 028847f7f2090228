"""The words of `push`, `pull` and `sync`."""

import pytest

from jcache.cli.commands.remote_common import filters_of, named
from jcache.errors import InvalidValue


def test_urls_and_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first word is the store if it is a URL; else the environment names it."""
    assert named(["s3://b/x", "key"]) == ("s3://b/x", ("key",))
    with pytest.raises(InvalidValue, match="'key' is no URL"):
        named(["key"])
    monkeypatch.setenv("JCACHE_REMOTE", "s3://c")
    assert named(["key"]) == ("s3://c", ("key",)) and named(None) == ("s3://c", ())


def test_options() -> None:
    """Filters and ages add up."""
    assert [one.field.name for one in filters_of(["size>1"], "7d")] == ["size", "used"]
