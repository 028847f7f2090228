"""A scan checks, hashes and inspects each entry in one reading, and only hashes entries that are on record."""

import os
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from jcache.findings import Damage
from jcache.formats.digest import digest, digest_of_file
from jcache.formats.envelope import seal
from jcache.layout import Kind
from jcache.shipping.exporter import scan
from jcache.shipping.exporter.scan import ScanRequest, hash_file, open_regular, scan_entries, scan_entry
from jcache.store import files
from jcache.verify.checks import Claim
from tests.helpers.entries import add, executable, key

EXECUTABLES = Kind.EXECUTABLES


def on_record(data: bytes) -> ScanRequest:
    """An entry that is on record as sound, and remembered inside."""
    return ScanRequest(Claim(EXECUTABLES, key(1), digest=digest(data), passed=True), len(data), understood=True)


def test_a_digest_in_pieces(tmp_path: Path) -> None:
    """A file has the digest that it has at once, and a mark that changes with it."""
    path = tmp_path / "file"
    path.write_bytes(data := os.urandom(3_000_000))
    first = hash_file(path)
    assert first is not None and first[1] == digest(data)
    assert hash_file(path) == first
    path.chmod(0o600)  # a change that neither size nor modification time tells
    assert (again := hash_file(path)) is not None and again[0] != first[0]


def test_a_file_that_changes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is written while it is read has no digest."""
    path = tmp_path / "file"
    path.write_bytes(b"x")

    def slowly(file: FileIO) -> str:
        path.write_bytes(b"longer")
        return digest_of_file(file)

    monkeypatch.setattr(scan, "digest_of_file", slowly)
    assert hash_file(path) is None


@pytest.mark.parametrize("what", ["link", "fifo", "directory", "nothing"])
def test_only_files_are_opened(tmp_path: Path, what: str) -> None:
    """Links, pipes and directories are neither opened nor waited for."""
    path = tmp_path / "entry"
    (tmp_path / "file").write_bytes(b"x")
    if what == "link":
        path.symlink_to("file")
    elif what == "fifo":
        os.mkfifo(path)
    elif what == "directory":
        path.mkdir()
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError):
        open_regular(path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_is_on_record_is_only_hashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that passed all checks and are recorded are only hashed."""
    add(tmp_path, key(1), data := executable())
    monkeypatch.setattr(scan, "check_and_read", lambda *_: pytest.fail("it was checked"))
    seen = scan_entry(tmp_path, on_record(data))
    assert (seen.checked.digest, seen.checked.passed, seen.content) == (digest(data), True, None)


@pytest.mark.parametrize("change", [b"", b"\x28\xb5\x2f\xfd", executable()[:-1], executable(seconds=4)])
def test_other_bytes_than_on_record(tmp_path: Path, change: bytes) -> None:
    """Bytes that are not those on record are checked in full."""
    add(tmp_path, key(1), change, written_ns=10**18)
    seen = scan_entry(tmp_path, on_record(executable()))
    assert seen.checked.finding is not None or seen.checked.rewritten


def test_executables_are_opened_once_for_all(tmp_path: Path) -> None:
    """Entries without a record are read once, and their content is returned."""
    add(tmp_path, key(1), data := executable(7))
    seen = scan_entry(tmp_path, ScanRequest(Claim(EXECUTABLES, key(1)), len(data), understood=False))
    assert seen.content is not None and (seen.content.digest, seen.content.seconds) == (digest(data), 7)
    assert seen.checked.passed and seen.checked.finding is None


def test_envelopes(tmp_path: Path) -> None:
    """The header of a trace or graph yields its seconds, and those of its parents that are keys."""
    data = seal(
        b"payload", kind="traces", name="f", key=key(1), build_seconds=2.5, created_ns=1, parents=(key(2), "../x")
    )
    add(tmp_path, key(1), data)
    seen = scan_entry(tmp_path, ScanRequest(Claim(Kind.TRACES, key(1)), len(data), understood=False))
    assert (seen.seconds, seen.parents, seen.content) == (2.5, (key(2),), None)


def test_gone_and_damaged(tmp_path: Path) -> None:
    """Missing and damaged entries are reported."""
    wanted = ScanRequest(Claim(EXECUTABLES, key(1)), 1, understood=False)
    assert scan_entry(tmp_path, wanted).checked.gone
    add(tmp_path, key(1), b"no entry")
    finding = scan_entry(tmp_path, wanted).checked.finding
    assert finding is not None and finding.damage is Damage.CODEC


@pytest.mark.parametrize("kind", [EXECUTABLES, Kind.TRACES])
def test_what_is_described_are_the_bytes_that_were_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """An entry is read once, so that one which is written again after its check is described as it was checked."""
    data = executable(1) if kind is EXECUTABLES else seal(
        b"payload", kind="traces", name="f", key=key(1), build_seconds=1.0, created_ns=1
    )  # fmt: skip
    path, read = add(tmp_path, key(1), data, written_ns=10**18), files.read

    def once(*arguments: Any, **more: Any) -> bytes:
        found = read(*arguments, **more)
        monkeypatch.setattr(files, "read", lambda *_, **__: pytest.fail("it was read again"))
        return found

    monkeypatch.setattr(files, "read", once)
    seen = scan_entry(tmp_path, ScanRequest(Claim(kind, key(1)), 1, understood=False))
    assert seen.checked.digest == digest(path.read_bytes())
    assert seen.seconds == 1.0 if seen.content is None else seen.content.seconds == 1


@pytest.mark.parametrize("processes", [1, 2])
def test_all_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int) -> None:
    """Batches come in order, each with its bytes, for any number of processes."""
    monkeypatch.setattr(scan, "_MIN_PARALLEL_BYTES", 0)
    monkeypatch.setattr(scan, "_BATCH_ENTRIES", 3)
    wanted = []
    for i in range(8):
        add(tmp_path, key(i), executable(i))
        wanted.append(ScanRequest(Claim(EXECUTABLES, key(i)), 10, understood=False))
    found = list(scan_entries({EXECUTABLES: tmp_path}, wanted, processes=processes))
    assert [size for size, _ in found] == [30, 30, 20]
    assert [seen.checked.claim.key for _, some in found for seen in some] == [key(i) for i in range(8)]
    assert list(scan_entries({EXECUTABLES: tmp_path}, [], processes=processes)) == []
