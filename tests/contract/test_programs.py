"""A real program through the whole of JAX, on a directory that jcache's store has filled."""

from contextlib import closing
from pathlib import Path

import pytest

from jcache.store.put_result import Outcome
from tests.cli.test_company import hits_and_stores
from tests.contract.sides import Jcache, contents, with_and_without
from tests.helpers.command_line import run_jax

pytestmark = pytest.mark.jax


@pytest.fixture(scope="module", name="written_by_jax")
def written_by_jax_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that an unbounded JAX process filled; not to be changed."""
    path = tmp_path_factory.mktemp("jax") / "cache"
    result = run_jax(path)
    assert (result.code, result.err) == (0, "")
    return path


@pytest.mark.parametrize("ours", [None, 10**9], ids=["unbounded store", "bounded store"])
@with_and_without
def test_jax_hits_all_that_the_store_has_copied(
    written_by_jax: Path, tmp_path: Path, ours: int | None, bound: int | None
) -> None:
    """Got from one directory and put into another, every entry is hit, and JAX warns of nothing and stores nothing."""
    entries = contents(written_by_jax)
    assert len(entries) >= 8
    with closing(Jcache(written_by_jax)) as source, closing(Jcache(tmp_path, ours)) as target:
        for a_key in entries:
            data = source.get(a_key)
            assert data is not None and target.put(a_key, data) is Outcome.STORED
    assert hits_and_stores(tmp_path, bound) == (len(entries), 0)
    assert contents(tmp_path) == entries
