"""Export writes the selected entries, whole and unchanged; tarfile and zstandard read the archives here."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import zstandard

from jcache import clock
from jcache.admin.selection import Selection
from jcache.errors import JcacheError
from jcache.findings import Damage
from jcache.formats.digest import digest
from jcache.formats.envelope import Codec, seal
from jcache.formats.executable import pack_executable
from jcache.layout import Kind, Root
from jcache.shipping.archive.manifest_codec import decode
from jcache.shipping.exporter import export as export_module, scan, send
from jcache.shipping.exporter.export import (
    ExportResult,
    PreparedExport,
    count_key_directories,
    prepare_export,
    write_archive,
)
from jcache.shipping.exporter.selection import ExportRequest
from jcache.store.ledger import Known
from jcache.store.store import Store
from tests.helpers.entries import (
    DAY,
    NOW,
    SECOND,
    add,
    copied,
    executable,
    key,
    mounted_read_only,
    process,
    tree,
    xla_program,
)
from tests.helpers.jax_entries import H200

HOUR = 3600 * SECOND


def members(data: bytes) -> dict[str, bytes]:
    """The members of an archive, in order."""
    plain = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()
    with tarfile.open(fileobj=BytesIO(plain)) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]


def incompressible(megabytes: int) -> bytes:
    """An executable that no compression makes smaller."""
    return pack_executable(xla_program(os.urandom(megabytes * 1_000_000)), 1, Codec.ZSTD)


def quiet(root: Root) -> None:
    """Makes everything an hour older than now."""
    for path in root.path.rglob("*-cache"):
        os.utime(path, ns=(time.time_ns() - HOUR,) * 2)


@pytest.fixture
def filled(native: Root) -> Root:
    """Return a root with three executables, one of them with a sidecar, a trace and a graph."""
    directory = native.directory(Kind.EXECUTABLES)
    for i in range(3):
        add(directory, key(i), executable(i), used_ns=NOW + i if i == 2 else None, written_ns=NOW + DAY * i)
    for kind, number in ((Kind.TRACES, 3), (Kind.GRAPHS, 4)):
        parents = (key(9), "no key") if kind is Kind.TRACES else ()
        data = seal(
            b"payload" * 9, kind=kind, name="f", key=key(number), build_seconds=1.5, created_ns=1, parents=parents
        )
        add(native.directory(kind), key(number), data, written_ns=NOW)
    return native


def prepared_of(root: Root, request: ExportRequest | None = None) -> PreparedExport:
    with Store(root) as store:
        found = prepare_export(store, request or ExportRequest())
        assert not store.notices
        return found


def written(prepared: PreparedExport, **more: Any) -> tuple[dict[str, bytes], ExportResult]:
    stream = BytesIO()
    exported = write_archive(prepared, stream, **more)
    return members(stream.getvalue()), exported


def keys_of(prepared: PreparedExport) -> set[str]:
    return {item.key for item in prepared.manifest.items}


class TestManifest:
    def test_an_archive_of_all(self, filled: Root) -> None:
        """The manifest comes first, then the entries in its order, byte by byte, then the trailer."""
        prepared = prepared_of(filled)
        found, exported = written(prepared)
        manifest = decode(found["manifest.json"])
        assert manifest == prepared.manifest
        places = [(item.kind, item.key) for item in manifest.items]
        assert places == sorted(places) and len(places) == 5
        assert list(found) == [
            "manifest.json", "manifest.json.digest",
            *sorted(f"executables/{key(i)}-cache" for i in range(3)), f"graphs-v1/{key(4)}-cache",
            f"traces-v1/{key(3)}-cache", "trailer.json",
        ]  # fmt: skip
        assert all(found[name] == (filled.path / name).read_bytes() for name in list(found)[2:-1])
        assert json.loads(found["trailer.json"]) == {"omitted": []}
        assert exported == ExportResult(entries=5, neighbours=0, bytes=prepared.bytes, omitted=())
        assert (manifest.root, manifest.directory) == (str(filled.path), str(filled.path / "executables"))

    def test_what_it_says_of_an_entry(self, filled: Root) -> None:
        """The manifest has an entry's bytes, digest, times, pin, seconds, origin and parents."""
        with Store(filled) as store:
            about = Known(Kind.EXECUTABLES, key(2), seconds=0.25, origin="program", jaxlib="0.8.1", pinned_ns=1)
            store.ledger.record([about])
        items = {item.key: item for item in prepared_of(filled).manifest.items}
        data = executable(2)
        assert items[key(2)]._replace(digest="", maker=None) == (
            Kind.EXECUTABLES, key(2), len(data), "", NOW + 2 * DAY, NOW + 2, True, True, 0.25, "program", (), "zstd",
            True, None,
        )  # fmt: skip
        assert (items[key(1)].recency_ns, items[key(1)].sidecar, items[key(1)].seconds) == (NOW + DAY, False, 1.0)
        assert (items[key(1)].origin, items[key(1)].portable) == (None, False)
        assert (items[key(3)].seconds, items[key(3)].parents, items[key(3)].maker) == (1.5, (key(9),), None)

    def test_what_took_no_time_is_not_known(self, native: Root) -> None:
        """An envelope without a build time gives no seconds, like one without a record."""
        data = seal(b"x", kind=Kind.TRACES, name="f", key=key(3), build_seconds=0.0, created_ns=1)
        add(native.directory(Kind.TRACES), key(3), data)
        assert [item.seconds for item in prepared_of(native).manifest.items] == [None]

    def test_two_exports_are_the_same(self, filled: Root) -> None:
        """The archive does not depend on the time, on an earlier export or on `jcache ls`."""
        first, second = BytesIO(), BytesIO()
        write_archive(prepared_of(filled), first)
        write_archive(prepared_of(filled, ExportRequest(processes=1)), second)
        assert first.getvalue() == second.getvalue()

    def test_makers_are_shared(self, plain: Root) -> None:
        """Entries of one program and machine have one maker among them."""
        copied(H200, plain.path, dirs_exist_ok=True)
        manifest = prepared_of(plain).manifest
        assert len(manifest.items) == 3 and len(manifest.makers) == 1
        assert {item.maker for item in manifest.items} == {0} and {item.codec for item in manifest.items} == {"zlib"}

    def test_an_empty_root(self, native: Root) -> None:
        """An archive may have no entries."""
        found, exported = written(prepared_of(native))
        assert list(found) == ["manifest.json", "manifest.json.digest", "trailer.json"] and exported.entries == 0

    def test_a_name_that_is_no_text(self, tmp_path: Path) -> None:
        """A root whose path is not UTF-8 is exported; the manifest escapes such bytes."""
        from jcache.store.roots import create_root

        root = create_root(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")), plain=True)
        add(root.path, key(1), executable())
        assert prepared_of(root).manifest.root.endswith("/\\xff")

    def test_solid(self, filled: Root) -> None:
        """The manifest of a solid archive says so, and names the libraries that restore it."""
        prepared = prepared_of(filled, ExportRequest(solid=True))
        assert prepared.manifest.solid and prepared.manifest.recompressors
        found, exported = written(prepared)
        assert exported.entries == 5 and len(found) == 8

    def test_signed(self, filled: Root) -> None:
        """The signing function receives the manifest's bytes, and its result is the second member."""
        found, _ = written(prepared_of(filled), sign=lambda data: b"of " + data[:20])
        assert list(found)[1] == "manifest.json.sig"
        assert found["manifest.json.sig"] == b"of " + found["manifest.json"][:20]


class TestDamage:
    def test_it_stays_behind(self, filled: Root) -> None:
        """A damaged entry is a finding and not in the manifest; the others go."""
        path = filled.directory(Kind.EXECUTABLES) / f"{key(1)}-cache"
        path.write_bytes(executable()[:-9])
        quiet(filled)
        prepared = prepared_of(filled)
        assert [(finding.key, finding.damage) for finding in prepared.findings] == [(key(1), Damage.TORN)]
        assert keys_of(prepared) == {key(i) for i in (0, 2, 3, 4)}

    def test_a_bit_of_what_is_on_record(self, filled: Root) -> None:
        """A bit that was flipped after an export is found by the next one, even if the file looks untouched."""
        prepared_of(filled)
        path = filled.directory(Kind.EXECUTABLES) / f"{key(1)}-cache"
        data = bytearray(path.read_bytes())
        data[40] ^= 1
        with open(path, "r+b") as file:
            file.write(data)
        os.utime(path, ns=(NOW + DAY,) * 2)
        prepared = prepared_of(filled)
        assert [finding.key for finding in prepared.findings] == [key(1)]
        assert key(1) not in keys_of(prepared)

    def test_no_file(self, filled: Root) -> None:
        """A link with an entry's name is neither followed nor exported."""
        (filled.directory(Kind.EXECUTABLES) / f"{key(8)}-cache").symlink_to(
            filled.directory(Kind.EXECUTABLES) / f"{key(1)}-cache"
        )
        assert key(8) not in keys_of(prepared_of(filled))

    def test_in_the_making(self, filled: Root, monkeypatch: pytest.MonkeyPatch) -> None:
        """A young, incomplete file is no damage; it is left out and counted."""
        monkeypatch.setattr(clock, "sleep", lambda _: None)
        add(filled.directory(Kind.EXECUTABLES), key(9), executable()[:-9])
        prepared = prepared_of(filled)
        assert (prepared.findings, prepared.being_written) == ([], [(Kind.EXECUTABLES, key(9))])
        assert key(9) not in keys_of(prepared)

    def test_completed_meanwhile(self, filled: Root, monkeypatch: pytest.MonkeyPatch) -> None:
        """A file that is complete at the second look is exported."""
        path = add(filled.directory(Kind.EXECUTABLES), key(9), executable()[:-9])
        monkeypatch.setattr(clock, "sleep", lambda _: path.write_bytes(executable()))
        prepared = prepared_of(filled)
        assert prepared.being_written == [] and key(9) in keys_of(prepared)


class TestTheSecondReading:
    def change(self, path: Path, how: str) -> None:
        data, status = path.read_bytes(), path.stat()
        if how == "removed":
            path.unlink()
        elif how == "link":
            path.unlink()
            path.symlink_to("/etc/hostname")
        elif how == "replaced":
            path.with_name("new").write_bytes(data)
            path.with_name("new").replace(path)
        elif how == "same size and times":
            path.write_bytes(bytes(len(data)))
            os.utime(path, ns=(status.st_mtime_ns,) * 2)
        else:
            path.write_bytes({"shorter": data[:-1], "longer": data + b"x", "empty": b""}[how])

    @pytest.mark.parametrize("how", ["removed", "link", "same size and times", "shorter", "longer", "empty"])
    def test_what_changed_in_between(self, filled: Root, how: str) -> None:
        """An entry that is another one by then is named in the trailer; no other suffers from it."""
        prepared = prepared_of(filled)
        path = filled.directory(Kind.EXECUTABLES) / f"{key(1)}-cache"
        self.change(path, how)
        found, exported = written(prepared)
        assert exported.omitted == (("executables", key(1)),) and exported.entries == 4
        assert json.loads(found["trailer.json"]) == {"omitted": [["executables", key(1)]]}
        assert f"executables/{key(1)}-cache" not in found

    def test_another_file_of_the_same_bytes(self, filled: Root) -> None:
        """An entry that was replaced by one of the same bytes is exported."""
        prepared = prepared_of(filled)
        self.change(filled.directory(Kind.EXECUTABLES) / f"{key(1)}-cache", "replaced")
        assert written(prepared)[1].omitted == ()

    @pytest.mark.parametrize("how", ["same size and times", "shorter", "longer", "empty"])
    def test_what_changes_while_it_is_written(self, filled: Root, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
        """An entry larger than the buffer that changes half-way is filled up to its size, and named in the trailer."""
        path = add(filled.directory(Kind.EXECUTABLES), key(9), executable(), written_ns=NOW)
        size = path.stat().st_size
        prepared = prepared_of(filled)
        monkeypatch.setattr(send, "_PIECE_BYTES", 16)
        monkeypatch.setattr(export_module, "BUFFER_BYTES", 16)
        pieces: Callable[..., Any] = send._read_pieces

        def slowly(file: Any, hasher: Any) -> Any:
            for number, piece in enumerate(pieces(file, hasher)):
                yield piece
                if number == 1 and os.fstat(file.fileno()).st_ino == prepared_inode:
                    self.change(path, how)

        prepared_inode = path.stat().st_ino
        monkeypatch.setattr(send, "_read_pieces", slowly)
        found, exported = written(prepared)
        assert exported.omitted == (("executables", key(9)),) and exported.entries == 5
        assert len(found[f"executables/{key(9)}-cache"]) == size
        assert all(
            found[name] == (filled.path / name).read_bytes() for name in found if "/" in name and key(9) not in name
        )

    def test_a_root_that_disappears(self, filled: Root) -> None:
        """If the files of a root disappear, the archive omits all of them."""
        prepared = prepared_of(filled)
        shutil.rmtree(filled.path)
        found, exported = written(prepared)
        assert list(found) == ["manifest.json", "manifest.json.digest", "trailer.json"]
        assert exported.entries == 0 and len(exported.omitted) == 5

    @pytest.mark.full
    def test_beside_a_process_that_writes_in_place(self, plain: Root) -> None:
        """Whatever a real process writes during the export, each entry has its digest or is omitted."""
        whole = [incompressible(1) for _ in range(2)]
        for i in range(20):
            add(plain.path, key(i), whole[0], written_ns=NOW)
        rewrite = (
            "import sys, random, pathlib; paths = sorted(pathlib.Path(sys.argv[1]).glob('*-cache'))[:10]\n"
            "whole = [bytes.fromhex(text) for text in pathlib.Path(sys.argv[2]).read_text().split()]\n"
            "print('begun', flush=True)\n"
            "while True: random.choice(paths).write_bytes(random.choice(whole))"
        )
        texts = plain.path.parent / "whole"
        texts.write_text(" ".join(data.hex() for data in whole))
        quiet_ones = {path.name.removesuffix("-cache") for path in sorted(plain.path.glob("*-cache"))[10:]}
        omitted = 0
        with process(rewrite, plain.path, texts):
            for _ in range(5):
                found, exported = written(prepared_of(plain))
                omitted += len(exported.omitted)
                left_out = {name for _, name in exported.omitted}
                items = {item.key: item for item in decode(found["manifest.json"]).items}
                assert quiet_ones <= items.keys() - left_out
                for name in items.keys() - left_out:
                    assert found[f"executables/{name}-cache"] in whole
                    assert digest(found[f"executables/{name}-cache"]) == items[name].digest
        assert omitted


def _die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class TestCompany:
    def test_nothing_changes(self, filled: Root) -> None:
        """An export changes no file but the ledger."""
        before = {path: state for path, state in tree(filled.path).items() if "/.jcache" not in path}
        written(prepared_of(filled))
        assert {path: state for path, state in tree(filled.path).items() if "/.jcache" not in path} == before

    def test_known_bytes_are_not_opened_again(self, filled: Root, monkeypatch: pytest.MonkeyPatch) -> None:
        """A second export of executables takes their digests, and looks no further."""
        first = prepared_of(filled, ExportRequest(processes=1))
        monkeypatch.setattr(scan, "check_and_read", lambda _directory, claim: pytest.fail(f"{claim} was checked"))
        only = Selection(kinds=(Kind.EXECUTABLES,))
        second = prepared_of(filled, ExportRequest(processes=1, selection=only))
        assert second.manifest.items == first.manifest.items[:3] and second.manifest.makers == first.manifest.makers

    def test_read_only(self, filled: Root) -> None:
        """A root that cannot be written is exported, without a word about it."""
        with mounted_read_only(filled.path):
            assert len(prepared_of(filled).manifest.items) == 5

    def test_processes_give_what_one_gives(self, filled: Root, monkeypatch: pytest.MonkeyPatch) -> None:
        """Several processes give the same result as one."""
        alone = prepared_of(filled, ExportRequest(processes=1))
        shutil.rmtree(filled.state)
        monkeypatch.setattr(scan, "_MIN_PARALLEL_BYTES", 0)
        monkeypatch.setattr(scan, "_BATCH_ENTRIES", 2)
        for _ in range(2):  # in processes first, then, with all that is remembered, in threads
            assert prepared_of(filled, ExportRequest(processes=2)).manifest == alone.manifest

    def test_a_process_that_is_killed(self, filled: Root, monkeypatch: pytest.MonkeyPatch) -> None:
        """The end of a process that was reading ends the export in a sentence."""
        monkeypatch.setattr(scan, "_MIN_PARALLEL_BYTES", 0)
        monkeypatch.setattr(scan, "_scan_packed", _die)
        with pytest.raises(JcacheError, match=re.escape("was killed")):
            prepared_of(filled, ExportRequest(processes=2))

    def test_progress(self, filled: Root) -> None:
        """Progress of both readings rises to the size of all entries."""
        told: list[tuple[int, int]] = []
        with Store(filled) as store:
            prepared = prepare_export(store, ExportRequest(), lambda done, total: told.append((done, total)))
        assert told[-1] == (prepared.bytes, prepared.bytes)
        told.clear()
        write_archive(prepared, BytesIO(), progress=lambda done, total: told.append((done, total)))
        assert told[-1] == (prepared.bytes, prepared.bytes) and len(told) == 5


def test_keyed_for(plain: Root) -> None:
    """Executables are counted by the directory that they name, but for those of portable keys and of a later JAX."""
    copied(H200, plain.path, dirs_exist_ok=True)
    names = sorted(path.name.removesuffix("-cache") for path in plain.path.glob("*-cache"))
    with Store(plain) as store:
        store.ledger.record([Known(Kind.EXECUTABLES, name, jaxlib="0.10.2") for name in names])
        assert count_key_directories(prepare_export(store, ExportRequest()).manifest) == {"/tmp/gc/lru": 3}
        store.ledger.record([Known(Kind.EXECUTABLES, names[0], origin="program")])
        assert count_key_directories(prepare_export(store, ExportRequest()).manifest) == {"/tmp/gc/lru": 2}
        store.ledger.record([Known(Kind.EXECUTABLES, name, jaxlib="0.11.0") for name in names])
        assert count_key_directories(prepare_export(store, ExportRequest()).manifest) == {}


@pytest.mark.full
def test_memory_is_constant(plain: Root) -> None:
    """Recorded entries are exported in pieces: 300 MB take at most 40 MB of memory."""
    code = (
        "import re, sys; from pathlib import Path; from jcache.shipping.exporter.export import *\n"
        "from jcache.store.roots import open_root\n"
        "with Store(open_root(Path(sys.argv[1]))) as store, open('/dev/null', 'wb') as sink:\n"
        "    write_archive(prepare_export(store, ExportRequest(processes=1)), sink)\n"
        "print(re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1])"
    )

    def peak() -> int:
        done = subprocess.run([sys.executable, "-c", code, plain.path], capture_output=True, text=True, check=True)
        return int(done.stdout)

    add(plain.path, key(1), executable(), written_ns=NOW)
    peak()
    little = peak()
    add(plain.path, key(2), incompressible(300), written_ns=NOW)
    peak()
    assert peak() < little + 40_000
