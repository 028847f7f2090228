"""Files that go into an archive without having been read before."""

import fcntl
import json
import os
import random
import shlex
import sys
import termios
import threading
import time
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path

import pytest

from jcache.entry import SETTLED_NS
from jcache.findings import Damage
from jcache.formats.compression import Codec
from jcache.formats.envelope import pack_executable
from jcache.layout import Kind, Root
from jcache.shipping.exporter import export as export_module
from jcache.shipping.exporter.export import Exported, Prepared, Request, prepare, write
from jcache.shipping.exporter.sink import OpenSink, Piece
from jcache.store.store import Store
from jcache.verify import verification
from tests.helpers.command_line import call
from tests.helpers.entries import NOW, add, executable, key, xla_program
from tests.helpers.waiting import LIMIT_S
from tests.shipping.exporter.test_export import members

LATER = 3600 * 10**9
buffers = pytest.mark.parametrize("buffer", [16, 4 << 20], ids=["larger than the buffer", "whole"])


@pytest.fixture
def known(plain: Root) -> Root:
    """A root of three executables that are on record as sound."""
    for i in range(3):
        add(plain.path, key(i), executable(i), written_ns=NOW)
    prepared_of(plain, once=False)
    return plain


def prepared_of(root: Root, *, once: bool = True) -> Prepared:
    with Store(root) as store:
        return prepare(store, Request(once=once))


def archive_of(prepared: Prepared) -> bytes:
    stream = BytesIO()
    write(prepared, stream)
    return stream.getvalue()


def lose_a_bit(root: Root, number: int) -> Path:
    """Has a disk lose a bit of an entry, which no time of the file tells."""
    path = root.path / f"{key(number)}-cache"
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(NOW, NOW))
    with Store(root) as store:
        known = store.ledger.known(Kind.EXECUTABLES)[key(number)]
        store.ledger.record([known._replace(hits=0, digest_ns=time.time_ns() + LATER)])
    return path


@buffers
def test_what_is_on_record_is_read_once(known: Root, monkeypatch: pytest.MonkeyPatch, buffer: int) -> None:
    """Entries that are on record and unchanged are not read for the manifest; the archive is the same, byte by byte."""
    expected = archive_of(prepared_of(known, once=False))
    prepared = prepared_of(known)
    assert all(source.unread for source in prepared.sources)
    monkeypatch.setattr(export_module, "AT_ONCE", buffer)
    assert archive_of(prepared) == expected and not prepared.findings


def test_what_is_not_as_on_record_is_read_first(known: Root) -> None:
    """What is new, or was changed since, is checked before anything is promised."""
    add(known.path, key(7), executable(7), written_ns=NOW)
    (known.path / f"{key(1)}-cache").chmod(0o600)
    unread = [Path(source.path).name for source in prepared_of(known).sources if source.unread]
    assert sorted(unread) == sorted(f"{key(i)}-cache" for i in (0, 2))
    assert all(source.unread for source in prepared_of(known).sources)


@buffers
def test_a_lost_bit_stays_behind(known: Root, monkeypatch: pytest.MonkeyPatch, buffer: int) -> None:
    """Damage that only the second look finds is a finding, and no byte of the entry is in the archive."""
    path = lose_a_bit(known, 1)
    prepared = prepared_of(known)
    assert len(prepared.sources) == 3 and not prepared.findings
    monkeypatch.setattr(export_module, "AT_ONCE", buffer)
    stream = BytesIO()
    exported = write(prepared, stream)
    found = members(stream.getvalue())
    assert (exported.entries, exported.omitted) == (2, ())
    assert [(finding.path, finding.damage is Damage.UNREADABLE) for finding in prepared.findings] == [(path, False)]
    assert json.loads(found["trailer.json"]) == {"omitted": [["executables", key(1)]]}
    entries = {f"executables/{key(i)}-cache" for i in (0, 2)}
    assert set(found) == {"manifest.json", "manifest.json.digest", "trailer.json", *entries}


@pytest.mark.parametrize("how", ["written anew", "removed"])
def test_a_change_in_between_is_no_damage(known: Root, how: str) -> None:
    """An unread entry that goes, or is written anew, before it is sent is omitted, and is no finding."""
    prepared = prepared_of(known)
    path = known.path / f"{key(1)}-cache"
    path.unlink()
    if how == "written anew":
        path.write_bytes(b"torn")
    exported = write(prepared, BytesIO())
    assert exported.omitted == (("executables", key(1)),) and not prepared.findings


