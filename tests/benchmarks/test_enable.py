"""The cost and gain of `jcache.enable()` against JAX's own cache, in one run, in CPU time, as ratios."""

import itertools
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import pytest

from jcache.runtime.executable_cache import ExecutableCache
from jcache.store.roots import create_root
from tests.benchmarks.measure import compare, fill, key
from tests.helpers.entries import executable
from tests.helpers.jax_programs import environment

FIRST_STEP = Path(__file__).parent.parent / "programs" / "first_step.py"
DATA = executable()
counts = pytest.mark.parametrize(("count", "rounds"), [(100, 20), (1_000, 20), (10_000, 10), (50_000, 5)])


def both(tmp_path: Path, count: int) -> tuple[ExecutableCache, Any]:
    """Return jcache's cache and JAX's, each over its own directory with so many entries, under a bound."""
    from jax._src.lru_cache import LRUCache

    theirs = LRUCache(str(fill(tmp_path / "jax", count, sidecars=True)), max_size=10**12)
    ours = ExecutableCache(create_root(fill(tmp_path / "jcache", count, sidecars=True)), max_size=10**12)
    return ours, theirs


@counts
def test_a_bounded_put(benchmark: Any, tmp_path: Path, count: int, rounds: int) -> None:
    """A put into a bounded cache costs less than JAX's, the more so the more entries there are."""
    ours, theirs = both(tmp_path, count)
    numbers = itertools.count(10**6)
    with closing(ours):
        ours.put(key(next(numbers)), DATA)

        def putter(cache: Any) -> Callable[[], None]:
            return lambda: cache.put(key(next(numbers)), DATA)

        assert compare(benchmark, putter(ours), putter(theirs), time.process_time, rounds) <= 1.0


@counts
def test_a_bounded_get(benchmark: Any, tmp_path: Path, count: int, rounds: int) -> None:
    """A first hit in a bounded cache, with its digest checked and its use written down, costs less than JAX's."""
    ours, theirs = both(tmp_path, count)
    many = [key(10**6 + i) for i in range(20 * (rounds + 2))]
    with closing(ours):
        for a_key in many:
            ours.put(a_key, DATA)
        for path in ours.path.glob("*-*"):
            if path.name.rpartition("-")[0] in set(many):
                (tmp_path / "jax" / path.name).write_bytes(path.read_bytes())

        def getter(cache: Any) -> Callable[[], None]:
            keys = iter(many)

            def get() -> None:
                for a_key in itertools.islice(keys, 20):
                    assert cache.get(a_key) == DATA

            return get

        assert compare(benchmark, getter(ours), getter(theirs), time.process_time, rounds) <= 1.0


@pytest.mark.parametrize("program", ["training", "scan", "attention"])
def test_the_first_step(benchmark: Any, tmp_path: Path, program: str) -> None:
    """With a warm cache, the first step of a program takes at most 2 % more than with JAX's own."""
    seconds: dict[str, list[float]] = {"jax": [], "jcache": []}
    enabling: list[float] = []

    def step(whose: str) -> None:
        command = [sys.executable, str(FIRST_STEP), whose, str(tmp_path / whose), program]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
        first, enabled = map(float, done.stdout.split()[-2:])
        seconds[whose].append(first)
        if whose == "jcache":
            enabling.append(enabled)

    for whose in seconds:
        step(whose)
    benchmark.pedantic(lambda: step("jcache"), setup=lambda: step("jax"), rounds=25, warmup_rounds=2)
    ours, theirs = (quantiles(seconds[whose][1:])[0] for whose in ("jcache", "jax"))  # noise only adds
    ratio = ours / theirs
    benchmark.extra_info |= {"ratio to the peer": round(ratio, 3), "enable": median(enabling)}
    print(f"\n{benchmark.name}: {ratio:.3f} x JAX's {theirs:.3f} s; enable() itself {median(enabling):.3f} s")
    assert ratio <= 1.02
