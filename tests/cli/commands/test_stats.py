"""`jcache stats` on recorded runs."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from jcache.runs.report import report_of
from jcache.store.ledger import Ledger
from jcache.store.roots import create_root
from tests.helpers.command_line import Jcache


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


def test_stats_without_runs_says_how_to_record_one(jcache: Jcache, jax_cache: Path) -> None:
    """Without a recorded run, stats names the command that records one."""
    assert "jcache run" in jcache("stats", "--root", jax_cache).err
    assert jcache("stats", "--root", jax_cache, "--json").json["totals"]["runs"] == 0
    assert jcache("stats", "--root", jax_cache, "--run", "last").code == 1


def test_stats_reads_running_and_older_reports(jcache: Jcache, tmp_path: Path) -> None:
    """A process that still runs has no exit code yet, and an older report no notices: both are shown and counted."""
    root = create_root(tmp_path / "root")
    running = report_of([], run_id="running", command=["train.py"], started_ns=2, seconds=1.0, notices=["a notice"])
    older = running.to_json() | {"id": "older", "exit_code": 0}
    del older["notices"]
    with closing(Ledger(root.ledger)) as ledger:
        ledger.add_run("running", 2, json.dumps(running.to_json()))
        ledger.add_run("older", 1, json.dumps(older))
    data = jcache("stats", "--root", root.path, "--json").json
    assert [(run["id"], run["exit_code"], run.get("notices")) for run in data["runs"]] == [
        ("running", None, ["a notice"]),
        ("older", 0, None),
    ]
    assert data["totals"]["runs"] == 2
    shown = jcache("stats", "--root", root.path)
    assert "running" in shown.out and "older" in shown.out
    assert jcache("stats", "--root", root.path, "--plot").code == 0
    assert "jcache_runs_total 2" in jcache("stats", "--root", root.path, "--prometheus").out
    last = jcache("stats", "--root", root.path, "--run", "last")
    assert "train.py" in last.out and "a notice" in last.err
    assert "notice" not in jcache("stats", "--root", root.path, "--run", "older").err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--since", "yesterday"], "'yesterday' is not an age"),
        (["--since", "5m"], "write 5min"),
        (["--since", "2026-02-30"], "'2026-02-30' is not a date: write one such as 2026-11-24"),
        (["--by", "week"], "'week' is no group of stats: choose from run, day, function, cause."),
        (["--limit", "all"], "'all' is not a whole number"),
    ],
)
def test_wrong_values_of_stats(jcache: Jcache, recorded: Path, words: list[str], said: str) -> None:
    """One sentence says what is wrong and what to write."""
    result = jcache("stats", *words, "--root", recorded)
    assert result.code == 2 and said in result.err and not result.out
