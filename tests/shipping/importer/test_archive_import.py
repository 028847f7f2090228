"""Imported entries equal the exported ones, whatever is in the root and wherever the import ends."""

import io
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from jcache.errors import BadArchive, CannotWrite, InvalidValue, Untrusted
from jcache.formats.digest import digest
from jcache.layout import AUTOTUNE_NAME, LOCK_NAME, TEMPORARY_PREFIX, Kind, Root
from jcache.shipping.archive import ArchiveMember, open_archive
from jcache.shipping.archive.manifest import Item, Manifest
from jcache.shipping.archive.reader import ArchiveReader
from jcache.shipping.forecast.judge import judge
from jcache.shipping.forecast.machine import Machine
from jcache.shipping.importer import entry_import, write_behind
from jcache.shipping.importer.archive_import import check_trust, execute_plan, plan_import
from jcache.shipping.importer.outcome import ImportOutcome, ImportResult
from jcache.store.roots import create_root
from jcache.store.store import Store
from jcache.verify.result import VerifyRequest
from jcache.verify.signatures import sign
from jcache.verify.verification import verify
from tests.helpers.entries import NOW, key, tree
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


def test_no_lock_file_is_made(tmp_path: Path) -> None:
    """In an unbounded directory, an import makes no lock file, and only the sidecars of the archive."""
    target = create_root(tmp_path / "b", plain=True)
    brought(target, *archive_of((Kind.EXECUTABLES, key(1))))
    assert sorted(os.listdir(target.path)) == sorted([f"{key(1)}-cache", ".jcache"])
    assert (target.path / f"{key(1)}-cache").stat().st_mtime_ns == NOW


# -- what is there already


# -- what is refused


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


# -- where it ends


@pytest.mark.full
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


# -- XLA's sub-caches, other codecs, file systems without nameless files


def test_plain_is_told_apart(tmp_path: Path) -> None:
    """An archive of jcache and a plain tar are distinguished."""
    assert isinstance(open_archive(io.BytesIO(packed(populated(tmp_path / "a")))), ArchiveReader)
    assert not isinstance(open_archive(io.BytesIO(tar_of({f"{key(1)}-cache": b"x"}))), ArchiveReader)
