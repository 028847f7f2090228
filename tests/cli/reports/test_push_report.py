"""The report of a push names what became of each entry."""

from pathlib import Path

import pytest

from jcache.cli.reports.push_report import as_json, exit_code, render
from jcache.remote.client import open_remote
from jcache.shipping.exporter.selection import ExportRequest
from jcache.shipping.sync.push import PushOutcome, PushResult, plan_push
from jcache.store.store import Store
from tests.helpers.imports import populated


def test_outcomes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Counts, bytes and exit code are those of the result."""
    remote = open_remote(f"file://{tmp_path}/store")
    with Store(populated(tmp_path / "root", count=1)) as store:
        plan = plan_push(store, remote, ExportRequest(processes=1))
        names = [(entry.kind, entry.key) for entry in plan.wanted]
        result = PushResult(
            dict(zip(names, (PushOutcome.NEW, PushOutcome.DIFFERENT, PushOutcome.OMITTED), strict=True)), 7
        )
        told = as_json(store, remote, plan, result, dry_run=False, signed=False)
        assert told["entries"] == {"new": 1, "present": 0, "different": 1, "replaced": 0, "omitted": 1}
        assert told["omitted"] == [{"kind": names[2][0], "key": names[2][1]}] and exit_code(result) == 3
        render(store, remote, result, dry_run=False, verbose=True)
    out = capsys.readouterr().out
    assert "1 new, 1 there already, from another build, 1 changed or removed meanwhile" in out and names[0][1] in out
