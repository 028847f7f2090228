"""The promises of speed, each against its peer in the same run, in CPU time, as a ratio.

    pytest tests/benchmarks --benchmark-only

The machine may be slow or busy: rounds of the two alternate, and medians are compared. A promise that does not hold
fails its benchmark; the ordinary test run skips all of them.
"""

import itertools
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jcache.layout import Kind
from jcache.store.roots import create_root
from jcache.store.store import Store
from tests.benchmarks.measure import children_seconds, command, compare, fill, key

MANY = 100_000
SCRIPT = Path(sys.executable).with_name("jcache")


@pytest.fixture(scope="session")
def small_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("small") / "root", 20)


@pytest.fixture(scope="session", params=[False, True], ids=["unbounded", "bounded"])
def large_root(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """100,000 entries, without or with sidecars, that have been listed before."""
    path = fill(tmp_path_factory.mktemp("large") / "root", MANY, sidecars=request.param)
    time.sleep(3)  # until the directory's own time is old enough to be trusted
    for _ in range(2):
        command(SCRIPT, "info", "--json", "--root", path)()
    return path


def test_start_up_of_info_json(benchmark: Any, small_root: Path) -> None:
    """`jcache info --json` takes at most 1.5 times the CPU time of `import typer`."""
    ours, peer = command(SCRIPT, "info", "--json", "--root", small_root), command(sys.executable, "-c", "import typer")
    assert compare(benchmark, ours, peer, children_seconds, 20) <= 1.5


def test_start_up_of_info(benchmark: Any, small_root: Path) -> None:
    """`jcache info` takes at most 1.3 times the CPU time of importing typer and rich's tables."""
    peer = command(sys.executable, "-c", "import typer, rich.console, rich.table")
    assert compare(benchmark, command(SCRIPT, "info", "--root", small_root), peer, children_seconds, 20) <= 1.3


def test_info_of_a_large_root(benchmark: Any, large_root: Path) -> None:
    """`info` over 100,000 entries takes no more CPU time than `du -s`."""
    ours = command(SCRIPT, "info", "--json", "--root", large_root)
    assert compare(benchmark, ours, command("du", "-s", large_root), children_seconds, 7) <= 1.0


def test_ls_of_a_large_root(benchmark: Any, large_root: Path) -> None:
    """The twenty largest of 100,000 entries are listed within twice the CPU time of `info`."""
    ours = command(SCRIPT, "ls", "--sort", "size", "--limit", "20", "--root", large_root)
    peer = command(SCRIPT, "info", "--json", "--root", large_root)
    assert compare(benchmark, ours, peer, children_seconds, 7) <= 2.0
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 300 * 1024


@pytest.mark.parametrize("full", [False, True], ids=["below the bound", "at the bound"])
def test_a_bounded_put_is_flat(benchmark: Any, tmp_path: Path, full: bool) -> None:
    """A bounded put among 50,000 entries costs at most twice as much as among 100, evicting or not."""

    def putter(count: int) -> Callable[[], None]:
        root = create_root(fill(tmp_path / str(count), count, sidecars=True))
        size = sum(p.stat().st_size for p in root.path.glob("*-cache"))
        store = Store(root, max_bytes=size if full else 10**12)
        numbers = itertools.count(10**6)

        def put() -> None:
            for _ in range(20):
                store.put(Kind.EXECUTABLES, key(next(numbers)), b"y" * 600)

        put()  # the first one reads the directory
        return put

    assert compare(benchmark, putter(50_000), putter(100), time.process_time, 30) <= 2.0


@pytest.mark.parametrize(("count", "rounds"), [(100, 20), (1_000, 20), (10_000, 10), (50_000, 3)])
def test_a_bounded_put_against_jax(benchmark: Any, tmp_path: Path, count: int, rounds: int) -> None:
    """A bounded put costs less than JAX's own on the same entries, the more so the more there are."""
    from jax._src.lru_cache import LRUCache

    numbers = itertools.count(10**6)
    theirs = LRUCache(str(fill(tmp_path / "jax", count, sidecars=True)), max_size=10**12)
    store = Store(create_root(fill(tmp_path / "jcache", count, sidecars=True)), max_bytes=10**12)
    store.put(Kind.EXECUTABLES, key(next(numbers)), b"y" * 600)

    def ours() -> None:
        store.put(Kind.EXECUTABLES, key(next(numbers)), b"y" * 600)

    def peer() -> None:
        theirs.put(key(next(numbers)), b"y" * 600)

    assert compare(benchmark, ours, peer, time.process_time, rounds) <= 1.0
