"""Entries are published whole, and only with the bytes of the manifest, whatever is there or comes meanwhile."""

import errno
import io
from pathlib import Path

import pytest

from jcache.errors import CannotWrite, JcacheError
from jcache.layout import LOCK_NAME, Kind
from jcache.shipping.archive import ArchiveMember, members as archive_members
from jcache.shipping.forecast.judge import judge
from jcache.shipping.forecast.machine import Machine
from jcache.shipping.importer import entry_import, write_behind
from jcache.shipping.importer.archive_import import execute_plan, plan_import
from jcache.shipping.importer.outcome import ImportOutcome, ImportResult
from jcache.store.locking import locked
from jcache.store.pending_file import PendingFile
from jcache.store.put_result import Outcome
from jcache.store.quarantine import Quarantine
from jcache.store.roots import create_root
from jcache.store.store import Store
from tests.helpers.entries import DAY, NOW, add, key, recency_of
from tests.helpers.imports import facts, packed, planned, populated
from tests.shipping.importer.test_archive_import import archive_of, brought, check_clean


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("bounded", [False, True])
def test_present_and_different(tmp_path: Path, replace: bool, bounded: bool) -> None:
    """A different entry stays and is reported; with replace it goes to quarantine, even if the sizes are equal."""
    target = create_root(tmp_path / "b")
    directory = target.directory(Kind.EXECUTABLES)
    manifest, datas = archive_of(*((Kind.EXECUTABLES, key(n)) for n in range(3)), sidecar=True)
    a_key = manifest.items[0].key
    other = bytes(reversed(datas[0]))
    with Store(target) as store:
        assert store.put(Kind.EXECUTABLES, a_key, other) is Outcome.STORED
    if bounded:
        (directory / LOCK_NAME).touch()
    imported = brought(target, manifest, datas, replace=replace)
    assert imported.outcomes[Kind.EXECUTABLES, a_key] is (
        ImportOutcome.REPLACED if replace else ImportOutcome.DIFFERENT
    )
    assert imported.count(ImportOutcome.NEW) == 2
    assert (directory / f"{a_key}-cache").read_bytes() == (datas[0] if replace else other)
    kept = [(target.quarantine / f"{record.id}.entry").read_bytes() for record in Quarantine(target).records()]
    assert kept == ([other] if replace else [])
    if replace:
        assert recency_of(directory, a_key) == NOW
        check_clean(target)


def test_not_a_file(tmp_path: Path) -> None:
    """A directory with an entry's name stays, even with replace."""
    target = create_root(tmp_path / "b")
    manifest, datas = archive_of((Kind.EXECUTABLES, key(1)))
    (target.directory(Kind.EXECUTABLES) / f"{key(1)}-cache").mkdir()
    imported = brought(target, manifest, datas, replace=True)
    assert set(imported.outcomes.values()) == {ImportOutcome.DIFFERENT}


@pytest.mark.parametrize("bounded", [False, True])
def test_come_meanwhile(tmp_path: Path, bounded: bool) -> None:
    """An entry that another process writes between plan and publication stays, keeps its recency, and is compared."""
    target = create_root(tmp_path / "b")
    manifest, datas = archive_of(*((Kind.EXECUTABLES, key(n)) for n in range(2)))
    directory = target.directory(Kind.EXECUTABLES)
    forecast = judge(manifest, Machine(), directory, {})
    plan = plan_import(manifest, target, forecast)
    for item, data in zip(manifest.items, (datas[0], b"other"), strict=True):
        add(directory, item.key, data, used_ns=NOW + DAY)
    if bounded:
        (directory / LOCK_NAME).touch()
    imported = ImportResult()
    members = [ArchiveMember(i, "", io.BytesIO(d).readinto) for i, d in zip(manifest.items, datas, strict=True)]
    with Store(target) as store:
        execute_plan(plan, members, store, imported)
    assert list(imported.outcomes.values()) == [ImportOutcome.PRESENT, ImportOutcome.DIFFERENT]
    assert [recency_of(directory, item.key) for item in manifest.items] == [NOW + DAY] * 2


@pytest.mark.parametrize("piece", [1 << 20, 100])
def test_other_bytes(tmp_path: Path, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry whose bytes are not those of the manifest is not published, the others are, in however many pieces."""
    monkeypatch.setattr(archive_members, "PIECE_BYTES", piece)
    target = create_root(tmp_path / "b")
    manifest, datas = archive_of(*((Kind.EXECUTABLES, key(n)) for n in range(3)))
    datas[1] = datas[1][:-1] + bytes([datas[1][-1] ^ 1])
    imported = brought(target, manifest, datas)
    assert [one.entry for one in imported.refused] == [manifest.items[1]]
    assert imported.outcomes[Kind.EXECUTABLES, manifest.items[1].key] is ImportOutcome.REFUSED
    assert set(facts(target)) == {(i.kind, i.key) for i in (manifest.items[0], manifest.items[2])}
    check_clean(target)


def test_disk_fills_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the disk fills up, the complete entries are there, and nothing else."""
    target = create_root(tmp_path / "b")
    manifest, datas = archive_of(*((Kind.EXECUTABLES, key(n)) for n in range(5)))
    write, written = PendingFile.write, []

    def full(self: PendingFile, data: bytes | memoryview) -> None:
        written.append(data)
        if len(written) > 3:
            raise OSError(errno.ENOSPC, "no space")
        write(self, data)

    monkeypatch.setattr(PendingFile, "write", full)
    with pytest.raises(CannotWrite, match="no space left"):
        brought(target, manifest, datas)
    monkeypatch.undo()
    assert len(facts(target)) == 3
    check_clean(target)
    assert brought(target, manifest, datas).count(ImportOutcome.NEW) == 2


def test_large_entries_wait_for_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries are published once a batch has enough bytes, whatever follows."""
    monkeypatch.setattr(entry_import, "_MAX_BATCH_BYTES", 1)
    monkeypatch.setattr(write_behind, "_PAGE_BYTES", 100)
    monkeypatch.setattr(write_behind, "_MAX_PAGES", 1)
    source, target = populated(tmp_path / "a", count=5), create_root(tmp_path / "b")
    reader, plan = planned(packed(source), target)
    there = []
    with Store(target) as store:
        execute_plan(
            plan, reader.members(), store, ImportResult(), progress=lambda *_: there.append(len(facts(target)))
        )
    assert there == list(range(len(facts(source))))


def test_locked(tmp_path: Path) -> None:
    """An import waits for the lock, and stores nothing if it does not get it."""
    target = create_root(tmp_path / "b")
    directory = target.directory(Kind.EXECUTABLES)
    manifest, datas = archive_of((Kind.EXECUTABLES, key(1)))
    with locked(target, Kind.EXECUTABLES), Store(target, lock_timeout=0) as store:
        forecast = judge(manifest, Machine(), directory, {})
        members = [ArchiveMember(manifest.items[0], "", io.BytesIO(datas[0]).readinto)]
        with pytest.raises(JcacheError, match="held by"):
            execute_plan(plan_import(manifest, target, forecast), members, store, ImportResult())
    assert not list(directory.glob("*-cache"))
