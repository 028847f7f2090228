"""Faults in an entry's bytes, and whether the recorded digest applies to them."""

import os
import shutil
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
import zstandard

from jcache.findings import Damage, Fault, Remedy
from jcache.formats.digest import digest
from jcache.formats.envelope import Codec, seal
from jcache.formats.executable import pack_executable
from jcache.layout import Kind, Root
from jcache.store import birth_time, files
from jcache.verify import checks, faults
from jcache.verify.checks import CheckResult, Claim, check
from jcache.verify.permissions import Exposure
from tests.helpers.entries import SECOND, add, executable, key
from tests.helpers.jax_entries import text, varint
from tests.helpers.waiting import tick

ZSTD, ZLIB = executable(), executable(codec=Codec.ZLIB)
METADATA = text(2, b"pjrt_ifrt") + text(7, b"jit_step")


def packed(content: bytes, codec: Codec = Codec.ZSTD) -> bytes:
    return pack_executable(content, 1, codec)


def sealed(kind: str = "traces", a_key: str = key(1), payload: bytes = b"a trace " * 50) -> bytes:
    return seal(payload, kind=kind, name="jit_step", key=a_key, build_seconds=1.0, created_ns=1)


def with_metadata(body: bytes, metadata: bytes = METADATA) -> bytes:
    return packed(varint(len(metadata)) + metadata + body)


def claim(data: bytes | None = None, **more: Any) -> Claim:
    return Claim(Kind.EXECUTABLES, key(1), digest=None if data is None else digest(data), **more)


def damage_of(checked: CheckResult) -> Damage | None:
    return checked.finding.damage if checked.finding else None


BODIES = [b"", b"\0" * 99, b"a serialized TPU program" * 9]
TPU = METADATA + text(9, text(3, text(2, text(2, text(1, b"tpu")))))


def test_what_was_not_checked_inside_never_counts_as_passed(plain: Root) -> None:
    """Content that cannot be read is reported, but is no finding; it is checked again each time, whatever its
    digest.
    """
    add(plain.path, key(1), with_metadata(BODIES[2], TPU))
    checked = check(plain.path, claim())
    assert checked.finding is None and not checked.passed and "tpu" in (checked.opaque or "")
    add(plain.path, key(1), with_metadata(BODIES[1], TPU))
    assert damage_of(check(plain.path, claim(with_metadata(BODIES[2], TPU)))) in (None, Damage.CHANGED)


@pytest.mark.parametrize("data", [ZSTD, ZLIB, sealed()], ids=["zstd", "zlib", "envelope"])
@pytest.mark.parametrize("where", ["read", "decompress", "inspect"])
def test_want_of_memory_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, where: str) -> None:
    """An entry that does not fit into memory, at whatever point, is left to people."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise MemoryError

    kind = Kind.TRACES if data[:1] == b"\x89" else Kind.EXECUTABLES
    add(tmp_path, key(1), data)
    if where == "read":
        monkeypatch.setattr(files, "read", refuse)
    elif where == "decompress":
        monkeypatch.setattr(zstandard, "frame_content_size", refuse)
        monkeypatch.setattr(zlib, "decompressobj", refuse)
    else:
        monkeypatch.setattr(faults, "inspect" if kind is Kind.EXECUTABLES else "unseal", refuse)
    assert damage_of(check(tmp_path, Claim(kind, key(1)))) is Damage.UNREADABLE


# -- files, and the digest on record


@pytest.fixture
def born(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[Path, int | None]:
    """Make files report the creation times that the test sets."""
    times: dict[Path, int | None] = {tmp_path: 10}
    monkeypatch.setattr(birth_time, "born_ns", lambda path: times.get(Path(path)))
    return times


def test_a_sound_file(tmp_path: Path) -> None:
    """A sound file passes; its digest, stamp and exposure are returned."""
    path = add(tmp_path, key(1), ZSTD, written_ns=5 * SECOND)
    status = path.lstat()
    checked, quick = check(tmp_path, claim()), check(tmp_path, claim(), quick=True)
    assert (checked.claim, checked.digest, checked.exposure) == (claim(), digest(ZSTD), Exposure.of(status))
    assert checked.stamp == (len(ZSTD), 5 * SECOND, status.st_ino) and checked.taken_ns == status.st_ctime_ns
    assert checked.passed and not (checked.finding or checked.gone or checked.being_written or checked.rewritten)
    assert not quick.passed and quick.finding is None and quick.digest == checked.digest
    path.rename(tmp_path / key(1))
    assert check(tmp_path, claim()).gone


@pytest.mark.parametrize("what", ["directory", "symbolic link", "special file"])
def test_only_files_are_entries(tmp_path: Path, what: str) -> None:
    """A directory, link or FIFO with an entry's name is a finding, and is neither opened nor followed."""
    path = tmp_path / claim().file_name
    if what == "directory":
        path.mkdir()
    elif what == "symbolic link":
        path.symlink_to(tmp_path)
    else:
        os.mkfifo(path)
    checked = check(tmp_path, claim())
    assert checked.finding and checked.finding.damage is Damage.NOT_A_FILE and what in checked.finding.evidence


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), OSError(5, "Input/output error")])
def test_what_cannot_be_read_is_left_to_people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    """Bytes that the disk does not return are not known to be damaged: the advice says what to do by hand."""
    add(tmp_path, key(1), ZSTD)

    def refuse(_: object) -> bytes:
        raise error

    monkeypatch.setattr(files, "read", refuse)
    finding = check(tmp_path, claim()).finding
    assert finding and (finding.damage, finding.remedy) == (Damage.UNREADABLE, Remedy.BY_HAND)
    assert finding.advice and str(error.strerror) in finding.evidence


