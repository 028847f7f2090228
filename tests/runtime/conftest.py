"""Fixtures that several tests of the runtime share."""

from collections.abc import Iterator

import pytest

from tests.helpers.executable_caches import Caches


@pytest.fixture
def caches() -> Iterator[Caches]:
    """Makes caches, and closes them."""
    made = Caches()
    yield made
    for cache in made.made:
        cache.close()
