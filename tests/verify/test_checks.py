"""What is wrong with an entry's bytes, and whether the digest on record counts for them."""

import itertools
import os
import shutil
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, strategies as st

from jcache.findings import Damage, Fault, Remedy
from jcache.formats.digest import digest
from jcache.formats.envelope import Codec, seal
from jcache.formats.executable import pack_executable, unpack_executable
from jcache.layout import Kind, Root
from jcache.store import birth_time, files
from jcache.verify import checks, faults
from jcache.verify.checks import CheckResult, Claim, check
from jcache.verify.faults import fault_of
from jcache.verify.permissions import Exposure
from tests.helpers.entries import SECOND, add, executable, key
from tests.helpers.jax_entries import h200_entry, number, text, varint
from tests.helpers.waiting import tick

ZSTD, ZLIB = executable(), executable(codec=Codec.ZLIB)
CPU_BODY = text(1, text(1, text(1, text(1, b"jit_step"))) + number(5, 2)) + text(2, b"")
METADATA = text(2, b"pjrt_ifrt") + text(7, b"jit_step")


def packed(content: bytes, codec: Codec = Codec.ZSTD) -> bytes:
    return pack_executable(content, 1, codec)


def sealed(kind: str = "traces", a_key: str = key(1), payload: bytes = b"a trace " * 50) -> bytes:
    return seal(payload, kind=kind, name="jit_step", key=a_key, build_seconds=1.0, created_ns=1)


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def with_metadata(body: bytes, metadata: bytes = METADATA) -> bytes:
    return packed(varint(len(metadata)) + metadata + body)


def claim(data: bytes | None = None, **more: Any) -> Claim:
    return Claim(Kind.EXECUTABLES, key(1), digest=None if data is None else digest(data), **more)


def damage_of(checked: CheckResult) -> Damage | None:
    return checked.finding.damage if checked.finding else None


@pytest.mark.parametrize("data", [ZSTD, ZLIB, packed(CPU_BODY), with_metadata(CPU_BODY)], ids=itertools.count())
def test_whole_entries_are_sound(data: bytes) -> None:
    """Either codec, with or without metadata, also where the key has no name to compare."""
    assert fault_of(data, Kind.EXECUTABLES, key(1)) is None
    assert fault_of(data, Kind.EXECUTABLES, "0" * 64) is None


@pytest.mark.parametrize("name", ["jit_stage", "jit_bitwise_or", "jit_convert_element_type"])
@pytest.mark.parametrize("codec", [Codec.ZSTD, Codec.ZLIB])
def test_entries_of_a_gpu_are_sound(name: str, codec: Codec) -> None:
    """Real entries of an H200 have nothing wrong with them, in either codec."""
    data = packed(unpack_executable(h200_entry(name)).payload, codec)
    assert fault_of(data, Kind.EXECUTABLES, key(1, name)) is None


@pytest.mark.parametrize(
    ("data", "damage"),
    [
        (b"", Damage.TORN),
        (ZSTD[:9], Damage.TORN),
        (ZSTD[:-5], Damage.TORN),
        (ZLIB[:-5], Damage.TORN),
        (packed(bytes(300_000) + ZLIB * 9)[:60], Damage.TORN),
        (b"junk" * 9, Damage.CODEC),
        (flipped(ZSTD, 1), Damage.CODEC),
        (ZSTD + b"x", Damage.COMPRESSION),
        (ZSTD + ZSTD, Damage.COMPRESSION),
        (ZLIB + b"x", Damage.COMPRESSION),
        (flipped(ZLIB, len(ZLIB) - 1), Damage.COMPRESSION),
        (bytes.fromhex("28b52ffd a0 00000080") + b"\1" * 40, Damage.COMPRESSION),
        (packed(b"\x7fELF" + CPU_BODY[:-1]), Damage.GRAMMAR),
        (with_metadata(CPU_BODY[:-4]), Damage.GRAMMAR),
        (with_metadata(b"\x7fELF" + CPU_BODY, METADATA[:-1]), Damage.GRAMMAR),
        (packed(CPU_BODY.replace(b"step", b"stop")), Damage.NAME),
        (with_metadata(CPU_BODY, METADATA.replace(b"step", b"stop")), Damage.NAME),
    ],
    ids=itertools.count(),
)
def test_damage_has_a_name_and_evidence(data: bytes, damage: Damage) -> None:
    """What ends early is torn; else codec, compression, grammar and name are told apart, each with a sentence."""
    fault = fault_of(data, Kind.EXECUTABLES, key(1))
    assert fault is not None and fault.damage is damage
    assert fault.evidence.endswith(".") and "\n" not in fault.evidence