def overwritten(path: Path) -> None:
    """Another byte in the middle, in the same file."""
    with path.open("r+b") as file:
        file.seek(300_000)
        file.write(b"?")


def replaced(path: Path) -> None:
    path.with_suffix(".new").write_bytes(b"another one")
    path.with_suffix(".new").replace(path)


@pytest.mark.parametrize(
    ("change", "is_sent"),
    [(overwritten, False), (replaced, True), (Path.unlink, True), (Path.touch, True)],
    ids=["written to", "replaced", "removed", "used"],
)
def test_a_change_while_it_waits_in_a_pipe(plain: Root, change: Callable[[Path], object], is_sent: bool) -> None:
    """An entry that is written to when the pipe has it, and its reader has not, is omitted; what else happens to the
    file then is no matter.
    """
    contents = [pack_executable(xla_program(random.Random(i).randbytes(800_000)), 3, Codec.ZSTD) for i in range(4)]
    paths = [add(plain.path, key(i), data, written_ns=NOW) for i, data in enumerate(contents)]
    prepared_of(plain, once=False)
    prepared = prepared_of(plain)
    read, end = os.pipe()
    exported: list[Exported] = []
    is_in_the_pipe, is_changed = threading.Event(), threading.Event()

    class Stopping(OpenSink):
        """Waits with the second file, when the pipe has all of the first."""

        def writelines(self, pieces: Sequence[Piece]) -> None:
            if self.written >= len(contents[0]):
                is_in_the_pipe.set()
                assert is_changed.wait(LIMIT_S)
            super().writelines(pieces)

    def export() -> None:
        exported.append(write(prepared, Stopping(end, "there")))  # type: ignore[arg-type]
        os.close(end)

    sender = threading.Thread(target=export)
    sender.start()
    assert is_in_the_pipe.wait(LIMIT_S)
    waiting = int.from_bytes(fcntl.ioctl(read, termios.FIONREAD, bytes(4)), sys.byteorder)
    assert waiting >= len(contents[0])
    first = min(paths)
    change(first)
    is_changed.set()
    with open(read, "rb") as stream:
        found = members(stream.read())
    sender.join()
    omitted = [] if is_sent else [["executables", first.name.removesuffix("-cache")]]
    assert json.loads(found["trailer.json"]) == {"omitted": omitted}
    assert (exported[0].entries, len(exported[0].omitted)) == (4 - len(omitted), len(omitted))
    is_whole = found[f"executables/{first.name}"] == contents[paths.index(first)]
    assert is_whole or not is_sent


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
        assert verification.verify(store, verification.Request()).findings
    prepared = prepared_of(known)
    assert [finding.path for finding in prepared.findings] == [known.path / f"{key(1)}-cache"]
    assert [item.key for item in prepared.manifest.items] == [key(0), key(2)]


def test_what_a_disk_loses_on_its_way_into_a_pipe_is_seen_by_who_takes_it(plain: Root, tmp_path: Path) -> None:
    """What is on record goes unread into a pipe; import refuses what has another digest, and takes the rest."""
    for i in range(4):
        content = xla_program(random.Random(i).randbytes(800_000))
        add(plain.path, key(i), pack_executable(content, 3, Codec.ZSTD), written_ns=NOW)
    jcache = f"{shlex.quote(sys.executable)} -m jcache"
    assert call(["sh", "-c", f"{jcache} export --root {plain.path} | cat >{tmp_path}/before"]).code == 0
    first = min(range(4), key=key)
    lose_a_bit(plain, first)
    late = f"from jcache import clock, cli; clock.now_ns = lambda: {time.time_ns() + 2 * SETTLED_NS}; cli.main()"
    export = f"{shlex.quote(sys.executable)} -c {shlex.quote(late)} export --root {plain.path}"
    target = tmp_path / "target"
    done = call(["sh", "-c", f"{export} | {jcache} import --root {target} -"])
    assert done.code == 3 and "3 entries" in done.out and "Its digest" in done.out, done.out
    assert {path.name for path in target.rglob("*-cache")} == {f"{key(i)}-cache" for i in {*range(4)} - {first}}
