"""Sidecars hold 8 bytes that say when an entry was last used."""

import os
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from jcache.store.sidecar import read_recency, write_recency
from tests.helpers.odd_files import ODD, odd


@ODD
def test_only_regular_files_become_sidecars(
    tmp_path: Path, beyond: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recency is not written through a link nor into a FIFO, which would wait for a reader."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError):
        write_recency(odd(what, tmp_path / "f", beyond), 1)


@given(st.integers(0, 2**63 - 1))
def test_a_recency_reads_back(tmp_path: Path, time_ns: int) -> None:
    """A sidecar is 8 bytes, little-endian, as JAX reads and writes it, whatever was in it before."""
    path = tmp_path / "a"
    path.write_bytes(b"longer than eight bytes")
    write_recency(path, time_ns)
    assert path.read_bytes() == time_ns.to_bytes(8, "little")
    assert read_recency(path) == time_ns


@pytest.mark.parametrize(("time_ns", "kept"), [(-5, 0), (2**70, 2**63 - 1)])
def test_times_beyond_a_sidecar(tmp_path: Path, time_ns: int, kept: int) -> None:
    """A file from before 1970 or from long after 2262 gets the nearest time that a sidecar keeps."""
    write_recency(tmp_path / "a", time_ns)
    assert read_recency(tmp_path / "a") == kept


@pytest.mark.parametrize("data", [b"", b"1234567", b"123456789", b"12345678\0", b"\xff" * 8])
def test_a_damaged_sidecar_says_nothing(tmp_path: Path, data: bytes) -> None:
    """A sidecar that is too short, too long or of an impossible year counts as missing."""
    (tmp_path / "a").write_bytes(data)
    assert read_recency(tmp_path / "a") is None
    assert read_recency(tmp_path / "missing") is None


def test_writing_a_recency_leaves_the_directory_unchanged(tmp_path: Path) -> None:
    """A hit is no change of the names."""
    write_recency(tmp_path / "a", 1)
    os.utime(tmp_path, ns=(0, 0))
    write_recency(tmp_path / "a", 2)
    assert os.stat(tmp_path).st_mtime_ns == 0


def test_what_is_no_file_is_no_sidecar(tmp_path: Path) -> None:
    """A sidecar's name on a directory or on a device is left alone."""
    (tmp_path / "directory").mkdir()
    (tmp_path / "device").symlink_to(os.devnull)
    for name in ("directory", "device"):
        with pytest.raises(OSError, match=r"directory|symbolic links"):
            write_recency(tmp_path / name, 7)
        assert os.path.lexists(tmp_path / name)
