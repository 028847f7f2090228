"""Solid archives hold what entries compress, and give back each entry bit by bit."""

import io
import os
import random
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from jcache.formats.compression import codec_of
from jcache.formats.digest import digest
from jcache.formats.envelope import Codec
from jcache.formats.executable import pack_executable
from jcache.layout import Kind
from jcache.shipping.archive import recompressors
from jcache.shipping.archive.manifest import Item, Manifest
from jcache.shipping.archive.manifest_codec import encode
from tests.helpers.archives import (
    Sample,
    contents_of,
    item,
    sample,
    tar_of,
)
from tests.helpers.entries import NOW
from tests.shipping.archive.test_reader import MIB, inside, packed, refusal

ROOT = Path(__file__).parents[3]


def entries_of(*codecs: Codec) -> Iterator[tuple[bytes, str]]:
    content = random.Random(1).randbytes(20_000)
    for number, codec in enumerate(codecs):
        yield pack_executable(content + bytes([number]) + b"same" * 5000, number, codec), codec.value


def test_solid_archives_share_what_entries_share() -> None:
    """Entries that are compressed each for itself shrink to little more than one of them, and come back bit by bit."""
    data = list(entries_of(*[Codec.ZSTD, Codec.ZLIB] * 5))
    entries = [(item(n, stored)._replace(codec=codec), stored) for n, (stored, codec) in enumerate(data)]
    solid = Sample(entries, solid=True)
    assert len(solid.packed()) < 0.2 * len(tar_of([*solid.contents.items()]))
    assert contents_of(solid.packed())[1] == solid.contents


@pytest.mark.jax
def test_solid_archives_of_two_versions_of_a_model_take_three_fifths_of_a_tar(tmp_path: Path) -> None:
    """A solid archive of a transformer with four and with six layers has at most three fifths of a tar's size."""
    for layers in (4, 6):
        environment = {
            "JAX_COMPILATION_CACHE_DIR": str(tmp_path), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1", "JAX_PLATFORMS": "cpu",
        }  # fmt: skip
        program = [sys.executable, "tests/programs/transformer.py", str(layers)]
        subprocess.run(program, env=os.environ | environment, cwd=ROOT, check=True, capture_output=True)
    entries = []
    for path in tmp_path.glob("*-cache"):
        stored = path.read_bytes()
        of_it = Item(Kind.EXECUTABLES, path.name.removesuffix("-cache"), len(stored), digest(stored), NOW, NOW)
        entries.append((of_it._replace(codec=codec_of(stored)), stored))
    made = Sample(entries, solid=True)
    archive = made.packed()
    tar = subprocess.run(["tar", "-C", tmp_path, "-cf", "-", "."], capture_output=True, check=True).stdout
    print(f"{len(archive) / len(tar):.3f} of tar's bytes")
    assert len(archive) <= 0.6 * len(tar)
    assert contents_of(archive)[1] == made.contents


@pytest.mark.parametrize(
    "stored",
    [
        zstandard.compress(b"other level" * 500, 19),
        zstandard.ZstdCompressor(write_checksum=True).compress(b"checksum" * 500),
        zstandard.compress(b"x" * 500) + b"behind",
        zstandard.compress(b"x" * 500)[:-1],
        zstandard.compress(bytes(10 * MIB)),
        b"no codec",
        b"",
    ],
)
def test_what_would_not_come_back_is_stored_as_it_is(stored: bytes) -> None:
    """An entry that JAX did not compress as we do, or that is like a bomb, is left as it is in a solid archive."""
    made = Sample([(item(1, stored), stored)], solid=True)
    archive = made.packed()
    with tarfile.open(fileobj=io.BytesIO(inside(archive))) as tar:
        names = tar.getnames()
    assert names == ["manifest.json", "manifest.json.digest", *made.contents, "trailer.json"]
    assert contents_of(archive)[1] == made.contents


def test_another_version_of_the_library_is_refused_from_the_manifest() -> None:
    """A solid archive of another library version may not restore its bytes: it is refused with the version
    and a remedy.
    """
    made = sample(solid=True)
    assert made.manifest.recompressors == recompressors()
    old = Manifest(
        **{name: getattr(made.manifest, name) for name in Manifest.__slots__ if name != "recompressors"},
        recompressors=(("zlib", "1.0"), ("zstd", "1.0.1")),
    )
    members = [("manifest.json", encode(old)), *made.members()[1:]]
    message = refusal(packed([*members]))
    assert "zstd 1.0.1" in message and "--solid" in message
