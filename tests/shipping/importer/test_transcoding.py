"""Executables in another codec."""

import pytest
from hypothesis import given, strategies as st

from jcache.errors import DamagedEntry
from jcache.formats.compression import Codec, codec_of
from jcache.formats.envelope import pack_executable, unpack_executable
from jcache.shipping.importer.transcoding import transcode
from tests.helpers.jax_entries import JaxEntries, cpu_entries_fixture as cpu_entries_fixture

BOTH = st.sampled_from([Codec.ZSTD, Codec.ZLIB])


@given(payload=st.binary(min_size=1, max_size=4096), seconds=st.integers(0, 2**32 - 1), before=BOTH, after=BOTH)
def test_the_content_stays(payload: bytes, seconds: int, before: Codec, after: Codec) -> None:
    """Executable and seconds are the same in the other codec, and the bytes are those that JAX would write."""
    data = transcode(pack_executable(payload, seconds, before), after)
    assert codec_of(data) is after
    assert unpack_executable(data).payload == payload and unpack_executable(data).seconds == seconds
    assert data == pack_executable(payload, seconds, after)


@pytest.mark.parametrize("codec", [Codec.ZSTD, Codec.ZLIB])
def test_the_same_codec(codec: Codec) -> None:
    """What has the codec already is given back as it is, to the byte."""
    data = pack_executable(b"\x0aan executable", 1, codec)
    assert transcode(data, codec) == data


@pytest.mark.parametrize("data", [b"", b"nonsense", pack_executable(b"\x0a" * 100, 1, Codec.ZSTD)[:-1]])
def test_damage(data: bytes) -> None:
    """What is no whole entry is refused, whatever the codec."""
    with pytest.raises(DamagedEntry):
        transcode(data, Codec.ZLIB)


def test_the_limit() -> None:
    """An entry that holds more than is allowed is refused."""
    with pytest.raises(DamagedEntry):
        transcode(pack_executable(b"\x0a" * 1000, 1, Codec.ZSTD), Codec.ZLIB, limit=500)


@pytest.mark.smoke
@pytest.mark.jax
def test_back_and_forth(cpu_entries: JaxEntries) -> None:
    """A real entry is the same, to the byte, after it was zlib in between."""
    data = cpu_entries.bytes("jit_named_step")
    assert transcode(transcode(data, Codec.ZLIB), Codec.ZSTD) == data
