"""`jcache import` of a tar that does not begin with a manifest."""

import io
import os
import shutil
import tarfile
from pathlib import Path

import pytest
import zstandard

from tests.helpers.command_line import Jcache, entry_files, keys
from tests.helpers.entries import key
from tests.helpers.imports import import_bytes, packed, populated, tar_of
from tests.jax_internals.test_cache_hook import JAX


@pytest.mark.smoke(since="0.10")
@pytest.mark.jax
def test_plain_tar(jcache: Jcache, cache: Path, tmp_path: Path) -> None:
    """A tar.gz of a JAX directory is imported with all checks, and its executables load with the jaxlib here."""
    tar = shutil.make_archive(str(tmp_path / "old"), "gztar", cache.parent, cache.name)
    target = tmp_path / "new"
    result = jcache("import", tar, "--root", target, "--check-load", "--json")
    assert result.code == 0, result.err
    assert result.json["entries"]["new"] == result.json["loads"]["loads"] == len(keys(cache))
    mended = len(JAX) > 3  # nobody tells whether this version or the one that it mends has made them
    assert result.json["forecast"]["unknown" if mended else "will"] == len(keys(cache))
    assert entry_files(target / "executables") == entry_files(cache)


@pytest.mark.full
@pytest.mark.parametrize(
    "files",
    [{}, {"a/b": b"hello", "c": b""}, {"a/manifest.json": b'{"directory":"/"}'}, {f"{key(1)}-atime": bytes(8)}],
)
def test_nothing_of_a_cache(target: Path, files: dict[str, bytes]) -> None:
    """A tar without any entry is refused in one sentence, and no root is made."""
    for options in ((), ("--dry-run",), ("--json",)):
        refused = import_bytes(tar_of(files), target, *options)
        assert refused.code == 1 and refused.out == "" and len(refused.err.splitlines()) == 1
        assert all(name in refused.err for name in files if "manifest" not in name)
        assert not target.exists()


@pytest.mark.full
def test_packed_anew(tmp_path: Path, target: Path) -> None:
    """An archive whose members were packed again is imported as a tar; the message names what is lost, with exit 3."""
    raw = _raw(packed(populated(tmp_path / "source")))
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        files = {info.name: _data(tar, info) for info in tar}
    again = tar_of(dict(sorted(files.items())) | {"manifest.json.sig": b"signed"})
    for options in (("--dry-run",), ()):
        taken = import_bytes(again, target, *options)
        assert taken.code == 3 and "packed again: its signature was not checked" in taken.out
    assert len(list(target.rglob("*-cache"))) == 12
    assert import_bytes(again, target, "--allowed-signers", os.devnull).code == 12


def _raw(archive: bytes) -> bytes:
    """The tar inside."""
    return zstandard.ZstdDecompressor().stream_reader(archive, read_across_frames=True).read()


def _data(tar: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(info)
    assert file is not None
    return file.read()
