"""Warnings of the runtime are Python's own."""

from pathlib import Path

import pytest

from jcache.runtime.executable_cache import ExecutableCache
from jcache.store.roots import create_root
from tests.helpers.entries import key
from tests.helpers.executable_caches import DATA
from tests.helpers.jax_entries import cpu_entries_fixture as cpu_entries_fixture


def test_warnings_are_pythons_own_by_default(tmp_path: Path) -> None:
    """By default, warnings are Python's UserWarning."""
    cache = ExecutableCache(create_root(tmp_path / "root"), max_size=1)
    with pytest.warns(UserWarning, match="exceeds the maximum cache size of 1 bytes"):
        cache.put(key(1), DATA)
    cache.close()