def test_every_flip_in_a_gpu_body_is_found() -> None:
    """Each chunk of a Riegeli body has a hash, so under zstd, too, no byte of it can change or be missing unnoticed."""
    content = unpack_executable(h200_entry("jit_stage")).payload
    start = content.index(bytes.fromhex("83af70d10d884a3f"))
    for changed in (content[:-20], *(flipped(content, place) for place in range(start, len(content), 37))):
        fault = fault_of(packed(changed), Kind.EXECUTABLES, key(1, "jit_stage"))
        assert fault is not None and fault.damage is Damage.GRAMMAR


BODIES = [b"", b"\0" * 99, b"a serialized TPU program" * 9]
TPU = METADATA + text(9, text(3, text(2, text(2, text(1, b"tpu")))))


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize(
    ("platforms", "damage"), [(None, Damage.OPAQUE), ({"cpu", "tpu"}, Damage.OPAQUE), ({"cpu", "cuda"}, Damage.GRAMMAR)]
)
def test_a_plug_ins_body_is_its_own_affair(body: bytes, platforms: set[str] | None, damage: Damage) -> None:
    """A body that we cannot read is not checked if the metadata name its platform, and never loaded on another one."""
    known = None if platforms is None else frozenset(platforms)
    fault = fault_of(with_metadata(body, TPU), Kind.EXECUTABLES, key(1), platforms=known)
    assert fault is not None and fault.damage is damage and fault.evidence.startswith("It was compiled for tpu, ")
    wrong = fault_of(with_metadata(body, TPU), Kind.EXECUTABLES, key(1, "jit_other"), platforms=known)
    assert wrong is not None and wrong.damage is (Damage.NAME if damage is Damage.OPAQUE else Damage.GRAMMAR)


@given(st.binary(max_size=3000), st.sampled_from([Codec.ZSTD, Codec.ZLIB]))
def test_framed_random_bytes_are_damage(content: bytes, codec: Codec) -> None:
    """What is right in its frame alone is damage, but for a process with a device whose programs we cannot read."""
    data = packed(content, codec)
    found = fault_of(data, Kind.EXECUTABLES, key(1))
    on_cpu = fault_of(data, Kind.EXECUTABLES, key(1), platforms=frozenset({"cpu", "cuda"}))
    assert found == on_cpu and found is not None and found.damage in (Damage.GRAMMAR, Damage.NAME)


@pytest.mark.parametrize("body", BODIES[1:])
def test_a_process_may_tell_what_an_old_jax_did_not(body: bytes) -> None:
    """Without metadata, as before jax 0.9, a body may be of the process's own device; not so one that shows damage."""
    tpu = frozenset({"cpu", "tpu"})
    fault = fault_of(packed(body), Kind.EXECUTABLES, key(1), platforms=tpu)
    assert fault is not None and fault.damage is Damage.OPAQUE
    for damaged in (packed(b"\x7fELF" + body), with_metadata(body), packed(b"\xff" + METADATA + body)):
        fault = fault_of(damaged, Kind.EXECUTABLES, key(1), platforms=tpu)
        assert fault is not None and fault.damage is Damage.GRAMMAR


