"""Imported entries equal the exported ones, whatever is in the root and wherever the import ends."""

import errno
import io
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from jcache.errors import BadArchive, CannotWrite, InvalidValue, JcacheError, NoCacheHere, Untrusted
from jcache.formats.digest import digest
from jcache.layout import AUTOTUNE_NAME, LOCK_NAME, TEMPORARY_PREFIX, Kind, Root
from jcache.shipping.archive import ArchiveMember, members as archive_members, open_archive
from jcache.shipping.archive.manifest import Item, Manifest
from jcache.shipping.archive.reader import ArchiveReader
from jcache.shipping.archive.signing import sign
from jcache.shipping.forecast.judge import judge
from jcache.shipping.forecast.machine import Machine
from jcache.shipping.importer import entry_import, write_behind
from jcache.shipping.importer.archive_import import check_trust, execute_plan, plan_import
from jcache.shipping.importer.outcome import ImportOutcome, ImportResult
from jcache.shipping.importer.target_root import future_root
from jcache.store.entry_writer import Outcome
from jcache.store.ledger import Known
from jcache.store.locking import locked
from jcache.store.pending_file import PendingFile
from jcache.store.quarantine import Quarantine
from jcache.store.roots import create_root
from jcache.store.store import Store
from jcache.verify.result import VerifyRequest
from jcache.verify.verification import verify
from tests.helpers.entries import DAY, NOW, add, key, recency_of, tree
from tests.helpers.imports import content, facts, packed, planned, populated, tar_of, unpacked
from tests.helpers.signatures import needs_openssh, new_key, signature_by


def check_clean(root: Root) -> None:
    """Assert that nothing is damaged and no temporary file is left."""
    with Store(root) as store:
        assert verify(store, VerifyRequest(grace_ns=0)).findings == []
    assert not [path for path in root.path.rglob("*") if TEMPORARY_PREFIX in path.name]


def sidecars(root: Root) -> set[tuple[Kind, str]]:
    """The entries that have sidecars."""
    with Store(root) as store:
        return {(entry.kind, entry.key) for entry in store.entries() if entry.sidecar}


def archive_of(*kinds_and_keys: tuple[Kind, str], **more: Any) -> tuple[Manifest, list[bytes]]:
    """A manifest of right entries, and their bytes."""
    names = sorted(kinds_and_keys)
    datas = [content(*name) for name in names]
    items = [Item(*n, len(d), digest(d), NOW, NOW)._replace(**more) for n, d in zip(names, datas, strict=True)]
    return Manifest(jcache="0", root="/old", directory="/old", items=tuple(items)), datas


def brought(root: Root, manifest: Manifest, datas: list[bytes], **wishes: Any) -> ImportResult:
    """Imports entries whose bytes are given."""
    members = [
        ArchiveMember(item, "", io.BytesIO(data).readinto) for item, data in zip(manifest.items, datas, strict=True)
    ]
    imported = ImportResult()
    forecast = judge(manifest, Machine(), root.directory(Kind.EXECUTABLES), {})
    plan = plan_import(manifest, root, forecast, **wishes)
    with Store(root) as store:
        execute_plan(plan, members, store, imported)
    return imported


# -- what arrives


