"""A file that changed or was damaged since its digest was taken does not go into an archive."""

import json
import os
import random
import shutil
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from jcache.findings import Damage
from jcache.formats.compression import Codec
from jcache.formats.executable import pack_executable
from jcache.layout import Kind, Root
from jcache.shipping.exporter import export as export_module, survey as survey_module
from jcache.shipping.exporter.export import PreparedExport, prepare_export, write_archive
from jcache.shipping.exporter.scan import ScanRequest, scan_entries
from jcache.shipping.exporter.selection import ExportRequest
from jcache.shipping.exporter.sink import DescriptorSink
from jcache.store.roots import open_root
from jcache.store.store import Store
from jcache.verify import verification
from jcache.verify.result import VerifyRequest as VerifyRequest
from tests.helpers.command_line import call
from tests.helpers.entries import NOW, add, executable, key, xla_program
from tests.shipping.exporter.test_export import members

LATER = 3600 * 10**9
buffers = pytest.mark.parametrize("buffer", [16, 4 << 20], ids=["larger than the buffer", "whole"])


@pytest.fixture
def known(plain: Root) -> Root:
    """A root of three executables that are on record as sound."""
    for i in range(3):
        add(plain.path, key(i), executable(i), written_ns=NOW)
    prepared_of(plain)
    return plain


def prepared_of(root: Root) -> PreparedExport:
    with Store(root) as store:
        return prepare_export(store, ExportRequest())


def read_meanwhile(monkeypatch: pytest.MonkeyPatch, root: Root) -> tuple[PreparedExport, set[str]]:
    """Return a prepared export, and the keys of the entries that were read for it."""
    found: set[str] = set()

    def noted(directories: Any, wanted: Sequence[ScanRequest], **more: Any) -> Any:
        found.update(one.claim.key for one in wanted)
        return scan_entries(directories, wanted, **more)

    monkeypatch.setattr(survey_module, "scan_entries", noted)
    return prepared_of(root), found


def archive_of(prepared: PreparedExport) -> bytes:
    stream = BytesIO()
    write_archive(prepared, stream)
    return stream.getvalue()


def lose_a_bit(root: Root, number: int, *, at: int = -3, bit: int = 0) -> Path:
    """Flip a bit of an entry without changing the file's times, as a failing disk does."""
    path = root.path / f"{key(number)}-cache"
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)
    os.utime(path, ns=(NOW, NOW))
    with Store(root) as store:
        known = store.ledger.known(Kind.EXECUTABLES)[key(number)]
        store.ledger.record([known._replace(hits=0, digest_ns=time.time_ns() + LATER)])
    return path


@buffers
def test_what_is_on_record_is_read_once(known: Root, monkeypatch: pytest.MonkeyPatch, buffer: int) -> None:
    """Entries that are on record and unchanged are not read for the manifest; the archive is the same, byte by byte."""
    shutil.rmtree(known.state)
    first, is_read = read_meanwhile(monkeypatch, known)
    assert is_read == {key(i) for i in range(3)}
    expected = archive_of(first)
    prepared, is_read = read_meanwhile(monkeypatch, known)
    assert not is_read
    monkeypatch.setattr(export_module, "BUFFER_BYTES", buffer)
    assert archive_of(prepared) == expected and not prepared.findings


