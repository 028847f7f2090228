"""The cost of a hit of `GraphCache` against the simplest cache whose keys contain the helpers as well, as a ratio."""

import hashlib
import importlib
import pickle
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jcache import GraphCache
from tests.benchmarks.measure import compare

HELPERS = 50
HITS = 50


@pytest.fixture
def builder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a function of a user's module that reaches so many helpers."""
    helpers = "".join(f"def helper{i}(x):\n    return x + {i}\n\n" for i in range(HELPERS))
    calls = ", ".join(f"helper{i}(n)" for i in range(HELPERS))
    (tmp_path / "fifty_helpers.py").write_text(f"{helpers}def build(n, theta=1.0):\n    return [{calls}]\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("fifty_helpers").build
    del sys.modules["fifty_helpers"]


def test_a_hit(benchmark: Any, tmp_path: Path, builder: Any) -> None:
    """With 50 helpers fingerprinted again, a hit costs at most twice as much as pickling them by value and
    reading a file.
    """
    cloudpickle = pytest.importorskip("cloudpickle")
    cloudpickle.register_pickle_by_value(sys.modules[builder.__module__])
    cache = GraphCache(tmp_path / "root")

    def hit() -> None:
        for _ in range(HITS):
            cache.get_or_build(builder, 3)

    def plain_hit() -> None:
        for _ in range(HITS):
            key = hashlib.sha256(cloudpickle.dumps((builder, (3,)))).hexdigest()
            pickle.loads((tmp_path / key).read_bytes())

    key = hashlib.sha256(cloudpickle.dumps((builder, (3,)))).hexdigest()
    (tmp_path / key).write_bytes(pickle.dumps(builder(3)))
    ratio = compare(benchmark, hit, plain_hit, time.process_time, 20)
    each = benchmark.stats.stats.median / HITS * 1000
    print(f"a hit takes {each:.2f} ms, the plainest one {each / ratio:.2f} ms")
    assert cache.stats().builds == 1 and ratio <= 2.0
