"""Fixtures of the tests of graphs."""

from collections.abc import Iterator

import pytest

from jcache import GraphCache
from jcache.layout import Root
from jcache.store.roots import in_use, put_in_use


@pytest.fixture
def cache(native: Root) -> Iterator[GraphCache]:
    cache = GraphCache(native.path)
    yield cache
    cache.flush()


@pytest.fixture(autouse=True)
def nothing_in_use(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No root is enabled or named by the environment, and everything is said anew."""
    from jcache.runtime import warn

    for name in ("JCACHE_DIR", "JAX_COMPILATION_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    warn.warn_once.forget()
    before = in_use()
    yield
    put_in_use(before)
