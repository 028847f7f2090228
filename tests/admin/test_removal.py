"""Removing many entries leaves a ledger that is as small as what is left."""

import shutil
from pathlib import Path

import pytest

from jcache.admin.removal import PruneLimits, execute, plan_clear, plan_prune
from jcache.layout import Kind, Root
from jcache.store import ledger_removals
from jcache.store.ledger import Known
from jcache.store.listing import SNAPSHOT_FROM
from jcache.store.store import Store
from jcache.verify.result import VerifyRequest
from jcache.verify.verification import verify
from tests.helpers.entries import NOW, add, executable, key


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plain directory with 12,000 entries, of which the ledger knows the seconds, and which it remembers."""
    root = Root(tmp_path_factory.mktemp("large") / "root", plain=True)
    data = executable()
    for number in range(SNAPSHOT_FROM + 2000):
        add(root.path, key(number), data, written_ns=NOW)
    with Store(root) as store:
        store.ledger.record(Known(Kind.EXECUTABLES, key(n), seconds=1.0) for n in range(SNAPSHOT_FROM + 2000))
        store.listing(Kind.EXECUTABLES)
    return root.path


@pytest.mark.full
@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("left", [0, 10])
def test_the_ledger_follows_the_cache(
    large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int, moved: bool
) -> None:
    """After `clear` or `prune` of nearly all, it has less than a tenth of its size, also in a copied root.

    What it keeps on the latest removals is one megabyte, however large the root was; here it keeps fewer.
    """
    monkeypatch.setattr(ledger_removals, "KEPT", 100)
    root = Root(tmp_path / "root", plain=True)
    shutil.copytree(large, root.path)
    if moved:
        root.path.rename(tmp_path / "elsewhere")
        root = root._replace(path=tmp_path / "elsewhere")
    before = root.ledger.stat().st_size
    with Store(root) as store:
        if left:
            plan = plan_prune(store, PruneLimits(max_entries=left).policy(), Kind)
        else:
            plan = plan_clear(store, Kind, legacy=False)
        assert len(execute(store, plan, xla=False, dry_run=False).removed) == SNAPSHOT_FROM + 2000 - left
    assert root.ledger.stat().st_size < before / 10
    with Store(root) as store:
        entries = store.entries()
        assert len(entries) == left and all(entry.seconds == 1.0 for entry in entries)
        assert verify(store, VerifyRequest(grace_ns=0)).findings == []


@pytest.mark.full
def test_a_ledger_that_another_process_reads(large: Path, tmp_path: Path) -> None:
    """It stays as it is, and the removal is done all the same."""
    root = Root(tmp_path / "root", plain=True)
    shutil.copytree(large, root.path)
    with Store(root) as store, Store(root) as other:
        plan = plan_clear(store, Kind, legacy=False)

        def reading(database: object) -> int:
            database.execute("SELECT * FROM entries").fetchone()  # type: ignore[attr-defined]
            store.ledger.shrink([str(root.path)])
            return len(execute(store, plan, xla=False, dry_run=False).removed)

        assert other.ledger.read(reading) == SNAPSHOT_FROM + 2000
        assert store.entries() == []
