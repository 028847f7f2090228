"""Envelopes opened for use: verified, mapped if that is safe, and never through links."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from jcache.errors import DamagedEntry
from jcache.formats import pytrees
from jcache.formats.envelope import Codec, seal
from jcache.store import mapped
from jcache.store.mapped import MAPPED_FROM, open_sealed


def sealed(payload: bytes, codec: Codec = Codec.NONE) -> bytes:
    return seal(payload, kind="graphs", name="f", key="k", build_seconds=1.0, created_ns=1, codec=codec)


LARGE = os.urandom(MAPPED_FROM)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("payload", [b"", b"small", LARGE], ids=["empty", "small", "large"])
def test_payloads_are_opened(tmp_path: Path, payload: bytes, codec: Codec) -> None:
    """A payload is there, whole and in memory that can be written to; the file is not."""
    path = tmp_path / "entry"
    path.write_bytes(data := sealed(payload, codec))
    header, found = open_sealed(path)
    assert bytes(found) == payload and header.name == "f"
    if payload:
        found[0] ^= 0xFF
    assert path.read_bytes() == data


def test_mapped_files_may_go(tmp_path: Path) -> None:
    """A mapped envelope stays readable when its file is removed or replaced, or descriptors run out."""
    path, other = tmp_path / "entry", tmp_path / "other"
    path.write_bytes(sealed(LARGE))
    other.write_bytes(sealed(b"another"))
    before = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0
    found = [open_sealed(path)[1] for _ in range(200)]
    if sys.platform == "linux":
        assert len(os.listdir("/proc/self/fd")) <= before + 128
    os.replace(other, path)
    path.unlink()
    assert all(bytes(view) == LARGE for view in found)


@pytest.mark.parametrize("local", [True, False])
def test_only_local_files_are_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, local: bool) -> None:
    """A file that another machine could remove is read, since losing its pages would kill the program."""
    path = tmp_path / "entry"
    path.write_bytes(sealed(LARGE))
    monkeypatch.setattr(mapped, "is_local", lambda _: local)
    _, found = open_sealed(path)
    assert isinstance(found.obj, bytearray) is not local
    assert bytes(found) == LARGE


def test_arrays_are_aligned_in_memory(tmp_path: Path) -> None:
    """Arrays of a mapped graph lie at multiples of 64 in memory, without a copy."""
    if sys.platform != "linux":
        pytest.skip("elsewhere nothing is mapped")
    path = tmp_path / "entry"
    path.write_bytes(sealed(b"".join(pytrees.dump([np.arange(1 << 17), np.arange(7), "x"]).pieces)))
    _, payload = open_sealed(path)
    first, second, _ = pytrees.load(payload)
    assert first.ctypes.data % 64 == second.ctypes.data % 64 == 0
    assert np.shares_memory(first, np.frombuffer(payload, np.uint8))
    del payload
    assert first.sum() == sum(range(1 << 17)) and second.tolist() == list(range(7))


@pytest.mark.parametrize("size", [10, MAPPED_FROM])
def test_damage_is_found(tmp_path: Path, size: int) -> None:
    """A changed bit, a missing end and more bytes are damage, in files that are read and in those that are mapped."""
    data = sealed(bytes(size))
    for changed in (data[:-1], data + b"\0", data[:-1] + b"\1", data[:70] + b"x" + data[71:], b"", data[:100]):
        (path := tmp_path / "entry").write_bytes(changed)
        with pytest.raises(DamagedEntry):
            open_sealed(path)


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    """A link, a pipe and a directory are refused without waiting, and a missing file is reported as missing."""
    (tmp_path / "entry").write_bytes(sealed(b"x"))
    (tmp_path / "link").symlink_to(tmp_path / "entry")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "."):
        with pytest.raises(OSError):
            open_sealed(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        open_sealed(tmp_path / "none")
