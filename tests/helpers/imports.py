"""Roots with a bit of everything, and their way through archives."""

import io
import random
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from jcache.formats.envelope import Codec, seal
from jcache.formats.executable import pack_executable
from jcache.layout import AUTOTUNE_NAME, LOCK_NAME, Kind, Root
from jcache.shipping.archive import open_archive
from jcache.shipping.archive.reader import ArchiveReader
from jcache.shipping.exporter.export import prepare_export, write_archive
from jcache.shipping.exporter.selection import ExportRequest
from jcache.shipping.forecast.judge import judge
from jcache.shipping.forecast.machine import Machine
from jcache.shipping.importer.archive_import import ImportPlan, execute_plan, plan_import
from jcache.shipping.importer.outcome import ImportResult
from jcache.store import files
from jcache.store.ledger import Known
from jcache.store.roots import create_root
from jcache.store.store import Store
from tests.helpers.command_line import Jcache, Result, clean_environment
from tests.helpers.entries import DAY, NOW, add, key, xla_program
from tests.helpers.waiting import LIMIT_S

HERE = Machine()


def content(kind: Kind, a_key: str, build: int = 0) -> bytes:
    """The right bytes of a key, other ones for each build."""
    chance = random.Random(f"{kind} {a_key} {build}")
    payload = b"\x0a" + chance.randbytes(chance.randrange(300, 2000))
    if kind is Kind.EXECUTABLES:
        return pack_executable(xla_program(payload), 3, Codec.ZSTD)
    return seal(payload, kind=kind, name="jit_step", key=a_key, build_seconds=1.5, created_ns=NOW)


class Facts(NamedTuple):
    """The metadata that an entry takes along."""

    data: bytes
    created_ns: int
    recency_ns: int
    pinned: bool
    seconds: float | None
    origin: str | None


def facts(root: Root) -> dict[tuple[Kind, str], Facts]:
    """The entries of a root."""
    with Store(root) as store:
        known = {kind: store.ledger.known(kind) for kind in Kind}
        return {
            (e.kind, e.key): Facts(
                files.read(store.path(e)),
                e.created_ns,
                e.recency_ns,
                bool(e.pinned),
                e.seconds,
                known[e.kind][e.key].origin if e.key in known[e.kind] else None,
            )
            for e in store.entries()
        }


def populated(path: Path, *, plain: bool = False, bounded: bool = False, count: int = 4, seed: int = 0) -> Root:
    """A root with entries of all kinds, used and pinned at random, and with an autotune file."""
    chance = random.Random(seed)
    root = create_root(path, plain=plain)
    news = []
    for number, kind in enumerate(Kind):
        directory = root.directory(kind)
        for each in range(count):
            a_key = key(1000 * number + each)
            made = NOW - chance.randrange(DAY)
            used = made + chance.randrange(DAY) if bounded or chance.random() < 0.5 else None
            add(directory, a_key, content(kind, a_key), used_ns=used, written_ns=made)
            if chance.random() < 0.7:
                origin = chance.choice([None, "put", "run 1", "program"])
                pinned = 1 if chance.random() < 0.3 else None
                news.append(Known(kind, a_key, seconds=chance.random(), origin=origin, pinned_ns=pinned))
        if bounded:
            (directory / LOCK_NAME).touch()
    tuned = root.directory(Kind.EXECUTABLES) / AUTOTUNE_NAME / "ab" / "some.pb"
    tuned.parent.mkdir(parents=True)
    tuned.write_bytes(b"tuned")
    with Store(root) as store:
        store.ledger.record(news)
    return root


def packed(root: Root, **request: Any) -> bytes:
    """The archive of a root."""
    stream = io.BytesIO()
    with Store(root) as store:
        write_archive(prepare_export(store, ExportRequest(processes=1, **request)), stream)
    return stream.getvalue()


def planned(archive: bytes, root: Root, **wishes: Any) -> tuple[ArchiveReader, ImportPlan]:
    """Return an open archive and the plan of its import."""
    reader = open_archive(io.BytesIO(archive))
    assert isinstance(reader, ArchiveReader)
    manifest = reader.head().manifest
    forecast = judge(manifest, HERE, root.directory(Kind.EXECUTABLES), {})
    return reader, plan_import(manifest, root, forecast, **wishes)


def unpacked(archive: bytes, root: Root, **wishes: Any) -> ImportResult:
    """Imports an archive."""
    imported = ImportResult()
    reader, plan = planned(archive, root, **wishes)
    with Store(create_root(root.path, plain=root.plain)) as store:
        execute_plan(plan, reader.members(), store, imported, omitted=lambda: reader.omitted)
        assert not store.notices
    return imported


def tar_of(files: dict[str, bytes], change: Callable[[tarfile.TarInfo], None] = lambda info: None) -> bytes:
    """A plain tar."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            info.mtime = NOW // 10**9
            change(info)
            tar.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def check_clean(jcache: Jcache, root: Path) -> None:
    """Assert that `jcache verify` finds nothing in a root, however young its files are."""
    assert jcache("verify", "--grace", "0s", "--root", root).code == 0


def import_bytes(archive: bytes, target: Path, *options: str) -> Result:
    """Import an archive through the standard input."""
    done = subprocess.run(
        [sys.executable, "-m", "jcache", "import", "-", "--root", str(target), *options],
        input=archive,
        env=clean_environment(),
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert b"Traceback" not in done.stderr, done.stderr
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())
