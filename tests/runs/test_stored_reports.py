"""Reports in the ledger are untrusted input, and add up."""

import json
from pathlib import Path
from typing import Any

import pytest

from jcache.runs.stored_reports import read_reports, totals
from jcache.runs.trace_report import trace_lines
from tests.runs.test_graph_report import JAX, asked, report
from tests.runs.test_report import hit
from tests.runs.test_trace_report import called, report as trace_report


@pytest.mark.parametrize(("known", "total"), [(0.0, 8.0), (3.0, 8.0), (9.0, 13.0)], ids=["none", "less", "more"])
def test_what_reports_and_the_ledger_know_counts_once(tmp_path: Path, known: float, total: float) -> None:
    """Graphs that only the ledger knows count as well, graphs in both count once, and reports of older versions are
    read.
    """
    lines = [*hit(1, "f-1", 5, 1.0), asked("hit", "g", spared=5.0)]
    one = report(tmp_path, lines, JAX).to_json()
    old = {name: value for name, value in one.items() if name not in ("graphs", "traces", "hits", "saved_seconds")}
    assert totals([one, old | {"hits": 0, "saved_seconds": 0.0}], known)["total_saved_seconds"] == total
    assert totals([], known)["total_saved_seconds"] == known


@pytest.mark.parametrize("field", [{"hits": -1}, {"hits": "2"}, {"saved_seconds": "no"}, {"reasons": []}], ids=str)
def test_odd_reports_of_a_ledger(tmp_path: Path, field: dict[str, Any]) -> None:
    """A stored report whose graphs are not counts is ignored."""
    one = json.loads(json.dumps(report(tmp_path, [asked("hit", "f")]).to_json()))
    odd = one | {"graphs": one["graphs"] | field}
    assert len(read_reports([json.dumps(one), json.dumps(odd), json.dumps(one | {"graphs": [1]})])) == 1


def test_totals(tmp_path: Path) -> None:
    """Traces of several reports add up; a report that is older than traces adds nothing."""
    one = trace_report(tmp_path, [called("hit", "f", spared=3.0), called("stored", "f", "new")]).to_json()
    old = {name: value for name, value in one.items() if name not in ("traces", "graphs")}
    total = totals([one, old, one, old | {"traces": None}])["traces"]
    assert (total["hits"], total["saved_seconds"], total["reasons"]) == (2, 4.0, {"stored": {"f: new": 2}})
    assert trace_lines(totals([])["traces"]) == []
