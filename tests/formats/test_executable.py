"""The bytes of executables: JAX reads entries of jcache, and jcache reads entries of JAX."""

import contextlib
import hashlib
import random
import zlib
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, strategies as st

from jcache.errors import DamagedEntry, InvalidValue
from jcache.formats.envelope import Codec, read_header, unseal
from jcache.formats.executable import executable_seconds, pack_executable, unpack_executable
from tests.helpers.jax_entries import JaxEntries, cpu_entries_fixture as cpu_entries_fixture, h200_entry, run_python

BOTH = pytest.mark.parametrize("codec", [Codec.ZSTD, Codec.ZLIB])
EITHER = st.sampled_from([Codec.ZSTD, Codec.ZLIB])


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@given(st.binary(max_size=5000), st.integers(0, (1 << 32) - 1), EITHER)
def test_executables_round_trip(payload: bytes, seconds: int, codec: Codec) -> None:
    """Codec, seconds and executable are unpacked as they were packed."""
    entry = unpack_executable(pack_executable(payload, seconds, codec))
    assert (entry.codec, entry.seconds, entry.payload) == (codec, seconds, payload)


JAX_READS = """
import hashlib, pathlib, sys
from jax._src import compilation_cache as cc
for path in sys.argv[1:]:
    data = pathlib.Path(path).read_bytes()
    if path.endswith(".zlib"):
        cc.zstd = cc.zstandard = None
    executable, seconds = cc.extract_executable_and_time(cc.decompress_executable(data))
    print(seconds, hashlib.sha256(executable).hexdigest())
"""


@pytest.mark.smoke
@pytest.mark.jax
def test_jax_reads_what_is_packed(cpu_entries: JaxEntries, tmp_path: Path) -> None:
    """JAX's own functions read repacked entries, zstd and zlib, as the same executable and seconds."""
    payload = unpack_executable(cpu_entries.bytes("jit_named_step")).payload
    paths = []
    for codec in (Codec.ZSTD, Codec.ZLIB):
        paths.append(tmp_path / f"entry.{codec}")
        paths[-1].write_bytes(pack_executable(payload, 12345, codec))
    printed = run_python("-c", JAX_READS, *map(str, paths))
    assert printed.splitlines() == [f"12345 {sha256(payload)}"] * 2


JAX_WRITES = """
import pathlib, sys
from jax._src import compilation_cache as cc
content = cc.combine_executable_and_time(b"executable" * 99, 4321)
pathlib.Path(sys.argv[1]).write_bytes(cc.compress_executable(content))
cc.zstd = cc.zstandard = None
pathlib.Path(sys.argv[2]).write_bytes(cc.compress_executable(content))
"""


@pytest.mark.smoke
@pytest.mark.jax
def test_what_jax_writes_is_read(tmp_path: Path) -> None:
    """Bytes from JAX's own functions, with and without zstandard, are read and packed again to the same bytes."""
    paths = [tmp_path / "zstd", tmp_path / "zlib"]
    run_python("-c", JAX_WRITES, *map(str, paths))
    for path, codec in zip(paths, (Codec.ZSTD, Codec.ZLIB), strict=True):
        entry = unpack_executable(path.read_bytes())
        assert (entry.codec, entry.seconds, entry.payload) == (codec, 4321, b"executable" * 99)
        assert pack_executable(entry.payload, entry.seconds, entry.codec) == path.read_bytes()


def test_an_h200_entry_is_read() -> None:
    """A zlib entry that JAX wrote on a GPU machine is read."""
    entry = unpack_executable(h200_entry("jit_stage"))
    assert (entry.codec, entry.seconds) == (Codec.ZLIB, 0)
    assert b"jit_stage" in entry.payload


@pytest.mark.parametrize("seconds", [-1, 1 << 32])
def test_seconds_must_fit_four_bytes(seconds: int) -> None:
    """Compile seconds beyond four bytes are refused as a wrong argument."""
    with pytest.raises(InvalidValue):
        pack_executable(b"", seconds, Codec.ZSTD)


def test_jax_has_no_uncompressed_executables() -> None:
    """Codec none is refused for executables."""
    with pytest.raises(InvalidValue):
        pack_executable(b"", 0, Codec.NONE)


@BOTH
@pytest.mark.parametrize("content", [b"", b"\x00", b"\x00\x00\x01"])
def test_content_without_seconds_is_refused(codec: Codec, content: bytes) -> None:
    """Fewer than four bytes of content are damage."""
    data = zlib.compress(content) if codec is Codec.ZLIB else zstandard.ZstdCompressor().compress(content)
    with pytest.raises(DamagedEntry):
        unpack_executable(data)


@BOTH
def test_every_truncation_is_refused(codec: Codec) -> None:
    """An entry cut anywhere is damage."""
    data = pack_executable(random.Random(1).randbytes(300), 7, codec)
    for end in range(len(data)):
        with pytest.raises(DamagedEntry):
            unpack_executable(data[:end])


@BOTH
def test_seconds_are_read_from_the_head(codec: Codec) -> None:
    """The first 132 KiB of an entry yield the seconds, however well it compresses."""
    for payload in (b"", b"abc", random.Random(2).randbytes(1 << 20), bytes(8 << 20)):
        data = pack_executable(payload, 0x01020304, codec)
        assert executable_seconds(data[: 132 << 10]) == 0x01020304


@BOTH
def test_seconds_of_a_too_short_head_are_unknown(codec: Codec) -> None:
    """If the head is too short to decompress four bytes, the seconds are None."""
    data = pack_executable(random.Random(3).randbytes(100), 5, codec)
    assert executable_seconds(data[:6]) is None
    assert executable_seconds(b"") is None
    assert executable_seconds(b"\x00" * 100) is None
    assert executable_seconds(data[:4] + b"\xff" * 100) is None


@given(st.binary(max_size=300), st.sampled_from([b"", b"\x28\xb5\x2f\xfd", b"\x78\x9c"]))
def test_random_bytes_raise_nothing_but_damage(data: bytes, magic: bytes) -> None:
    """Any bytes unpack to an executable or raise DamagedEntry."""
    executable_seconds(magic + data)
    for read in (unpack_executable, unseal, read_header):
        with contextlib.suppress(DamagedEntry):
            read(magic + data)