def test_what_was_not_checked_inside_never_counts_as_passed(plain: Root) -> None:
    """It is no finding, and is told; its digest says nothing of its inside, so that it is looked at each time."""
    add(plain.path, key(1), with_metadata(BODIES[2], TPU))
    checked = check(plain.path, claim())
    assert checked.finding is None and not checked.passed and "tpu" in (checked.opaque or "")
    add(plain.path, key(1), with_metadata(BODIES[1], TPU))
    assert damage_of(check(plain.path, claim(with_metadata(BODIES[2], TPU)))) in (None, Damage.CHANGED)


def test_names_beyond_ascii_are_the_same_name() -> None:
    """XLA keeps only ASCII of a function's name, JAX's key keeps all of it: no damage."""
    data = with_metadata(CPU_BODY, text(2, b"pjrt_ifrt") + text(7, b"jit_gr____e"))
    assert fault_of(data, Kind.EXECUTABLES, key(1, "jit_größe")) is None


@pytest.mark.parametrize("kind", [Kind.TRACES, Kind.GRAPHS])
def test_envelopes_are_sound_only_as_they_were_sealed(kind: Kind) -> None:
    """Any change breaks the seal; another key or kind is another entry's content."""
    data = sealed(kind)
    assert fault_of(data, kind, key(1)) is None
    for damaged in (data + b"x", flipped(data, 3), flipped(data, len(data) - 1), ZSTD):
        fault = fault_of(damaged, kind, key(1))
        assert fault is not None and fault.damage is Damage.SEAL
    for length in (10, 100, len(data) - 1):
        torn = fault_of(data[:length], kind, key(1))
        assert torn is not None and torn.damage in (Damage.TORN, Damage.SEAL)
    other = Kind.GRAPHS if kind is Kind.TRACES else Kind.TRACES
    for wrong in (fault_of(data, kind, key(2)), fault_of(data, other, key(1))):
        assert wrong is not None and wrong.damage is Damage.NAME


def test_quick_does_without_decompression() -> None:
    """The codec is looked at, and the seal of an envelope, which needs none; what a codec holds is not."""
    assert fault_of(ZLIB[:-5], Kind.EXECUTABLES, key(1), quick=True) is None
    junk = fault_of(b"junk", Kind.EXECUTABLES, key(1), quick=True)
    assert junk is not None and junk.damage is Damage.CODEC
    data = sealed()
    assert fault_of(data, Kind.TRACES, key(1), quick=True) is None
    for place in (80, len(data) - 1):
        changed = fault_of(flipped(data, place), Kind.TRACES, key(1), quick=True)
        assert changed is not None and changed.damage is Damage.SEAL


@pytest.mark.parametrize("data", [ZSTD, ZLIB, sealed()], ids=["zstd", "zlib", "envelope"])
@pytest.mark.parametrize("where", ["read", "decompress", "inspect"])
def test_want_of_memory_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, where: str) -> None:
    """What cannot be opened here for want of memory, at whatever point that shows, is left to people."""

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
    """When files were born, as the test says."""
    times: dict[Path, int | None] = {tmp_path: 10}
    monkeypatch.setattr(files, "born_ns", lambda path: times.get(Path(path)))
    return times


def test_a_sound_file(tmp_path: Path) -> None:
    """Its digest, stamp and exposure are told, and that it has passed."""
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
    """Bytes that the disk does not give are not known to be damaged: the advice is what to do by hand."""
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
    monkeypatch.setattr(checks, "fault_of", lambda *_, **__: Fault(Damage.GRAMMAR, "Looked at."))
    assert check(tmp_path, claim(ZSTD, passed=True)).passed
    assert damage_of(check(tmp_path, claim(ZSTD))) is Damage.GRAMMAR
    path.write_bytes(ZLIB)
    assert damage_of(check(tmp_path, claim(ZSTD, passed=True, digest_ns=time.time_ns()))) is Damage.GRAMMAR


def test_other_bytes_than_those_on_record(tmp_path: Path, born: dict[Path, int | None]) -> None:
    """They are damage even if they follow the grammar; if they do not, that is the damage, with both as evidence."""
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
    """Only a file born after the digest is new; in a copied root one that was born later still, and written at once."""
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
    """On this file system: rewritten after removal is new, changed in place is not, nor in a copy."""
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
