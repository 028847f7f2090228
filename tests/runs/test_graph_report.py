"""Reports of graphs, from the lines of `jcache.GraphCache` in a recording, and the total time saved."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from jcache.runs.log import LogReader
from jcache.runs.report import RunReport, report_of, summary
from jcache.runs.stored_reports import read_reports, totals
from tests.helpers.reports import collect
from tests.runs.test_report import hit, stored
from tests.runs.test_trace_report import called

JAX = {"e": "start", "jax": "0.10.2", "jaxlib": "0.10.2", "cache": "used"}
NO_JAX = {"e": "start", "jax": "", "jaxlib": "", "cache": ""}


def asked(outcome: str, name: str, reason: str | None = None, seconds: float = 1.0, spared: float = 0.0) -> Any:
    fields = {"name": name, "key": f"{name}-key", "outcome": outcome, "reason": reason}
    return {"e": "graph", "th": 1, "t": 1.0, "seconds": seconds, "spared_seconds": spared, **fields}


def report(directory: Path, lines: Sequence[object], start: dict[str, str] = NO_JAX) -> RunReport:
    (directory / "1.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in (start, *lines)))
    return collect(directory, run_id="r", command=["p"], started_ns=0, seconds=1.0, exit_code=0)


def test_calls_are_counted(tmp_path: Path) -> None:
    """Calls are counted by outcome and reason. Equal calls share a row, and a call that took longer than building costs
    time.
    """
    lines = [
        asked("hit", "f", spared=4.0),
        asked("hit", "f", spared=4.0),
        asked("hit", "slow", seconds=3.0, spared=1.0),
        asked("hit", "made by hand"),
        asked("stored", "f", "n 3 → 4", 2.0),
        asked("not_stored", "f", "the disk is full", 2.0),
        asked("bypassed", "g", "no key", 5.0),
    ]
    found = report(tmp_path, lines).graphs
    assert (found.hits, found.stored, found.not_stored, found.bypassed) == (4, 1, 1, 1)
    assert (found.build_seconds, found.load_seconds, found.saved_seconds) == (9.0, 6.0, 4.0)
    assert found.reasons == {
        "stored": {"f: n 3 → 4": 1},
        "not_stored": {"f: the disk is full": 1},
        "bypassed": {"g: no key": 1},
    }
    assert [(call.name, call.times, call.saved_seconds) for call in found.calls[:3]] == [
        ("f", 2, 6.0), ("slow", 1, -2.0), ("made by hand", 1, 0.0)
    ]  # fmt: skip
    assert json.loads(json.dumps(found.to_json()))["calls"][0]["spared_seconds"] == 8.0


def test_a_program_of_graphs_alone(tmp_path: Path) -> None:
    """The summary of a program without JAX has graphs, reasons and the time saved, and no zeros of executables."""
    text = summary(report(tmp_path, [asked("hit", "f", spared=4.0), asked("stored", "f", "it is new")]))
    assert text.splitlines() == [
        "jcache: graphs: 1 hit, 1 miss (stored), 0 not stored, 0 without the cache; built in 1.00 s, loaded in 1.00 s",
        "    1 built: f: it is new",
        "  saved 3.00 s",
    ]


def test_one_total_of_time_saved(tmp_path: Path) -> None:
    """Seconds of compiling, tracing and building add up once, in the summary and in reports, beside their parts."""
    lines = [*hit(1, "f-1", 5, 1.0), called("hit", "f", spared=3.0), asked("hit", "g", spared=5.0)]
    found = report(tmp_path, lines, JAX)
    assert (found.saved_seconds, found.traces.saved_seconds, found.graphs.saved_seconds) == (4.0, 2.0, 4.0)
    assert found.total_saved_seconds == found.to_json()["total_saved_seconds"] == 10.0
    text = summary(found)
    assert "; saved 10.0 s (compiling 4.00 s, tracing 2.00 s, building graphs 4.00 s)" in text
    assert text.count("saved") == 1
    assert totals([found.to_json()] * 2)["total_saved_seconds"] == 20.0


ODD = st.one_of(
    st.none(), st.booleans(), st.integers(-1, 3), st.floats(), st.text(max_size=3), st.just("hit"), st.lists(st.none())
)
EVENTS = ["start", "event", "log", "time", "directory", "not_stored", "damaged", "trace", "compared", "graph", "other"]
FIELDS = ["th", "t", "m", "a", "s", "jax", "jaxlib", "cache", "same", "outcome", "seconds", "spared_seconds", "reason"]
LINES = st.builds(
    lambda event, fields: {
        "th": 1,
        "t": 1.0,
        "name": "/jax/core/compile/backend_compile_duration",
        "key": "k",
        "reason": "r",
        **fields,
        "e": event,
    },
    st.one_of(st.sampled_from(EVENTS), ODD),
    st.dictionaries(st.sampled_from([*FIELDS, "name", "key", "directory", "platform", "fun", "present"]), ODD),
)


@settings(deadline=None)
@given(st.lists(st.one_of(LINES, st.builds(asked, st.just("hit"), st.just("f"), spared=st.floats(0, 9)))))
def test_whatever_a_recording_says(lines: list[Any]) -> None:
    """No line of a recording can break the report: `stats` reads it, and its total is the sum of its parts."""
    reader = LogReader()
    for line in lines:
        reader.feed(line)
    found = report_of([reader.end()], run_id="r", command=["p"], started_ns=0, seconds=1.0)
    summary(found)
    (read,) = read_reports([json.dumps(found.to_json())])
    parts = read["saved_seconds"], read["traces"]["saved_seconds"], read["graphs"]["saved_seconds"]
    assert (
        read["total_saved_seconds"] == pytest.approx(sum(parts)) == pytest.approx(totals([read])["total_saved_seconds"])
    )


@pytest.mark.parametrize("then", [JAX, {**JAX, "jax": "", "jaxlib": ""}])
def test_jax_that_comes_after_a_graph(tmp_path: Path, then: dict[str, str]) -> None:
    """JAX's versions are reported, and its executables are in the summary, if JAX is imported after the first graph."""
    found = report(tmp_path, [asked("stored", "f"), then, *stored(1.0, "jit_f-1", 0.5)])
    assert (found.processes, found.jax_version or "") == (1, then["jax"])
    assert "0 hits, 1 miss (stored)" in summary(found) and "graphs:" in summary(found)
