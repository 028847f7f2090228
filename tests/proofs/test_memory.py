"""No input takes half a gibibyte of memory, measured in separate processes."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
import zstandard

from jcache.formats.compression import Codec
from jcache.formats.digest import digest
from jcache.formats.executable import pack_executable
from jcache.layout import Kind
from jcache.shipping.archive import ArchiveWriter, item_name
from jcache.shipping.archive.manifest import MAX_ENTRIES, Item, Manifest
from jcache.shipping.archive.manifest_codec import encode
from jcache.shipping.archive.tar_headers import END, encode_header, pad_to_block
from tests.helpers.archives import TRAILER
from tests.helpers.entries import DAY, NOW, add, digits, executable, key, xla_program
from tests.proofs.bombs import entry

LIMIT_MIB = 500
MANY, FEWER = 300_000, 20_000  # entries of an archive, with --full and without
MEASURE = """
import resource, subprocess, sys
done = subprocess.run([sys.executable, "-m", "jcache", *sys.argv[1:]])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024, file=sys.stderr)
sys.exit(done.returncode)
"""


class Measured(NamedTuple):
    code: int
    out: str
    err: str
    mebibytes: int


def measured(*command: object) -> Measured:
    """A command, and the most memory that it, or a process that it waited for, has had."""
    words = [sys.executable, "-c", MEASURE, *map(str, command)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    *err, most = done.stderr.splitlines()
    print(f"{command[0]}: {most} MiB")
    assert "Traceback" not in done.stderr
    return Measured(done.returncode, done.stdout, "\n".join(err), int(most))


def line(number: int, parents: str = "") -> bytes:
    """A line of a manifest, as short as it can be; keys come in their order."""
    text = f'{{"bytes":1,"created_ns":1,"digest":"blake3:{0:064}","key":"f-{number:064x}","kind":"executables"'
    return f'{text},{parents}"recency_ns":1}},\n'.encode()


def alike() -> Iterator[bytes]:
    while True:
        yield line(1) * 1000


def many() -> Iterator[bytes]:
    for start in range(0, 10**9, 1000):
        yield b"".join(map(line, range(start, start + 1000)))


def related() -> Iterator[bytes]:
    parents = ",".join([f'"f-{0:064x}"'] * 4096)
    for number in range(10**9):
        yield line(number, f'"parents":[{parents}],')


def zeros() -> Iterator[bytes]:
    while True:
        yield bytes(1 << 20)


@pytest.mark.parametrize("size", [128 << 20, 500 << 20], ids=["as large as may be", "larger"])
@pytest.mark.parametrize("lines", [alike, many, related, zeros], ids=lambda one: one.__name__)
def test_a_manifest_that_was_made_to_fill_a_memory(
    lines: Callable[[], Iterator[bytes]], size: int, tmp_path: Path
) -> None:
    """A manifest made to fill the memory is refused in one sentence, in bounded memory, however small the
    archive is.
    """
    stream = zstandard.ZstdCompressor(level=3).compressobj()
    head = b'{"directory":"/c","host":{"cpu":null,"gpus":[]},"items":[\n'
    with open(tmp_path / "a.jca", "wb") as file:
        file.write(stream.compress(encode_header("manifest.json", size) + head))
        left = size - len(head)
        for piece in lines():
            for at in range(0, min(len(piece), left), 1 << 13):  # in blocks so small that no ratio is exceeded
                file.write(stream.compress(piece[at : min(at + (1 << 13), left)]))
                file.write(stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
            left -= len(piece[:left])
            if not left:
                break
        file.write(
            stream.compress(
                bytes(-size % 512) + encode_header("trailer.json", len(TRAILER)) + pad_to_block(TRAILER) + END
            )
        )
        file.write(stream.flush())
    print(f"{(tmp_path / 'a.jca').stat().st_size:,} bytes")
    done = measured("import", "--root", tmp_path / "root", tmp_path / "a.jca")
    assert done.code == 1 and done.err.startswith("jcache: ") and done.err.count("\n") == 0, done
    assert done.mebibytes < LIMIT_MIB
    assert not (tmp_path / "root").exists()


@pytest.fixture
def large_archive(tmp_path: Path, full: bool) -> Path:
    """An archive of 20,000 entries, or of 300,000."""
    data = executable()
    found = digest(data)
    items = tuple(
        Item(Kind.EXECUTABLES, one, len(data), found, NOW, NOW + DAY, sidecar=True, seconds=3.0, origin="run 1")
        for one in sorted(f"jit_step-{digits(number)}" for number in range(MANY if full else FEWER))
    )
    manifest = Manifest(jcache="1", root="/home/me/cache", directory="/home/me/cache/executables", items=items)
    path = tmp_path / "large.jca"
    with open(path, "wb") as file:
        writer = ArchiveWriter(file)
        writer.write_manifest(encode(manifest), None)
        for item in items:
            assert writer.write_member(item_name(item), len(data), [data])
        writer.close()
    return path


def test_a_large_archive_arrives(large_archive: Path, tmp_path: Path, full: bool) -> None:
    """20,000 entries, 300,000 with --full, are imported, and found to be there a second time, in bounded memory."""
    many = MANY if full else FEWER
    for found in (f"{many:,} new", f"{many:,} present and equal"):
        done = measured("import", "--root", tmp_path / "root", large_archive)
        assert done.code == 0 and found in done.out and done.mebibytes < (LIMIT_MIB if full else LIMIT_MIB / 2), done


def test_a_solid_archive_needs_little_memory(tmp_path: Path, full: bool) -> None:
    """`export --solid` takes at most 300 MiB, also, with --full, for contents that are larger than zstd's window."""
    (tmp_path / "cache").mkdir()
    for number in range(150 if full else 3):
        data = pack_executable(xla_program(Random(number).randbytes(1 << 20)), 1, Codec.ZSTD)
        (tmp_path / "cache" / f"{key(number)}-cache").write_bytes(data)
    done = measured("export", "--solid", "--root", tmp_path / "cache", "--output", tmp_path / "a.jca")
    assert done.code == 0 and done.mebibytes <= 300, done


