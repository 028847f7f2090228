"""The replacement of JAX's ``LRUCache``; `tests/contract/test_conformance.py` holds it against JAX's own."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from jcache.layout import LOCK_NAME
from jcache.runtime.lru_cache import PlainDirectoryCache


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[PlainDirectoryCache]:
    """A bounded cache of a directory that does not exist yet."""
    with closing(PlainDirectoryCache(tmp_path / "below" / "cache", max_size=1000)) as made:
        yield made


def test_any_text_is_a_key(cache: PlainDirectoryCache, tmp_path: Path) -> None:
    """The name of an entry need not be one that JAX would make, and its bytes need not be an executable."""
    for key in ("a", "größe", "jit_f-12"):
        cache.put(key, key.encode())
        assert cache.get(key) == key.encode()
        assert (tmp_path / "below" / "cache" / f"{key}-cache").read_bytes() == key.encode()
    assert len(cache) == 3 and cache.lock_path == tmp_path / "below" / "cache" / LOCK_NAME


def test_every_file_that_ends_like_an_entry_counts_for_the_bound(cache: PlainDirectoryCache, tmp_path: Path) -> None:
    """As in JAX, any file ``*-cache`` is evicted to make room."""
    other = tmp_path / "below" / "cache" / "somebody's-cache"
    other.write_bytes(bytes(900))
    cache.put("a", bytes(500))
    assert cache.get("a") == bytes(500) and not other.exists()


def test_a_relative_path_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that changes its directory goes on with the same cache."""
    monkeypatch.chdir(tmp_path)
    with closing(PlainDirectoryCache("relative")) as cache:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        cache.put("a", b"data")
    assert (tmp_path / "relative" / "a-cache").exists()
    with closing(PlainDirectoryCache(f"file://{tmp_path}/relative")) as cache:
        assert cache.get("a") == b"data"


def test_a_remote_store_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address of another machine is an error, and no directory of that name is made."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RuntimeError, match="gs://bucket/x is not a directory of this machine"):
        PlainDirectoryCache("gs://bucket/x")
    assert list(tmp_path.iterdir()) == []