def test_what_changes_meanwhile_is_not_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that grows while it is read is being written."""
    path, read = add(tmp_path, key(1), ZSTD[:20]), files.read

    def slowly(name: str | Path) -> bytes:
        data = read(name)
        path.write_bytes(ZSTD)
        return data

    monkeypatch.setattr(files, "read", slowly)
    checked = check(tmp_path, claim())
    assert checked.being_written and checked.finding is None and path.read_bytes() == ZSTD


def test_known_bytes_are_not_decompressed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes of a digest that has passed all checks have passed; without that, or with other bytes, all are made."""
    path = add(tmp_path, key(1), ZSTD)
    monkeypatch.setattr(checks, "examine", lambda *_, **__: (Fault(Damage.GRAMMAR, "Looked at."), None))
    assert check(tmp_path, claim(ZSTD, passed=True)).passed
    assert damage_of(check(tmp_path, claim(ZSTD))) is Damage.GRAMMAR
    path.write_bytes(ZLIB)
    assert damage_of(check(tmp_path, claim(ZSTD, passed=True, digest_ns=time.time_ns()))) is Damage.GRAMMAR


def test_other_bytes_than_those_on_record(tmp_path: Path, born: dict[Path, int | None]) -> None:
    """Bytes with another digest are damage even if they are well-formed; if not, the evidence names both faults."""
    path = add(tmp_path, key(1), executable(4))
    born[path] = 20
    checked = check(tmp_path, claim(ZSTD, digest_ns=30, passed=True))
    assert checked.finding and checked.finding.damage is Damage.CHANGED and not checked.passed
    assert (checked.finding.digest, checked.finding.expected) == (digest(executable(4)), digest(ZSTD))
    path.write_bytes(ZSTD[:-5])
    finding = check(tmp_path, claim(ZSTD, digest_ns=30)).finding
    assert finding and finding.damage is Damage.TORN and digest(ZSTD)[:16] in finding.evidence


@pytest.mark.parametrize(
    ("file_ns", "written_ns", "copied_ns", "anew"),
    [
        (40, 40, None, True),
        (30, 30, None, False),
        (20, 40, None, False),
        (None, 40, None, False),
        (40, 40, 35, False),
        (40, 20, 35, False),
        (35 + 3 * SECOND, 36 + 3 * SECOND, 35, True),
        (35 + 3 * SECOND, 35 + 30 * SECOND, 35, False),
        (35 + 3 * SECOND, 20, 35, False),
        (40, 40, 25, True),
    ],
    ids=[
        "born after", "born then", "changed in place", "no birth of the file", "copied with the ledger",
        "copied with its time", "written after the copy", "changed in the copy", "copied late with its time",
        "recorded after the copy",
    ],
)  # fmt: skip
def test_a_file_written_anew_is_another_one(
    tmp_path: Path,
    born: dict[Path, int | None],
    file_ns: int | None,
    written_ns: int,
    copied_ns: int | None,
    anew: bool,
) -> None:
    """Only a file created after the digest is new; in a copied root, only one created later still and written
    at once.
    """
    path = add(tmp_path, key(1), executable(4), written_ns=written_ns)
    born[path] = file_ns
    checked = check(tmp_path, claim(ZSTD, digest_ns=30, copied_ns=copied_ns, passed=True))
    assert checked.rewritten is anew and checked.passed is anew
    assert damage_of(checked) is (None if anew else Damage.CHANGED)


def test_what_is_written_anew_is_checked_in_full(tmp_path: Path, born: dict[Path, int | None]) -> None:
    """A new file is no excuse for a damaged one."""
    born[add(tmp_path, key(1), ZSTD[:-5])] = 40
    assert damage_of(check(tmp_path, claim(ZSTD, digest_ns=30, passed=True))) is Damage.TORN


def test_real_births_tell_a_rewrite_from_a_change_and_a_copy(tmp_path: Path) -> None:
    """On this file system, a file written again after a removal is new; one changed in place, or in a copy, is not."""
    directory = tmp_path / "d"
    path = add(directory, key(1), ZSTD)
    if birth_time.born_ns(path) is None:
        pytest.skip("this file system does not tell when files were born")
    tick()
    known = claim(ZSTD, digest_ns=time.time_ns())
    tick()
    copy = Path(shutil.copytree(directory, tmp_path / "copy"))
    path.write_bytes(executable(4))
    assert damage_of(check(directory, known)) is Damage.CHANGED
    path.unlink()
    tick()
    add(directory, key(1), executable(4))
    assert check(directory, known).rewritten
    (copy / path.name).write_bytes(executable(4))
    assert damage_of(check(copy, known._replace(copied_ns=birth_time.born_ns(copy)))) is Damage.CHANGED
