"""The examples of docs/reference/formats.md: jcache reads each, and writes its bytes."""

import io
import json
import re
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest
import zstandard

from jcache.formats.digest import digest
from jcache.formats.envelope import Codec, seal, unseal
from jcache.formats.executable import pack_executable, unpack_executable
from jcache.layout import Kind
from jcache.store.ledger_connection import CONTENTS_SCHEMA, ECONOMICS_SCHEMA, REMOVALS_SCHEMA
from jcache.store.roots import create_root
from jcache.store.sidecar import write_recency
from tests.helpers.command_line import Jcache
from tests.helpers.documents import ROOT
from tests.helpers.entries import add

PAGE = (ROOT / "docs/reference/formats.md").read_text()
VECTORS = dict(re.findall(r"^<!-- vector: (.*?) -->\n```\w*\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
HEADER = json.loads(VECTORS["header"])
MEMBER = f"graphs-v1/{HEADER['key']}-cache"
NS = HEADER["created_ns"]


def dumped(name: str) -> bytes:
    """Return the bytes of a vector, in hexadecimal digits or as a dump with offsets and text."""
    lines = VECTORS[name].splitlines()
    return bytes.fromhex(
        "".join(line[8:60].partition("|")[0] if "|" in line else line for line in lines if " " in line)
    )


ENVELOPE = dumped("envelope")


def archive() -> bytes:
    """Return the archive that the page describes, made with the tools that it names."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in (
            ("manifest.json", VECTORS["manifest"].encode()),
            ("manifest.json.digest", VECTORS["manifest digest"].strip().encode()),
            (MEMBER, ENVELOPE),
            ("trailer.json", VECTORS["trailer"].encode()),
        ):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return zstandard.ZstdCompressor().compress(buffer.getvalue())


@pytest.fixture
def root(tmp_path: Path, jcache: Jcache) -> Path:
    """A root into which the page's archive was imported."""
    (tmp_path / "a.jcache").write_bytes(archive())
    done = jcache("import", tmp_path / "a.jcache", "--root", tmp_path / "root")
    assert done.code == 0, done.err
    return tmp_path / "root"


@pytest.mark.parametrize("codec", [Codec.ZSTD, Codec.ZLIB])
def test_executable(codec: Codec) -> None:
    """Both executables hold three seconds and the same content, which jcache packs so that it reads it again."""
    found = unpack_executable(dumped(codec.value))
    assert found == (codec, 3, b"\x0a\x05hello")
    assert unpack_executable(pack_executable(found.payload, found.seconds, codec)) == found


def test_sidecar(tmp_path: Path) -> None:
    """The sidecar's eight bytes are those that jcache writes for the time that the page names."""
    write_recency(tmp_path / "a-atime", NS)
    assert (tmp_path / "a-atime").read_bytes() == dumped("sidecar")
    assert f"or {NS}:" in PAGE


def test_envelope() -> None:
    """The envelope has the header and payload of the page, and sealing these gives its bytes."""
    header, payload = unseal(ENVELOPE)
    assert json.loads(json.dumps(header._asdict())) == HEADER
    fields = {name: HEADER[name] for name in ("kind", "name", "key", "key_parts", "producers", "build_seconds")}
    assert seal(payload, created_ns=NS, codec=Codec.NONE, **fields) == ENVELOPE
    assert digest(ENVELOPE) == VECTORS["digest"].strip()


def test_any_bit_counts() -> None:
    """The table of the page tells all bytes of the envelope: where each field begins, and that the payload is last."""
    length = int.from_bytes(ENVELOPE[12:16], "big")
    assert json.loads(ENVELOPE[56 : 56 + length]) == HEADER
    assert (56 + length) % 64 == 0
    assert ENVELOPE[56 + length :] == b"three plain bytes\n"


def test_archive(root: Path) -> None:
    """`jcache import` takes the archive that the page describes."""
    assert (root / MEMBER).read_bytes() == ENVELOPE
    assert digest(VECTORS["manifest"].encode()) == VECTORS["manifest digest"].strip()


def test_export(jcache: Jcache, tmp_path: Path) -> None:
    """`jcache export` of the graph with its sidecar writes the page's members, and the page's item of the manifest."""
    made = create_root(tmp_path / "root")
    add(made.directory(Kind.GRAPHS), HEADER["key"], ENVELOPE, used_ns=NS, written_ns=NS)
    assert jcache("export", "--root", made.path, "-o", tmp_path / "b.jcache").code == 0
    content = (
        zstandard.ZstdDecompressor().stream_reader((tmp_path / "b.jcache").read_bytes(), read_across_frames=True).read()
    )
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        assert tar.getnames() == ["manifest.json", "manifest.json.digest", MEMBER, "trailer.json"]
        items = [json.load(file)["items"] for file in [tar.extractfile("manifest.json")] if file]
    assert items == [json.loads(VECTORS["manifest"])["items"]]


@pytest.mark.usefixtures("_obstore")
def test_store(root: Path, jcache: Jcache, tmp_path: Path) -> None:
    """`jcache push` to a directory makes the objects of the page."""
    done = jcache("push", f"file://{tmp_path / 'store'}", "--root", root)
    assert done.code == 0, done.err
    objects = {path.relative_to(tmp_path / "store").as_posix(): path.read_bytes() for path in files(tmp_path / "store")}
    (manifest,) = [name for name in objects if name.startswith("v1/manifests/")]
    assert manifest == f"v1/manifests/{digest(objects.pop(manifest)).removeprefix('blake3:')}.json"
    key = f"v1/graphs/{HEADER['key']}"
    assert objects == {f"{key}-cache": ENVELOPE, f"{key}-digest": VECTORS["digest object"].encode()}


@pytest.fixture
def _obstore() -> None:
    pytest.importorskip("obstore")


def files(directory: Path) -> list[Path]:
    """Return the files below a directory."""
    return sorted(path for path in directory.rglob("*") if path.is_file())


def test_ledger(root: Path, jcache: Jcache) -> None:
    """The page names the ledger's tables, their columns, its identity and its version."""
    assert jcache("verify", "--root", root).code == 0
    listed = {cells[0]: cells[1:] for line in PAGE.splitlines() if line.startswith("| `") if (cells := names_in(line))}
    with closing(sqlite3.connect(root / ".jcache/ledger.sqlite3")) as ledger:
        for statement in (*CONTENTS_SCHEMA, ECONOMICS_SCHEMA, REMOVALS_SCHEMA):
            ledger.execute(statement)
        tables = [name for (name,) in ledger.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        assert listed == {
            name: [row[1] for row in ledger.execute(f"PRAGMA table_info({name})")]
            for name in tables
            if not name.startswith("sqlite_")
        }
        identity, version = (
            ledger.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
        )
    assert f"`application_id` is {identity} " in PAGE
    assert f"`user_version`, the version of the schema, is {version}." in PAGE.replace("\n", " ")


def names_in(row: str) -> list[str]:
    """Return the names in the first two cells of a row."""
    return re.findall(r"`(\w+)`", " ".join(row.split(" | ")[:2]))
