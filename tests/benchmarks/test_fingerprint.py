"""The cost of a fingerprint against cloudpickle's copy of the same callback with everything it reaches, in one run."""

import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from jcache.fingerprint import fingerprint
from tests.benchmarks.measure import compare
from tests.helpers.fingerprints import imported

HELPERS = 50


def source() -> str:
    """A callback that reaches fifty helpers, each with a default, and a few globals."""
    lines = [
        "import math",
        "import numpy as np",
        "THETA = 2.0",
        "RATES = {'a': 1.0, 'b': 2.0}",
        "GRID = np.arange(100.0)",
    ]
    for n in range(HELPERS):
        last = f"h{n + 1}(y)" if n < HELPERS - 1 else "RATES['a'] + GRID[0]"
        lines.append(f"def h{n}(x, k=1.0):\n    y = np.sin(x) * THETA + math.pi * k\n    return y + {last}")
    lines.append("def build(n, theta=1.0): return [h0(n * theta) for _ in range(n)]")
    return "\n".join(lines)


@pytest.fixture
def model(tmp_path: Path) -> Iterator[ModuleType]:
    with imported(tmp_path, source()) as made:
        yield made


def test_a_warm_fingerprint(benchmark: Any, model: ModuleType) -> None:
    """Once its code is known, a fingerprint of fifty helpers costs less than a quarter of copying them, and
    under 1 ms.
    """
    cloudpickle = pytest.importorskip("cloudpickle")
    cloudpickle.register_pickle_by_value(model)
    try:
        call = (model.build, (3,), {"theta": 2.0})
        assert len([label for label in fingerprint(*call).parts if label.startswith("helper")]) == HELPERS
        ratio = compare(
            benchmark, lambda: fingerprint(*call), lambda: cloudpickle.dumps(call), time.process_time, rounds=200
        )
    finally:
        cloudpickle.unregister_pickle_by_value(model)
    assert ratio <= 0.25
    assert benchmark.stats.stats.min <= 1e-3
