"""Common parts of reports: reasons, sums, and lines of text."""

import json
from pathlib import Path
from typing import Any

from jcache.runs.call_reports import add_up, as_json, count_reasons, counts_line, saved_text
from jcache.runs.report import summary
from tests.runs.test_trace_report import called, report


def test_long_reasons_are_cut(tmp_path: Path) -> None:
    """A line for people shows only the beginning of long reasons and digests; reasons of the same digest stay
    distinct.
    """
    cut = summary(report(tmp_path, [called("stored", "f", f"b * {'0123456789abcdef' * 4}"[:28] + " is gone")]))
    assert cut.splitlines()[-1] == "    1 traced anew: f: b * 01234567… is gone"
    lines = [called("stored", "f", f"{number} {'x' * 1000}") for number in range(9)]
    text = summary(report(tmp_path, lines)).splitlines()
    assert (
        text[3] == f"    1 traced anew: f: 0 {'x' * 235}…" and text[-1] == "    and 1 more reason (--json lists them)"
    )


def test_reasons_are_counted_by_outcome_the_most_frequent_first() -> None:
    """Equal reasons of an outcome add up, and the result cannot be changed."""
    counted = count_reasons([("stored", "a", 1), ("stored", "b", 2), ("bypassed", "a", 1), ("stored", "b", 3)])
    assert counted == {"stored": {"b": 5, "a": 1}, "bypassed": {"a": 1}} and list(counted["stored"]) == ["b", "a"]
    assert json.dumps(as_json(counted)) == json.dumps({"stored": {"b": 5, "a": 1}, "bypassed": {"a": 1}})


def test_sums_of_reports_that_lack_fields() -> None:
    """A field that an older report does not have counts as 0."""
    reports: list[dict[str, Any]] = [{"hits": 2, "seconds": 0.5, "reasons": {"stored": {"a": 1}}}, {"hits": 3}, {}]
    assert add_up(reports, ("hits", "stored"), ("seconds",)) == {
        "hits": 5, "stored": 0, "seconds": 0.5, "reasons": {"stored": {"a": 1}},
    }  # fmt: skip


def test_the_parts_of_the_time_saved() -> None:
    """A single part is not listed beside the total; a part that did not happen is not named."""
    assert saved_text(3.0, None, None) == "saved 3.00 s"
    assert saved_text(3.0, None, 1.0) == "saved 4.00 s (compiling 3.00 s, building graphs 1.00 s)"


def test_one_and_many() -> None:
    """One hit and one miss have the singular, everything else the plural."""
    report: dict[str, Any] = {"hits": 1, "stored": 1, "not_stored": 0, "bypassed": 1200}
    line = counts_line("traces", report, "left to jax.jit")
    assert line == "traces: 1 hit, 1 miss (stored), 0 not stored, 1,200 left to jax.jit"
    assert counts_line("t", report | {"hits": 2, "stored": 0}, "x").startswith("t: 2 hits, 0 misses ")
