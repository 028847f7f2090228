"""The report on what a run has got from a store: counts, bytes, and one line of text."""

import json
from pathlib import Path

import pytest

from jcache.layout import Kind
from jcache.runs.remote_report import NO_STORE, FetchedEntries, RemoteReport, fetched_in, remote_lines
from tests.helpers.reports import collect

URL = "s3://bucket/jax"
SOME = RemoteReport(URL, 2, 1, 0, 3 << 20)


@pytest.mark.parametrize(
    ("report", "lines"),
    [
        (NO_STORE, []),
        (RemoteReport(URL), [f"from {URL}: nothing"]),
        (SOME, [f"from {URL}: 2 executables, 1 trace, 3.0 MiB"]),
        (RemoteReport(URL, graphs=1200, bytes=1), [f"from {URL}: 1,200 graphs, 1 B"]),
    ],
)
def test_the_line(report: RemoteReport, lines: list[str]) -> None:
    """It names what came, and says so where nothing did."""
    assert remote_lines(report) == lines


def test_several_processes_add_up() -> None:
    """The processes of a run count together, and those without a store count for nothing."""
    first, second = FetchedEntries(URL), FetchedEntries()
    first.add(Kind.EXECUTABLES, 1 << 20, URL)
    second.add(Kind.EXECUTABLES, 1 << 20, URL)
    second.add(Kind.TRACES, 1 << 20, URL)
    assert fetched_in([FetchedEntries(), first, second]) == SOME
    assert fetched_in([FetchedEntries()]) == NO_STORE


def test_malformed_lines_count_for_nothing(tmp_path: Path) -> None:
    """A line of a recorder that lacks a field, or has one of another type, is ignored."""
    good = {"e": "fetched", "t": 1.0, "th": 1, "kind": "executables", "bytes": 7, "url": URL}
    lines = [good, good | {"bytes": "7"}, good | {"url": None}, {"e": "fetched", "th": 1}]
    (tmp_path / "1.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    told = collect(tmp_path, run_id="one", command=["a"], started_ns=0, seconds=1.0)
    assert told.remote == RemoteReport(URL, executables=1, bytes=7)
