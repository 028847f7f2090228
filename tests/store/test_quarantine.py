"""Quarantine: damaged entries are moved there, and restored."""

import json
import os
import time
from pathlib import Path

import pytest

from jcache.errors import JcacheError, UnknownKey
from jcache.findings import Damage, Finding
from jcache.formats.digest import digest
from jcache.layout import Kind, Root
from jcache.store import files
from jcache.store.ledger import Known
from jcache.store.quarantine import Quarantine
from jcache.store.quarantine_record import QuarantineRecord
from jcache.store.store import Store
from jcache.verify.repair import damage_of, repair
from jcache.verify.result import VerifyRequest
from jcache.verify.verification import verify
from tests.helpers.entries import DAY, NOW, add, executable, key, recency_of, tree
from tests.helpers.stores import EXECUTABLES as KIND, OLD, TORN, finding


def test_what_is_taken_is_renamed_and_recorded(plain: Root, place: Quarantine) -> None:
    """The file itself is moved, its sidecar is removed, and the record has key, reason, times and last use."""
    found = finding(plain)
    inode = found.path.stat().st_ino
    record = place.take(found, NOW)
    assert place.records() == [record]
    assert (record.kind, record.key, record.damage, record.evidence) == (KIND, key(1), Damage.TORN, "Torn.")
    assert (record.bytes, record.digest, record.expected) == (len(TORN), digest(TORN), None)
    assert (record.recency_ns, record.quarantined_ns) == (OLD, NOW)
    assert record.id.startswith(key(1)[-64:][:8])
    assert (plain.quarantine / f"{record.id}.entry").stat().st_ino == inode
    assert json.loads((plain.quarantine / f"{record.id}.json").read_text())["schema_version"] == 2
    assert not list(plain.path.glob("jit_*"))


def test_one_key_may_be_there_more_than_once(plain: Root, place: Quarantine) -> None:
    """Several damaged entries of one key are kept side by side, the oldest first."""
    records = [place.take(finding(plain), NOW + i) for i in range(3)]
    assert place.records() == records and len({record.id for record in records}) == 3


@pytest.mark.parametrize("used_ns", [OLD, None], ids=["used", "unused"])
@pytest.mark.parametrize("kind", [KIND, Kind.TRACES])
def test_what_is_restored_is_as_it_was(plain: Root, place: Quarantine, kind: Kind, used_ns: int | None) -> None:
    """Name, bytes, time and recency; the quarantine is empty after that."""
    found = finding(plain, kind=kind, used_ns=used_ns)
    before = tree(plain.directory(kind))
    path = found.path
    assert place.restore(place.take(found, NOW)) == path.stat().st_ctime_ns
    after = {name: what for name, what in tree(plain.directory(kind)).items() if ".jcache" not in name}
    assert {name: (what[0], what[3]) for name, what in after.items()} == {
        name: (what[0], what[3]) for name, what in before.items()
    }
    assert path.stat().st_mtime_ns == OLD and after[str(path)][1] == before[str(path)][1]
    assert place.records() == [] and os.listdir(plain.quarantine) == []


def test_an_entry_written_anew_is_not_overwritten(plain: Root, place: Quarantine) -> None:
    """If JAX has written the key again, restoring is refused with the command that drops the old entry."""
    record = place.take(finding(plain), NOW)
    path = add(plain.path, key(1), executable())
    with pytest.raises(JcacheError, match=f"exists again: `jcache quarantine drop {record.id} --root "):
        place.restore(record)
    assert path.read_bytes() == executable() and place.records() == [record]


def test_dropping_is_for_good(plain: Root, place: Quarantine) -> None:
    """Dropping removes an entry for good and returns the freed bytes."""
    record = place.take(finding(plain), NOW)
    assert place.drop(record) == len(TORN)
    assert place.records() == [] and os.listdir(plain.quarantine) == []


