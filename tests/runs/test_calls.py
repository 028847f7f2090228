"""The calls of one process that look for a trace or a graph."""

from pathlib import Path
from typing import Any

import pytest

from jcache.runs.calls import GraphCalls
from tests.runs.test_graph_report import asked, report


def test_millions_of_calls(tmp_path: Path) -> None:
    """Counts are exact however many calls there are; only the first thousand have a row."""
    calls = GraphCalls()
    for number in range(5000):
        calls.add(asked("stored", "f", f"n {number}"))
    assert calls.counts["stored"] == 5000 and len(calls.rows) == 1000 and calls.build_seconds == 5000.0


@pytest.mark.parametrize(
    "field",
    [{"seconds": "soon"}, {"seconds": -1.0}, {"outcome": []}, {"outcome": "lost"}, {"name": None}, {"key": 3}],
    ids=str,
)
def test_what_another_jcache_says_is_passed_over(tmp_path: Path, field: dict[str, Any]) -> None:
    """A program may have another version of jcache than `jcache run`."""
    found = report(tmp_path, [asked("hit", "f") | field, asked("hit", "f")]).graphs
    assert found.hits == 1 and len(found.calls) == 1