def test_more_than_there_may_be_is_refused(tmp_path: Path) -> None:
    """A manifest with too many entries says so, and how to export fewer."""
    data = encode(Manifest(jcache="1", root="/c", directory="/c"))
    lines = b"".join(map(line, range(MAX_ENTRIES + 1)))[:-2] + b"\n"
    data = data.replace(b'"items":[\n', b'"items":[\n' + lines)
    tar = (
        encode_header("manifest.json", len(data))
        + pad_to_block(data)
        + encode_header("trailer.json", len(TRAILER))
        + pad_to_block(TRAILER)
    )
    (tmp_path / "a.jca").write_bytes(zstandard.compress(tar + END))
    done = measured("import", "--root", tmp_path / "root", tmp_path / "a.jca")
    assert done.code == 1 and "lists more than 400,000 entries" in done.err and "--filter" in done.err
    assert done.mebibytes < LIMIT_MIB


@pytest.mark.parametrize("codec", ["zstd", "zlib"])
def test_an_entry_that_was_made_to_fill_a_memory_is_not_opened(codec: str, tmp_path: Path) -> None:
    """An entry that passes all checks and holds a hundred times its size is reported, and not loaded to test it."""
    import zlib

    content = bytes(4) + xla_program(bytes(200 << 20))
    data = zlib.compress(content) if codec == "zlib" else zstandard.compress(content)
    assert len(data) < 1 << 20
    del content
    add(tmp_path / "cache", key(1), data, written_ns=NOW)
    add(tmp_path / "cache", key(2), entry(xla_program(b"code")), written_ns=NOW)
    verified = measured("verify", "--load", "--root", tmp_path / "cache")
    assert "it holds over 100 times its bytes" in verified.out and verified.mebibytes < LIMIT_MIB, verified
    archive = tmp_path / "a.jca"
    assert measured("export", "--root", tmp_path / "cache", "--output", archive).code == 0
    imported = measured("import", "--check-load", "--root", tmp_path / "root", archive)
    assert imported.mebibytes < LIMIT_MIB and (tmp_path / "root" / "executables" / f"{key(1)}-cache").exists()