def test_a_directory_can_be_taken_restored_and_dropped(plain: Root, place: Quarantine) -> None:
    """A directory with a sidecar's name is moved with its content, and can be restored."""
    path = plain.path / f"{key(1)}-atime"
    (path / "below").mkdir(parents=True)
    (path / "below" / "precious").write_text("kept")
    found = Finding(damage=Damage.NOT_A_FILE, path=path, evidence="No file.", kind=KIND, key=key(1))
    place.restore(place.take(found, NOW))
    assert (path / "below" / "precious").read_text() == "kept"
    place.drop(place.take(found, NOW))
    assert not path.exists() and place.records() == []


def test_what_cannot_be_moved_leaves_no_record(plain: Root, place: Quarantine, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the rename fails, nothing has changed."""
    found = finding(plain)

    def refuse(*_: object, **_directories: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(OSError, match="Input/output"):
        place.take(found, NOW)
    assert found.path.read_bytes() == TORN and recency_of(plain.path, key(1)) == OLD
    assert place.records() == [] and os.listdir(plain.quarantine) == []


def test_what_has_no_key_cannot_be_taken(place: Quarantine, tmp_path: Path) -> None:
    """A finding about the whole root has no file to take."""
    with pytest.raises(ValueError, match="key"):
        place.take(Finding(damage=Damage.WRITABLE, path=tmp_path, evidence="x"), NOW)


def test_what_is_kept_stays_in_its_place(plain: Root, place: Quarantine) -> None:
    """An entry that is about to be replaced is here and where it was, with its sidecar, until the new one comes."""
    found = finding(plain)
    place.keep(found.path, KIND, key(1))
    (record,) = place.records()
    assert record.damage is Damage.REPLACED and recency_of(plain.path, key(1)) == OLD
    assert (plain.quarantine / f"{record.id}.entry").samefile(found.path)


@pytest.fixture
def three(plain: Root, place: Quarantine) -> list[QuarantineRecord]:
    """The first two of one key."""
    return [place.take(finding(plain, number), NOW + i) for i, number in enumerate([1, 1, 2])]


def test_finding_by_id_and_key(place: Quarantine, three: list[QuarantineRecord]) -> None:
    """A whole id or key, or an unambiguous prefix of one, finds the entry."""
    for record in three:
        assert place.find(record.id) == place.find(record.id[:-2]) == record
    assert place.find(key(2)) == place.find(key(2)[:-50]) == three[2]


@pytest.mark.parametrize("text", ["nothing", "", "*"])
def test_what_stands_for_nothing(place: Quarantine, three: list[QuarantineRecord], text: str) -> None:
    """An id or key without an entry is refused with the command that lists the quarantine."""
    with pytest.raises(UnknownKey, match="jcache quarantine list"):
        place.find(text)


@pytest.mark.parametrize("text", [key(1), "jit_"])
def test_what_stands_for_several(place: Quarantine, three: list[QuarantineRecord], text: str) -> None:
    """Their ids are named."""
    with pytest.raises(UnknownKey, match=three[0].id):
        place.find(text)


def test_what_crashes_left_is_swept(plain: Root, place: Quarantine, three: list[QuarantineRecord]) -> None:
    """Old records without a file and temporary files go; younger ones, and files with a record, stay."""
    for name in ("0123-4567.json", ".jcache-tmp-01"):
        (plain.quarantine / name).write_text("{}")
    assert place.sweep(time.time_ns() - DAY) == 0
    assert place.sweep(time.time_ns() + DAY) == 2
    assert place.records() == three and len(os.listdir(plain.quarantine)) == 6


def test_unknown_files_are_not_swept(plain: Root, place: Quarantine) -> None:
    """Files of other programs in quarantine are not removed."""
    plain.quarantine.mkdir(parents=True)
    (plain.quarantine / "notes.txt").write_text("mine")
    place.sweep(time.time_ns() + DAY)
    assert (plain.quarantine / "notes.txt").exists()


def test_no_quarantine_is_an_empty_one(place: Quarantine) -> None:
    """A missing quarantine is empty, and reading does not make it."""
    assert place.records() == [] and place.sweep(NOW) == 0


def changed(root: Root) -> Path:
    """Return an entry that was verified, and then changed so that only its digest tells."""
    path = add(root.directory(KIND), key(1), executable(5), used_ns=OLD, written_ns=OLD)
    with Store(root) as store:
        assert verify(store, VerifyRequest()).findings == []
    path.write_bytes(executable(6))
    os.utime(path, ns=(OLD, OLD))
    return path


def found_in(root: Root) -> list[Damage]:
    with Store(root) as store:
        return [one.damage for one in verify(store, VerifyRequest()).findings]


def test_a_changed_entry_that_is_restored_is_found_again(plain: Root, place: Quarantine) -> None:
    """Putting it back does not make it right: each `verify` names it, and each `--repair` takes it out."""
    changed(plain)
    for _ in range(3):
        with Store(plain) as store:
            findings = verify(store, VerifyRequest()).findings
            assert [one.damage for one in findings] == [Damage.CHANGED]
            assert len(repair(store, findings, grace_ns=0)) == 1
        (record,) = place.records()
        with Store(plain) as store:
            assert damage_of(store, place, record) == record.evidence
            store.maintenance.restore(place, record)
    assert found_in(plain) == [Damage.CHANGED]


def test_a_torn_entry_that_is_restored_is_found_again(plain: Root, place: Quarantine) -> None:
    """Without a recorded digest, a restored torn entry is found by the checks of its bytes."""
    found = finding(plain)
    with Store(plain) as store:
        store.maintenance.restore(place, place.take(found, NOW))
    assert len(found_in(plain)) == 1


def test_entries_that_change_places_keep_what_is_known_of_them(plain: Root, place: Quarantine) -> None:
    """A changed entry that was replaced and restored before any check is found, and the sound one is sound."""
    path, sound = changed(plain), executable(7)
    with Store(plain) as store:
        place.keep(path, KIND, key(1), store.ledger.known(KIND, [key(1)])[key(1)])
        files.publish(path, sound)
        (record,) = place.records()
        assert record.damage is Damage.REPLACED and damage_of(store, place, record) is not None
        store.maintenance.restore(place, record, replace=True)
    os.utime(path, ns=(OLD, OLD))
    assert found_in(plain) == [Damage.CHANGED]
    (record,) = place.records()
    with Store(plain) as store:
        assert damage_of(store, place, record) is None
        store.maintenance.restore(place, record, replace=True)
    assert found_in(plain) == [] and path.read_bytes() == sound


def test_a_restore_that_is_refused_changes_nothing_on_record(plain: Root, place: Quarantine) -> None:
    """After a refused restore, the ledger's facts on the existing entry are unchanged: its digest, hits and pins."""
    record = place.take(finding(plain), NOW)
    add(plain.directory(KIND), key(1), executable(7), used_ns=OLD, written_ns=OLD)
    with Store(plain) as store:
        assert verify(store, VerifyRequest()).findings == []
        store.ledger.record([Known(KIND, key(1), hits=3)])
        before = store.ledger.known(KIND)
        with pytest.raises(JcacheError, match="exists again"):
            store.maintenance.restore(place, record)
        assert store.ledger.known(KIND) == before and before[key(1)].digest is not None


def test_a_restored_entry_has_its_sidecar_where_each_needs_one(plain: Root) -> None:
    """An entry of an unbounded time, put back where a bound is now, must not stop every bounded put."""
    found = finding(plain, used_ns=None)
    (plain.path / ".lockfile").touch()
    with Store(plain) as store:
        place = Quarantine(plain)
        store.maintenance.restore(place, place.take(found, NOW))
    assert recency_of(plain.path, key(1)) == OLD
