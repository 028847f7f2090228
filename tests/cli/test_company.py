"""JAX, bounded and unbounded, after everything that jcache does to its directory: hits, misses, no warning."""

import sys
from pathlib import Path

import pytest

from tests.helpers.command_line import PROGRAM, Jcache, keys, run_jax
from tests.helpers.entries import copied

pytestmark = pytest.mark.jax

# Prints what JAX did, by JAX's own events.
COUNTER = """
import sys, jax.monitoring
events = {}
jax.monitoring.register_event_listener(lambda e, **k: events.__setitem__(e, events.get(e, 0) + 1))
sys.argv = sys.argv[1:]
import runpy; runpy.run_path(sys.argv[0], run_name="__main__")
print(events.get("/jax/compilation_cache/cache_hits", 0), events.get("/jax/compilation_cache/cache_misses", 0))
"""


def hits_and_stores(cache: Path, bounded: int | None) -> tuple[int, int]:
    """Return the hits and stored misses of a real JAX process on the directory, which must print nothing."""
    result = run_jax(cache, bounded=bounded, program=("-c", COUNTER, str(PROGRAM)))
    assert (result.code, result.err) == (0, "")
    hits, stores = map(int, result.out.splitlines()[-1].split())
    return hits, stores


@pytest.mark.parametrize("bounded", [None, 10**9], ids=["unbounded", "bounded"])
@pytest.mark.parametrize(
    "command",
    [["prune", "--keep-last", "7"], ["prune", "--max-size", "18k", "--order", "cost"], ["clear", "--yes"]],
    ids=" ".join,
)
def test_jax_hits_what_was_kept_and_rewrites_what_was_removed(
    jcache: Jcache, cache: Path, command: list[str], bounded: int | None
) -> None:
    """After prune and clear, a JAX process hits every kept entry, writes every removed one, and warns of nothing."""
    all_keys = keys(cache)
    assert jcache(*command, "--root", cache).code == 0
    kept = keys(cache)
    assert kept < all_keys
    assert hits_and_stores(cache, bounded) == (len(kept), len(all_keys) - len(kept))
    assert keys(cache) == all_keys
    assert hits_and_stores(cache, bounded) == (len(all_keys), 0)


def test_adopted_entries_let_a_bound_be_turned_on(jcache: Jcache, cache: Path) -> None:
    """`jcache run` under a bound first gives an unbounded cache the sidecars that JAX <= 0.11.1 needs to store."""
    missing = next(cache.glob("jit_train-*-cache"))
    missing.unlink()
    env = {"JAX_COMPILATION_CACHE_MAX_SIZE": str(10**9), "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES": "none"}
    result = jcache("run", "--root", cache, "--", sys.executable, PROGRAM, env=env)
    assert result.code == 0 and "1 miss (stored)" in result.err and "Warning" not in result.err
    assert missing.exists()
    assert all(p.with_name(p.name[:-6] + "-atime").stat().st_size == 8 for p in cache.glob("*-cache"))


def test_a_bounded_jax_evicts_beside_us_in_the_same_order(jcache: Jcache, bounded_cache: Path, tmp_path: Path) -> None:
    """After a prune to a bound, a JAX with the same bound evicts nothing more."""
    cache = copied(bounded_cache, tmp_path / "cache")
    jcache("prune", "--max-size", "20k", "--root", cache)
    kept = keys(cache)
    hits, _ = hits_and_stores(cache, 10**9)
    assert hits == len(kept)
