"""`jcache stats --by cause`: what recorded runs missed, by cause, as a table and as JSON."""

import json
from pathlib import Path

import pytest

from jcache.runs.report import report_of
from jcache.store.ledger import Ledger
from jcache.store.roots import create_root
from jcache.store.run_records import add_record
from tests.helpers.command_line import Jcache
from tests.helpers.records import FAST_MATH, process, program, run
from tests.helpers.terminals import WIDTHS, Terminal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A root with three runs, the first of which has no record."""
    root = create_root(tmp_path / "root")
    usual = run(2, process(program("step"), program("loss")))
    flagged = run(3, process(program("step", flags=FAST_MATH), program("loss", flags=FAST_MATH), flags=FAST_MATH))
    ledger = Ledger(root.ledger)
    for one in (run(1), usual, flagged):
        report = report_of([], run_id=one.id, command=one.command, started_ns=one.started_ns, seconds=1.0)
        ledger.add_run(one.id, one.started_ns, json.dumps(report.to_json()))
        if one.processes:
            add_record(root, one.id, one.to_json(), {})
    ledger.close()
    return root.path


def test_a_table(jcache: Jcache, path: Path) -> None:
    """Each cause has a line with its misses, seconds and runs; runs without a record are told."""
    done = jcache("stats", "--root", path, "--by", "cause")
    assert done.code == 0 and done.err == ""
    lines = [line.split() for line in done.out.splitlines()]
    assert ["XLA_FLAGS", "2", "2.40", "s", "1"] in [line[:5] for line in lines]
    assert ["first", "time", "2", "2.40", "s", "1"] in [line[:6] for line in lines]
    assert "4 misses in 2 runs of 3 with a record took 4.80 s" in done.out


def test_json(jcache: Jcache, path: Path) -> None:
    """JSON has the same causes; --run chooses a run."""
    found = jcache("stats", "--root", path, "--by", "cause", "--run", "last", "--json").json
    assert (found["by"], found["runs"]) == ("cause", 1)
    (cause,) = found["groups"]
    assert (cause["item"], cause["misses"], cause["runs"]) == ("XLA_FLAGS", 2, 1)


def test_without_records(jcache: Jcache, tmp_path: Path) -> None:
    """A root without runs has no causes, and other forms are refused."""
    root = create_root(tmp_path / "empty")
    done = jcache("stats", "--root", root.path, "--by", "cause")
    assert done.code == 0 and done.out == "" and "No runs recorded yet: `jcache run" in done.err
    refused = jcache("stats", "--root", root.path, "--by", "cause", "--plot")
    assert refused.code == 2 and "stats --by cause prints a table or --json" in refused.err


@pytest.mark.full
@pytest.mark.parametrize("width", WIDTHS)
def test_widths(path: Path, width: int) -> None:
    """No line is wider than the terminal, but for a command."""
    code, lines = Terminal("stats", "--root", path, "--by", "cause", columns=width).finish()
    assert code == 0 and any("XLA_FLAGS" in line for line in lines)
    assert all(len(line) <= width or "`" in line for line in lines)  # a command is never broken
