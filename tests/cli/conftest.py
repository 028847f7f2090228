"""What the tests of several commands and reports share."""

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from jcache.runs.report import report_of
from jcache.store.ledger import Ledger
from jcache.store.roots import create_root
from tests.helpers.imports import packed, populated


def reports_of(*ages_d: float) -> list[dict[str, Any]]:
    """Reports of runs that were started so many days ago, with 3 hits of 4 executables each, which saved 7 s."""
    now = datetime.now(UTC)
    report = report_of([], run_id="x", command=["train.py", "--lr", "3"], started_ns=2, seconds=1.0).to_json()
    programs = [
        {"key": f"jit_step-{number:064x}", "name": "step", "outcome": "hit" if number else "stored", "reason": None,
         "seconds": 1.0, "jax_build_seconds": 3.0, "directory": None, "has_path_key": False}
        for number in range(4)
    ]  # fmt: skip
    more = {"hits": 3, "stored": 1, "compile_seconds": 1.0, "retrieve_seconds": 2.0, "saved_seconds": 6.0}
    report |= more | {"programs": programs}
    starts = [(now - timedelta(days=age)).isoformat() for age in ages_d]
    return [report | {"id": f"20261124T000000Z-run{n}", "started": start} for n, start in enumerate(starts)]


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A root with runs of 30, 20, 10, 6, 2 and 1 days ago, and of now."""
    root = create_root(tmp_path / "recorded")
    with closing(Ledger(root.ledger)) as ledger:
        for number, report in enumerate(reports_of(30, 20, 10, 6, 2, 1, 0)):
            ledger.add_run(report["id"], number, json.dumps(report))
    return root.path


@pytest.fixture(name="archive")
def archive_fixture(tmp_path: Path) -> Path:
    """An archive of a small root."""
    path = tmp_path / "some.archive"
    path.write_bytes(packed(populated(tmp_path / "source")))
    return path


@pytest.fixture(name="target")
def target_fixture(tmp_path: Path, beyond: Path) -> Path:
    """Return the path to import to; no file beside it may change."""
    assert beyond
    return tmp_path / "target"
