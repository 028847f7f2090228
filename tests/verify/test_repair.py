"""Repair touches only files that are unchanged since the check and old enough, and loses nothing."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jcache import clock
from jcache.errors import CannotWrite, LedgerUnavailable, Locked
from jcache.findings import Damage
from jcache.formats.envelope import seal
from jcache.layout import Kind, Root
from jcache.store.ledger import Known
from jcache.store.quarantine import Quarantine
from jcache.store.store import Store
from jcache.verify import repair as module, verification
from jcache.verify.repair import RepairOutcome, RepairResult
from jcache.verify.result import Verification, VerifyRequest
from tests.helpers.entries import DAY, HOLD_LOCK, SECOND, add, executable, key, process, recency_of, tree

KIND = Kind.EXECUTABLES
GRACE = 60 * SECOND
NOW = time.time_ns()
OLD = NOW - DAY
TORN = executable()[:-5]
Between = Callable[[], object]


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "sleep", lambda _: None)


def verify(root: Root) -> Verification:
    with Store(root) as store:
        return verification.verify(store, VerifyRequest())


def repair(root: Root, between: Between = lambda: None, grace_ns: int = GRACE) -> dict[str, RepairResult]:
    """Verify and repair, with a change in between; return the result of each finding, by file name."""
    with Store(root, lock_timeout=0.5) as store:
        findings = verification.verify(store, VerifyRequest()).findings
        between()
        return {one.finding.path.name: one for one in module.repair(store, findings, grace_ns=grace_ns)}


def outcomes(root: Root, between: Between = lambda: None) -> list[RepairOutcome]:
    return [one.outcome for one in repair(root, between).values()]


def aged(path: Path) -> Path:
    os.utime(path, ns=(OLD, OLD))
    return path


@pytest.mark.parametrize("made", ["native", "plain"])
def test_everything_is_mended_and_clean_after_that(made: str, native: Root, plain: Root) -> None:
    """Damaged entries of all kinds go to quarantine, sidecars are made, leftovers go; sound entries stay."""
    root = native if made == "native" else plain
    directory = root.directory(KIND)
    sound = add(directory, key(1), executable(), used_ns=OLD, written_ns=OLD)
    bare = add(directory, key(2), executable(), written_ns=OLD)
    (directory / ".lockfile").touch()
    damaged = [add(directory, key(3), TORN, used_ns=OLD, written_ns=OLD)]
    for kind, number in ((Kind.TRACES, 4), (Kind.GRAPHS, 5)):
        data = seal(b"x", kind=kind, name="jit_step", key=key(number), build_seconds=1.0, created_ns=1)[:-1]
        damaged.append(add(root.directory(kind), key(number), data, used_ns=OLD, written_ns=OLD))
    leftovers = [directory / f"{key(6)}-atime", directory / "_temp_1"]
    for path in leftovers:
        path.write_bytes(b"leftover")
        aged(path)
    before = tree(directory)
    done = repair(root)
    assert {one.outcome for one in done.values()} == {
        RepairOutcome.QUARANTINED,
        RepairOutcome.SIDECAR_MADE,
        RepairOutcome.REMOVED,
    }
    assert all(one.mended for one in done.values()) and len(done) == 6
    assert not any(map(os.path.lexists, [*damaged, *leftovers]))
    after = tree(directory)
    assert all(after[str(path)] == before[str(path)] for path in (sound, bare)) and recency_of(directory, key(2)) == OLD
    assert {record.key for record in Quarantine(root).records()} == {key(3), key(4), key(5)}
    assert verify(root).findings == []


def test_what_the_ledger_knew_of_the_bytes_goes_with_them(plain: Root) -> None:
    """A pin belongs to the key and stays; the recorded digest goes, so the next entry of this key is sound."""
    add(plain.path, key(1), TORN, written_ns=OLD)
    with Store(plain) as store:
        store.ledger.record([Known(KIND, key(1), digest="0" * 64, pinned_ns=1, checks=1)])
    assert outcomes(plain) == [RepairOutcome.QUARANTINED]
    with Store(plain) as store:
        about = store.ledger.known(KIND)[key(1)]
        assert (about.digest, about.checks, about.pinned_ns) == (None, None, 1)
    add(plain.path, key(1), executable(7), used_ns=OLD, written_ns=OLD)
    assert verify(plain).findings == []


@pytest.mark.parametrize("what", ["entry", "orphan"])
def test_what_is_young_is_left_alone(plain: Root, what: str) -> None:
    """A young file may be unfinished: it stays, with the reason, until it is older than the grace period."""
    path = add(plain.path, key(1), TORN)
    if what == "orphan":
        path = path.rename(plain.path / f"{key(1)}-atime")
    (one,) = repair(plain).values()
    assert one.outcome is RepairOutcome.LEFT and one.reason and not one.mended and path.exists()
    (one,) = repair(plain, grace_ns=0).values()
    assert one.mended and not path.exists()


def test_a_time_in_the_future_is_no_youth(plain: Root) -> None:
    """A clock that was wrong does not protect damage for ever."""
    add(plain.path, key(1), TORN, written_ns=NOW + 9 * DAY)
    assert outcomes(plain) == [RepairOutcome.QUARANTINED]


@pytest.mark.parametrize("what", ["entry", "orphan", "temporary"])
def test_what_has_changed_meanwhile_is_left_alone(plain: Root, what: str) -> None:
    """Only the file that was checked is repaired."""
    name = {"entry": f"{key(1)}-cache", "orphan": f"{key(1)}-atime", "temporary": "_temp_1"}[what]
    path = aged(add(plain.path, key(2), TORN).rename(plain.path / name))

    def rewrite() -> None:
        path.unlink()
        path.write_bytes(TORN)
        os.utime(path, ns=(OLD + 1, OLD + 1))

    (one,) = repair(plain, rewrite).values()
    assert one.outcome is RepairOutcome.LEFT and path.read_bytes() == TORN


def test_an_orphan_whose_entry_has_come_stays(plain: Root) -> None:
    """The entry of a sidecar may be put while we work."""
    path = aged(add(plain.path, key(1), 8).rename(plain.path / f"{key(1)}-atime"))
    (one,) = repair(plain, lambda: add(plain.path, key(1), executable(), written_ns=OLD)).values()
    assert one.outcome is RepairOutcome.LEFT and path.exists()


@pytest.mark.parametrize("what", ["entry", "bare entry", "temporary"])
def test_what_is_gone_by_then_needs_nothing(plain: Root, what: str) -> None:
    """Another process has removed it: mended."""
    (plain.path / ".lockfile").touch()
    path = add(plain.path, key(1), executable() if what == "bare entry" else TORN, written_ns=OLD)
    if what == "entry":
        (plain.path / f"{key(1)}-atime").write_bytes(OLD.to_bytes(8, "little"))
    if what == "temporary":
        path = aged(path.rename(plain.path / "_temp_1"))

    def vanish() -> None:
        for file in plain.path.glob("*_*"):
            file.unlink()

    assert [one.mended for one in repair(plain, vanish).values()] == [True]
    assert not list(plain.path.glob("jit_*"))


@pytest.mark.parametrize(
    ("data", "written_ns"),
    [(b"", OLD), (b"123", OLD), (b"\xff" * 8, OLD), (b"\xff" * 8, NOW + 9 * DAY)],
    ids=["empty", "short", "far", "far, of a file in the future"],
)
def test_sidecars_get_the_time_of_the_file(plain: Root, data: bytes, written_ns: int) -> None:
    """A new sidecar gets the time of the file, unless that is in the future."""
    path = add(plain.path, key(1), executable(), written_ns=written_ns)
    path.with_name(f"{key(1)}-atime").write_bytes(data)
    assert outcomes(plain) == [RepairOutcome.SIDECAR_MADE]
    recency = recency_of(plain.path, key(1))
    assert recency == OLD if written_ns == OLD else NOW <= recency <= time.time_ns()
    assert verify(plain).findings == []


def test_a_sidecar_that_jax_has_made_meanwhile_stays(plain: Root) -> None:
    """Its time is the right one."""
    add(plain.path, key(1), executable(), written_ns=OLD)
    (plain.path / ".lockfile").touch()
    sidecar = plain.path / f"{key(1)}-atime"
    assert outcomes(plain, lambda: sidecar.write_bytes((NOW - 5).to_bytes(8, "little"))) == [RepairOutcome.SIDECAR_MADE]
    assert recency_of(plain.path, key(1)) == NOW - 5


def test_what_people_must_do_is_left_to_them(plain: Root) -> None:
    """Modes and names that stop JAX are left, with the advice, and nothing is touched."""
    plain.path.chmod(0o777)
    (plain.path / "pip-cache").mkdir()
    before = tree(plain.path)
    done = repair(plain)
    assert {one.outcome for one in done.values()} == {RepairOutcome.LEFT}
    assert all(one.reason and not one.mended for one in done.values())
    assert {p: w for p, w in tree(plain.path).items() if ".jcache" not in p} == before


def test_a_damaged_ledger_is_set_aside_and_begun_anew(plain: Root) -> None:
    """A damaged ledger is kept beside the new one; pins are unknown until the user sets them again."""
    add(plain.path, key(1), executable(), written_ns=OLD)
    plain.state.mkdir()
    plain.ledger.write_bytes(b"no ledger at all " * 999)
    assert sorted(outcomes(plain)) == [RepairOutcome.BEGUN_ANEW, RepairOutcome.LEFT]
    (aside,) = plain.state.glob("ledger.sqlite3.damaged-*")
    assert aside.read_bytes() == b"no ledger at all " * 999
    assert [one.damage for one in verify(plain).findings] == [Damage.PINS]
    with Store(plain) as store:
        store.pins.clear()
    assert verify(plain).findings == []


def test_what_cannot_be_mended_is_said_and_the_rest_goes_on(plain: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """If one repair fails, the others are still done."""
    for i in range(3):
        add(plain.path, key(i), TORN, written_ns=OLD)
    rename = os.rename

    def refuse(source: str, target: str, **directories: int) -> None:
        if key(1) in str(source):
            raise OSError(5, "Input/output error")
        rename(source, target, **directories)

    monkeypatch.setattr(os, "rename", refuse)
    done = repair(plain)
    failed = done[f"{key(1)}-cache"]
    assert (failed.outcome, failed.reason) == (RepairOutcome.FAILED, "Input/output error")
    assert [one.mended for one in done.values()].count(True) == 2


def test_a_held_lock_stops_it_before_anything_changes(plain: Root) -> None:
    """Without the lock, nothing is repaired."""
    add(plain.path, key(1), TORN, written_ns=OLD)
    with process(HOLD_LOCK, plain.path), pytest.raises(Locked):
        repair(plain)
    assert list(plain.path.glob("jit_*")) and not Quarantine(plain).records()


def test_a_root_that_cannot_be_changed(plain: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence says that a root cannot be changed, whether entries or the ledger are concerned."""
    add(plain.path, key(1), TORN, written_ns=OLD)
    with pytest.raises(CannotWrite, match="lock"):
        repair(plain, lambda: (plain.path / ".lockfile").mkdir())
    (plain.path / ".lockfile").rmdir()
    plain.ledger.unlink()
    plain.ledger.mkdir()
    monkeypatch.setattr(os, "rename", lambda *_, **__: (_ for _ in ()).throw(OSError(30, "Read-only file system")))
    with pytest.raises(LedgerUnavailable):
        repair(plain)