def test_what_is_not_as_on_record_is_read_first(known: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """New and changed entries are checked before the manifest is written."""
    add(known.path, key(7), executable(7), written_ns=NOW)
    (known.path / f"{key(1)}-cache").chmod(0o600)
    assert read_meanwhile(monkeypatch, known)[1] == {key(1), key(7)}
    assert read_meanwhile(monkeypatch, known)[1] == set()


@pytest.mark.parametrize("how", ["written anew", "removed"])
def test_a_change_in_between_is_no_damage(known: Root, how: str) -> None:
    """An unread entry that is removed or written again before it is sent is omitted, and is no finding."""
    prepared = prepared_of(known)
    path = known.path / f"{key(1)}-cache"
    path.unlink()
    if how == "written anew":
        path.write_bytes(b"torn")
    exported = write_archive(prepared, BytesIO())
    assert exported.omitted == (("executables", key(1)),) and not prepared.findings


SIZES = (900, 200_000, 5_000_000)  # joined with its header, read as a whole, larger than the buffer


@pytest.fixture(scope="module")
def of_all_sizes(tmp_path_factory: pytest.TempPathFactory) -> Root:
    """Return a root with an executable of each size, recorded as sound."""
    path = tmp_path_factory.mktemp("sizes") / "cache"
    path.mkdir()
    for i, size in enumerate(SIZES):
        program = xla_program(random.Random(i).randbytes(size))
        add(path, key(i), pack_executable(program, 3, Codec.ZSTD), written_ns=NOW)
    root = open_root(path)
    prepared_of(root)
    return root


class Piped:
    """Writes an export into a pipe and returns its bytes."""

    def __init__(self, prepared: PreparedExport) -> None:
        read, end = os.pipe()
        with ThreadPoolExecutor(1) as pool, open(read, "rb") as stream:
            received = pool.submit(stream.read)
            self.exported = write_archive(prepared, DescriptorSink(end, "there"))  # type: ignore[arg-type]
            os.close(end)
            self.members = members(received.result())


@settings(max_examples=20, deadline=None)
@given(st.integers(0, len(SIZES) - 1), st.floats(0, 1, exclude_max=True), st.integers(0, 7))
def test_no_lost_bit_is_sent(of_all_sizes: Root, number: int, where: float, bit: int) -> None:
    """Whichever bit a disk has lost of an entry on record, no byte of the entry is in the archive: it is a finding."""
    path = of_all_sizes.path / f"{key(number)}-cache"
    data = path.read_bytes()
    lose_a_bit(of_all_sizes, number, at=int(where * len(data)), bit=bit)
    try:
        prepared = prepared_of(of_all_sizes)
        assert len(prepared.sources) == len(SIZES) and not prepared.findings
        piped = Piped(prepared)
    finally:
        path.write_bytes(data)
    assert (piped.exported.entries, piped.exported.omitted) == (len(SIZES) - 1, ())
    assert [(finding.path, finding.damage is Damage.UNREADABLE) for finding in prepared.findings] == [(path, False)]
    assert json.loads(piped.members["trailer.json"]) == {"omitted": [["executables", key(number)]]}
    entries = {f"executables/{key(i)}-cache" for i in {*range(len(SIZES))} - {number}}
    assert set(piped.members) == {"manifest.json", "manifest.json.digest", "trailer.json", *entries}


def test_the_sender_tells(known: Root, tmp_path: Path) -> None:
    """Export names the damaged entry and ends with 3; import notes that it is omitted and succeeds."""
    lose_a_bit(known, 1)
    archive, target = tmp_path / "archive", tmp_path / "target"
    jcache = (sys.executable, "-m", "jcache")
    sent = call([*jcache, "export", "--root", str(known.path), "-o", str(archive)])
    assert sent.code == 3 and "Damaged" in sent.err and "1 damaged entry not exported" in sent.err
    received = call([*jcache, "import", "--root", str(target), str(archive)])
    assert received.code == 0 and "1 omitted by the archive" in received.out


def test_what_verify_has_found_damaged_is_not_taken_for_sound(known: Root) -> None:
    """An entry is read first whenever the last check has found something, though the ledger has its digest."""
    lose_a_bit(known, 1)
    with Store(known) as store:
        assert verification.verify(store, VerifyRequest()).findings
    prepared = prepared_of(known)
    assert [finding.path for finding in prepared.findings] == [known.path / f"{key(1)}-cache"]
    assert [item.key for item in prepared.manifest.items] == [key(0), key(2)]
