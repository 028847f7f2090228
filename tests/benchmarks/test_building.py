"""Building a graph under `jcache.graph` against the plain call, in one run, as ratios of CPU time."""

import hashlib
import itertools
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jcache import GraphCache
from tests.benchmarks.measure import compare

HERE = Path(__file__).parent
ROUNDS = 9


def calls(seed: int) -> int:
    """Call a small function a million times, as a recursive search does."""

    def visit(depth: int) -> int:
        return 1 if depth < 2 else visit(depth - 1) + visit(depth - 2)

    return visit(29) + seed


def objects(seed: int) -> dict[str, Any]:
    """Make states and edges of plain Python values."""
    states = {(seed, i, i % 7): i for i in range(500_000)}
    return {"states": len(states), "edges": sum(states[seed, i, i % 7] for i in range(500_000))}


def chances(seed: int) -> float:
    """Draw numbers from a generator with a seed."""
    generator = random.Random(seed)
    return sum(generator.random() + generator.randrange(10) for _ in range(400_000))


def arrays(seed: int) -> Any:
    """Compute with numpy."""
    generator = np.random.default_rng(seed)
    return sum(np.sort(generator.normal(size=20_000)) for _ in range(240))


def files(seed: int) -> str:
    """Read some files again and again, and ask for their sizes and for variables."""
    told = hashlib.sha256(str(seed).encode())
    for _ in range(60):
        for path in sorted(HERE.glob("*.py")):
            told.update(path.read_bytes() + str(path.stat().st_size).encode() + os.environ.get("HOME", "").encode())
    return told.hexdigest()


@pytest.mark.parametrize(
    ("function", "most"), [(calls, 1.3), (objects, 1.3), (chances, 1.3), (arrays, 1.3), (files, 4)]
)
def test_building(benchmark: Any, tmp_path: Path, function: Callable[[int], Any], most: float) -> None:
    """Building and storing a graph takes at most 1.3 times as long as the plain call, and at most four times where the
    function does nothing but open files, whose paths are noted each time.
    """
    cache, numbers = GraphCache(tmp_path / "root"), itertools.count()
    ratio = compare(
        benchmark,
        lambda: cache.get_or_build(function, next(numbers)),
        lambda: function(next(numbers)),
        time.process_time,
        ROUNDS,
    )
    assert cache.stats().builds >= ROUNDS and ratio <= most