@pytest.mark.parametrize("name", [f"{key(3)}-atime", "_temp_results"])
def test_directories_of_others_are_not_removed(plain: Root, name: str) -> None:
    """Only files of JAX are removed: a directory with the name of a leftover belongs to somebody and stays."""
    add(plain.path, key(1), executable(), written_ns=OLD)
    precious = plain.path / name / "precious"
    precious.parent.mkdir()
    precious.write_text("kept")
    aged(precious.parent)
    repair(plain)
    assert any(path.name == "precious" for path in plain.path.rglob("*"))


def test_what_killed_prunes_left_is_removed_with_everything_below(plain: Root) -> None:
    """XLA's sub-caches are renamed before the slow removal: after a crash, the renamed directory is a leftover."""
    path = plain.path / ".jcache-tmp-xla-0123"
    (path / "below").mkdir(parents=True)
    (path / "below" / "kernels").write_bytes(b"x" * 99)
    aged(path)
    assert outcomes(plain) == [RepairOutcome.REMOVED] and not path.exists()


def test_an_unbounded_root_stays_one(plain: Root) -> None:
    """After a repair, entries of an unbounded JAX without sidecars are no finding."""
    add(plain.path, key(1), TORN, written_ns=OLD)
    repair(plain)
    add(plain.path, key(1), executable(), written_ns=OLD)
    assert verify(plain).findings == []


def test_nothing_to_mend_is_no_work(plain: Root) -> None:
    """Without findings, nothing is locked or written."""
    with Store(plain) as store:
        assert module.repair(store, [], grace_ns=GRACE) == []
    assert not (plain.path / ".lockfile").exists()
    assert Damage.LEGACY not in {f.damage for f in verify(plain).findings}
