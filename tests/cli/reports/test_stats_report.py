"""The report of `jcache stats`: a sentence, tables and JSON."""

import re
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.helpers.command_line import Jcache
from tests.helpers.terminals import WIDTHS, Terminal


def test_what_the_cache_saved_this_week_is_one_line(jcache: Jcache, recorded: Path) -> None:
    """`stats --since 7d -q` says how much was saved, of how much, and how many look-ups hit."""
    said = jcache("stats", "--since", "7d", "-q", "--root", recorded).out
    week = (datetime.now() - timedelta(days=7)).strftime("%Y-%m-%d")
    assert re.fullmatch(
        rf"4 runs since {week} \d\d:\d\d: saved 24\.0 s of 36\.0 s \(66 %\); 12 of 16 look-ups hit \(75 %\)\n", said
    )
    assert jcache("stats", "-q", "--root", recorded).out.startswith(
        "7 runs: saved 42.0 s of 1 min 03 s (66 %); 21 of 28"
    )
    assert "No run has started since 2999-01-01" in jcache("stats", "--since", "2999-01-01", "--root", recorded).err


def test_runs_are_listed_latest_first(jcache: Jcache, recorded: Path) -> None:
    """With the date, and with how many of how many are shown; -v shows all."""
    out = jcache("stats", "--limit", "3", "--root", recorded).out
    assert re.findall(r"run\d", out) == ["run6", "run5", "run4"] and "last 3 of 7; -v shows all" in out
    assert all(re.search(rf"{datetime.now() - timedelta(days=age):%m-%d} \d\d:\d\d +run\d", out) for age in (0, 1, 2))
    everything = jcache("stats", "-v", "--limit", "3", "--root", recorded).out
    assert len(re.findall(r"Z-run\d", everything)) == 7 and "shows all" not in everything


@pytest.mark.parametrize("by", ["run", "day", "function"])
def test_groups(jcache: Jcache, recorded: Path, by: str) -> None:
    """Whatever the lines stand for, they add up to the total."""
    data = jcache("stats", "--by", by, "--json", "--limit", "100", "--root", recorded).json
    assert (data["by"], data["schema_version"], len(data["groups"])) == (by, 2, 1 if by == "function" else 7)
    for field, total in (("hits", 21), ("requests", 28)):
        assert sum(group["executables"][field] for group in data["groups"]) == total
    assert sum(group["saved_seconds"] for group in data["groups"]) == data["totals"]["total_saved_seconds"] == 42.0
    assert data["totals"]["hit_rate"] == {"count": 0.75, "seconds": 42.0 / 63.0}
    assert f"\n{'started' if by == 'run' else by}" in "\n" + jcache("stats", "--by", by, "--root", recorded).out


@pytest.mark.full
@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("by", ["run", "day", "function"])
def test_stats_on_a_terminal(recorded: Path, columns: int, by: str) -> None:
    """Dates, ids and numbers are whole at any width, and lines fit; a narrow terminal shows no commands."""
    code, lines = Terminal("stats", "--by", by, "--root", recorded, columns=columns).finish()
    assert code == 0 and max(map(len, lines)) <= columns
    rows = [line for line in lines if re.search(r"(3 of 4|21 of 28) +\d", line)]
    assert len(rows) == (1 if by == "function" else 7)
    if by == "run":
        assert all(re.match(rf"\d\d-\d\d \d\d:\d\d +run{6 - n} .*6\.00 s +66 %", row) for n, row in enumerate(rows))
        assert all(("train.py" in row) is (columns > 60) for row in rows)


@pytest.mark.full
def test_stats_in_eighty_columns(jcache: Jcache, tmp_path: Path) -> None:
    """The run's name and all its counts are whole."""
    program = ["-c", "import jax, jax.numpy as jnp; jax.jit(jnp.sin)(1.0)"]
    jcache("run", "--root", tmp_path / "root", "--", sys.executable, *program)
    code, lines = Terminal("stats", "--root", str(tmp_path / "root")).finish()
    assert code == 0
    run = jcache("stats", "--root", tmp_path / "root", "--json").json["runs"][0]["id"].rpartition("-")[2]
    assert lines[0].split() == ["started", "run", "command", "executables", "saved", "of", "time"]
    assert lines[2].split()[2] == run and len(lines[2]) <= 80