@settings(max_examples=12)
@given(
    seed=st.integers(0, 2**32),
    plain=st.booleans(),
    bounded=st.booleans(),
    to_plain=st.booleans(),
    to_bounded=st.booleans(),
)
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory, seed: int, plain: bool, bounded: bool, to_plain: bool, to_bounded: bool
) -> None:
    """An exported and imported root has the same entries, recency, times, pins, seconds and origins."""
    path = tmp_path_factory.mktemp("round")
    source = populated(path / "a", plain=plain, bounded=bounded, seed=seed)
    target = create_root(path / "b", plain=to_plain)
    if to_bounded:
        for kind in Kind:
            target.directory(kind).mkdir(exist_ok=True)
            (target.directory(kind) / LOCK_NAME).touch()
    before = facts(source)
    imported = unpacked(packed(source, xla=True), target)
    after = facts(target)
    for name, was in before.items():  # of a trace the envelope knows the seconds, of an entry without origin the import
        seconds, origin = was.seconds or after[name].seconds, was.origin or "import"
        assert after[name] == was._replace(seconds=seconds, origin=origin)
    assert imported.outcomes == dict.fromkeys(before, ImportOutcome.NEW) and after.keys() == before.keys()
    assert sidecars(target) == (set(after) if to_bounded else sidecars(source))
    tuned = target.directory(Kind.EXECUTABLES) / AUTOTUNE_NAME / "ab" / "some.pb"
    assert tuned.read_bytes() == b"tuned"
    check_clean(target)


def test_twice(tmp_path: Path) -> None:
    """A second import of the same finds everything present, and changes nothing of an entry."""
    source = populated(tmp_path / "a")
    archive = packed(source, xla=True)
    target = create_root(tmp_path / "b")
    unpacked(archive, target)
    before = facts(target), tree(target.directory(Kind.EXECUTABLES))
    again = unpacked(archive, target)
    assert again.bytes == 0 and set(again.outcomes.values()) == {ImportOutcome.PRESENT} == set(
        again.neighbours.values()
    )
    assert (facts(target), tree(target.directory(Kind.EXECUTABLES))) == before


def test_digest_is_on_record(tmp_path: Path) -> None:
    """An imported entry has its digest on record, so that a later change of it is found."""
    target = create_root(tmp_path / "b")
    manifest, datas = archive_of((Kind.EXECUTABLES, key(1)))
    brought(target, manifest, datas)
    add(target.directory(Kind.EXECUTABLES), key(1), datas[0][:-1] + bytes([datas[0][-1] ^ 1]))
    with Store(target) as store:
        assert store.ledger.known(Kind.EXECUTABLES)[key(1)].digest == digest(datas[0])
        assert [f.key for f in verify(store, VerifyRequest(grace_ns=0)).findings] == [key(1)]


def test_no_lock_file_is_made(tmp_path: Path) -> None:
    """In an unbounded directory, an import makes no lock file, and only the sidecars of the archive."""
    target = create_root(tmp_path / "b", plain=True)
    brought(target, *archive_of((Kind.EXECUTABLES, key(1))))
    assert sorted(os.listdir(target.path)) == sorted([f"{key(1)}-cache", ".jcache"])
    assert (target.path / f"{key(1)}-cache").stat().st_mtime_ns == NOW


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


def test_future_times(tmp_path: Path) -> None:
    """Times from the future become those of the import, so that the entry can be evicted some day."""
    target = create_root(tmp_path / "b")
    ahead = time.time_ns() + 400 * DAY
    brought(target, *archive_of((Kind.EXECUTABLES, key(1)), created_ns=ahead, recency_ns=ahead, sidecar=True))
    (entry,) = Store(target).entries()
    assert max(entry.created_ns, entry.recency_ns) <= time.time_ns()
    check_clean(target)


# -- what is there already


def test_present_and_equal(tmp_path: Path) -> None:
    """An equal entry stays, and takes over a later use, a pin, and the seconds where none are known."""
    target = create_root(tmp_path / "b")
    names = [(Kind.EXECUTABLES, key(n)) for n in (1, 2)]
    manifest, datas = archive_of(*names, recency_ns=NOW, seconds=7.0, pinned=True, origin="put")
    for (_, a_key), used in zip(sorted(names), (NOW - DAY, NOW + DAY), strict=True):
        add(
            target.directory(Kind.EXECUTABLES),
            a_key,
            content(Kind.EXECUTABLES, a_key),
            used_ns=used,
            written_ns=NOW - DAY,
        )
    with Store(target) as store:
        store.ledger.record([Known(*sorted(names)[1], seconds=3.0, origin="run 1")])
    imported = brought(target, manifest, datas)
    assert set(imported.outcomes.values()) == {ImportOutcome.PRESENT}
    first, second = (facts(target)[name] for name in sorted(names))
    assert (first.recency_ns, first.seconds, first.origin, first.pinned) == (NOW, 7.0, "put", True)
    assert (second.recency_ns, second.seconds, second.origin, second.pinned) == (NOW + DAY, 3.0, "run 1", True)


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


