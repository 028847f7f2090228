"""What tests of several modules share."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from jcache.layout import Root
from jcache.roots import create_root
from tests.entries import tree

settings.register_profile(
    "jcache", deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
settings.load_profile("jcache")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run the proofs in their full form, which takes long")


@pytest.fixture
def full(request: pytest.FixtureRequest) -> bool:
    """Whether the proofs run in their full form."""
    return bool(request.config.getoption("--full"))


@pytest.fixture
def native(tmp_path: Path) -> Root:
    """A root that jcache made."""
    return create_root(tmp_path / "native")


@pytest.fixture
def plain(tmp_path: Path) -> Root:
    """A JAX directory, still empty."""
    return create_root(tmp_path / "plain", plain=True)


@pytest.fixture
def beyond(tmp_path: Path) -> Iterator[Path]:
    """A directory beside the roots that nothing may touch."""
    path = tmp_path / "beyond"
    path.mkdir()
    (path / "precious").write_text("kept")
    (path / "below").mkdir()
    before = tree(path)
    yield path
    assert tree(path) == before


@pytest.fixture
def chance() -> random.Random:
    """Random numbers; the seed is in the output of a test that fails, and JCACHE_SEED repeats it."""
    seed = int(os.environ.get("JCACHE_SEED") or random.randrange(2**32))
    print(f"JCACHE_SEED={seed}")
    return random.Random(seed)
