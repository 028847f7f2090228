"""Fixtures that several tests of the store share."""

from collections.abc import Iterator

import pytest

from jcache.layout import Root
from jcache.store.store import Store


@pytest.fixture
def store(plain: Root) -> Iterator[Store]:
    """A store without a bound over an empty JAX directory."""
    with Store(plain, lock_timeout=5) as store:
        yield store