# -- what is refused


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


def test_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive for which the disk has no room, of bytes or of files, is refused before the root is made."""
    manifest, _ = archive_of((Kind.EXECUTABLES, key(1)))
    target = Root(tmp_path / "none" / "yet", plain=False)
    forecast = judge(manifest, Machine(), target.directory(Kind.EXECUTABLES), {})
    for disk in ((1, 10, 10), (10**9, 10, 1)):
        fields = dict(zip(("f_bavail", "f_files", "f_favail"), disk, strict=True), f_frsize=4096)
        monkeypatch.setattr(os, "statvfs", lambda _, fields=fields: SimpleNamespace(**fields))
        with pytest.raises(CannotWrite, match=r"no room for the import: .*(64.0 MiB are to stay free|takes 1 more)"):
            plan_import(manifest, target, forecast)
    assert not target.path.exists()


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


def test_links_are_not_followed(tmp_path: Path, beyond: Path) -> None:
    """Nothing is written through a symbolic link below the root."""
    target = create_root(tmp_path / "b")
    (target.path / "traces-v1").symlink_to(beyond)
    with pytest.raises(CannotWrite):
        brought(target, *archive_of((Kind.TRACES, key(1))))
    source = populated(tmp_path / "a")
    (target.directory(Kind.EXECUTABLES) / AUTOTUNE_NAME).symlink_to(beyond)
    with pytest.raises(CannotWrite):
        unpacked(packed(source, xla=True), target)


def test_a_link_that_comes_meanwhile(tmp_path: Path, beyond: Path) -> None:
    """Nothing is written through a link that is made after the plan."""
    target = create_root(tmp_path / "b")
    manifest, datas = archive_of((Kind.TRACES, key(1)))
    plan = plan_import(manifest, target, judge(manifest, Machine(), target.directory(Kind.EXECUTABLES), {}))
    (target.path / "traces-v1").symlink_to(beyond)
    members = [ArchiveMember(manifest.items[0], "", io.BytesIO(datas[0]).readinto)]
    with Store(target) as store, pytest.raises(CannotWrite):
        execute_plan(plan, members, store, ImportResult())


@needs_openssh
def test_trust(tmp_path: Path) -> None:
    """A required signature must exist, and its signer must be allowed."""
    with pytest.raises(InvalidValue, match="--allowed-signers"):
        check_trust(b"", None, required=True, allowed_signers=None)
    with pytest.raises(Untrusted, match="not signed"):
        check_trust(b"", None, required=True, allowed_signers=tmp_path)
    key = new_key(tmp_path / "key")
    signature = sign(b"manifest", key)
    assert check_trust(b"manifest", signature, required=False, allowed_signers=None).signed
    for wrong in (b"some", sign(b"other", key), signature_by(key, tmp_path, b"manifest", namespace="file")):
        with pytest.raises(Untrusted, match=r"signature|signed"):
            check_trust(b"manifest", wrong, required=False, allowed_signers=None)


def test_future_root(tmp_path: Path) -> None:
    """A root that is not there yet can be planned for; other people's files are no place for one."""
    assert future_root(tmp_path / "new", plain=True) == Root(tmp_path / "new", plain=True)
    (tmp_path / "empty").mkdir()
    assert future_root(tmp_path / "empty", plain=False).path == tmp_path / "empty"
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file"):
        with pytest.raises(NoCacheHere):
            future_root(path, plain=False)


# -- where it ends


def test_torn(tmp_path: Path) -> None:
    """A stream that ends anywhere leaves a clean root, and a second import brings the rest."""
    source = populated(tmp_path / "a", count=150)
    archive = packed(source)
    whole = facts(source)
    for end in range(len(archive) // 5, len(archive), len(archive) // 9):
        target = create_root(tmp_path / str(end))
        with pytest.raises(BadArchive):
            unpacked(archive[:end], target)
        assert facts(target).keys() <= whole.keys()
        check_clean(target)
    there = len(facts(target))
    assert there
    imported = unpacked(archive, target)
    assert imported.count(ImportOutcome.NEW) == len(whole) - there
    assert {n: f.data for n, f in facts(target).items()} == {n: f.data for n, f in whole.items()}


def test_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C leaves all that had come, whole, and nothing else."""
    monkeypatch.setattr(entry_import, "_MAX_BATCH", 2)
    monkeypatch.setattr(write_behind, "_MAX_JOBS", 1)
    monkeypatch.setattr(write_behind, "_MAX_PAGES", 1)
    source, target = populated(tmp_path / "a", count=5), create_root(tmp_path / "b")
    reader, plan = planned(packed(source), target)
    imported, told = ImportResult(), []

    def progress(done: int, total: int) -> None:
        told.append((done, total))
        if len(told) == 8:
            raise KeyboardInterrupt

    with Store(target) as store, pytest.raises(KeyboardInterrupt):
        execute_plan(plan, reader.members(), store, imported, progress=progress)
    assert len(facts(target)) == imported.count(ImportOutcome.NEW) == 8
    check_clean(target)


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


# -- XLA's sub-caches, other codecs, file systems without nameless files


def test_neighbours(tmp_path: Path) -> None:
    """XLA's files that differ stay unless they are to be replaced."""
    source, target = populated(tmp_path / "a"), create_root(tmp_path / "b")
    archive = packed(source, xla=True)
    name = f"{AUTOTUNE_NAME}/ab/some.pb"
    place = target.directory(Kind.EXECUTABLES) / name
    place.parent.mkdir(parents=True)
    place.write_bytes(b"other")
    assert unpacked(archive, target).neighbours == {name: ImportOutcome.DIFFERENT}
    assert place.read_bytes() == b"other"
    assert unpacked(archive, target, replace=True).neighbours == {name: ImportOutcome.REPLACED}
    assert place.read_bytes() == b"tuned"


@pytest.mark.parametrize("page", [100, 4 << 20], ids=["in many pieces", "whole"])
@pytest.mark.parametrize("replace", [False, True])
def test_named_temporaries(tmp_path: Path, replace: bool, page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a file system without nameless files, an import uses temporary names."""
    opened = os.open
    monkeypatch.setattr(write_behind, "_PAGE_BYTES", page)

    def refusing(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "not supported")
        return opened(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", refusing)
    target = create_root(tmp_path / "b")
    manifest, datas = archive_of(*((Kind.EXECUTABLES, key(n)) for n in range(3)))
    add(target.directory(Kind.EXECUTABLES), manifest.items[0].key, b"other")
    datas[1] = b"wrong" + datas[1]
    imported = brought(target, manifest, datas, replace=replace)
    assert list(imported.outcomes.values()).count(ImportOutcome.NEW) == 1
    monkeypatch.undo()
    there = facts(target)[Kind.EXECUTABLES, manifest.items[0].key].data
    assert there == (datas[0] if replace else b"other")
    assert not [path for path in target.path.rglob("*") if TEMPORARY_PREFIX in path.name]


def test_plain_is_told_apart(tmp_path: Path) -> None:
    """An archive of jcache and a plain tar are distinguished."""
    assert isinstance(open_archive(io.BytesIO(packed(populated(tmp_path / "a")))), ArchiveReader)
    assert not isinstance(open_archive(io.BytesIO(tar_of({f"{key(1)}-cache": b"x"}))), ArchiveReader)
