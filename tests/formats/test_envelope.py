"""The bytes of entries: JAX's executables and the sealed envelope."""

import contextlib
import hashlib
import json
import random
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings, strategies as st

from jcache.errors import DamagedEntry, InvalidValue
from jcache.formats.envelope import (
    Codec,
    Envelope,
    EnvelopeHeader,
    codec_of,
    executable_seconds,
    open_envelope,
    pack_executable,
    read_header,
    seal,
    unpack_executable,
    unseal,
)
from tests.helpers.jax_entries import JaxEntries, cpu_entries_fixture as cpu_entries_fixture, h200_entry, run_python

BOTH = pytest.mark.parametrize("codec", [Codec.ZSTD, Codec.ZLIB])
EITHER = st.sampled_from([Codec.ZSTD, Codec.ZLIB])


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def zstd_stream(content: bytes) -> bytes:
    """A frame that does not declare its content size."""
    stream = zstandard.ZstdCompressor().compressobj()
    return stream.compress(content) + stream.flush()


def peak_memory(data: bytes, limit: int) -> int:
    """Bytes that Python allocated at most while an entry was refused."""
    tracemalloc.start()
    try:
        with pytest.raises(DamagedEntry):
            unpack_executable(data, limit=limit)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# Executables


@given(st.binary(max_size=5000), st.integers(0, (1 << 32) - 1), EITHER)
def test_executables_round_trip(payload: bytes, seconds: int, codec: Codec) -> None:
    """What is packed is unpacked: codec, seconds and executable."""
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


def test_the_codec_comes_from_the_magic() -> None:
    """The first bytes name the codec, and bytes that name none are not taken for uncompressed."""
    assert codec_of(b"\x28\xb5\x2f\xfd\x00") is Codec.ZSTD
    assert codec_of(b"\x78\x9c") is Codec.ZLIB
    assert codec_of(b"\x78\x9d") is None
    assert codec_of(b"\x28\xb5\x2f") is None
    assert codec_of(b"") is None
    for data in (b"", b"\x00" * 100, b"\x7fELF"):
        with pytest.raises(DamagedEntry):
            unpack_executable(data)


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


@pytest.mark.parametrize("pack", [zlib.compress, zstandard.ZstdCompressor().compress, zstd_stream])
@pytest.mark.parametrize("behind", [b"\x00", b"garbage", "again"])
def test_bytes_behind_the_end_are_refused(pack: object, behind: bytes | str) -> None:
    """Anything behind the frame or stream, be it another one, is damage."""
    assert callable(pack)
    data = pack(b"\x00" * 1000)
    with pytest.raises(DamagedEntry):
        unpack_executable(data + (behind if isinstance(behind, bytes) else data))


def test_an_empty_frame_with_bytes_behind_is_refused() -> None:
    """A frame without content is checked to its end as well."""
    empty = zstandard.ZstdCompressor().compress(b"")
    for data in (empty, empty + b"x", empty[:-1]):
        with pytest.raises(DamagedEntry):
            unpack_executable(data)


@pytest.mark.parametrize("delta", [-99_990, -1, 1, 100, 1 << 20])
def test_a_wrong_declared_size_is_refused(delta: int) -> None:
    """A frame that yields more or less than it declares is damage."""
    data = bytearray(zstandard.ZstdCompressor().compress(b"a" * 100_000))
    assert int.from_bytes(data[5:9], "little") == 100_000
    data[5:9] = (100_000 + delta).to_bytes(4, "little")
    with pytest.raises(DamagedEntry):
        unpack_executable(bytes(data))


def test_frames_without_a_declared_size_are_read() -> None:
    """A frame of unknown content size is read as long as it stays within the limit."""
    content = (9).to_bytes(4, "big") + b"x" * 5_000_000
    data = zstd_stream(content)
    assert unpack_executable(data).payload == content[4:]
    assert unpack_executable(data, limit=len(content)).seconds == 9
    with pytest.raises(DamagedEntry):
        unpack_executable(data, limit=len(content) - 1)


@pytest.mark.parametrize(
    "pack", [zlib.compress, zstandard.ZstdCompressor().compress, zstd_stream], ids=["zlib", "declared", "undeclared"]
)
def test_bombs_are_refused_in_bounded_memory(pack: object) -> None:
    """What would yield 300 MB is refused under a limit of 1 MB without taking more than a few."""
    assert callable(pack)
    assert peak_memory(pack(bytes(300 << 20)), limit=1 << 20) < 8 << 20


def test_an_impossible_declared_size_is_refused_before_it_is_allocated() -> None:
    """A frame of a few bytes that declares gigabytes cannot be true and costs no memory."""
    lie = b"\x28\xb5\x2f\xfd\xe0" + (7 << 30).to_bytes(8, "little") + b"\x01\x00\x00"
    assert peak_memory(lie, limit=8 << 30) < 1 << 20


@BOTH
def test_seconds_are_read_from_the_head(codec: Codec) -> None:
    """The first 132 KiB of an entry tell the seconds, whether it compresses well or not at all."""
    for payload in (b"", b"abc", random.Random(2).randbytes(1 << 20), bytes(8 << 20)):
        data = pack_executable(payload, 0x01020304, codec)
        assert executable_seconds(data[: 132 << 10]) == 0x01020304


@BOTH
def test_seconds_of_a_too_short_head_are_unknown(codec: Codec) -> None:
    """A head that ends before the first bytes can be known gives None."""
    data = pack_executable(random.Random(3).randbytes(100), 5, codec)
    assert executable_seconds(data[:6]) is None
    assert executable_seconds(b"") is None
    assert executable_seconds(b"\x00" * 100) is None
    assert executable_seconds(data[:4] + b"\xff" * 100) is None


@given(st.binary(max_size=300), st.sampled_from([b"", b"\x28\xb5\x2f\xfd", b"\x78\x9c"]))
def test_random_bytes_raise_nothing_but_damage(data: bytes, magic: bytes) -> None:
    """Whatever the bytes, unpacking ends in an executable or in DamagedEntry."""
    executable_seconds(magic + data)
    for read in (unpack_executable, unseal, read_header):
        with contextlib.suppress(DamagedEntry):
            read(magic + data)


# The sealed envelope


def small_envelope(payload: bytes | Sequence[bytes | memoryview] = b"payload", codec: Codec = Codec.ZSTD) -> bytes:
    return seal(
        payload,
        kind="traces",
        name="step",
        key="step-" + "0" * 64,
        key_parts={"code": "ab"},
        producers={"jax": "0.10.2"},
        build_seconds=0.25,
        created_ns=1_700_000_000_000_000_000,
        parents=("p",),
        codec=codec,
    )


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(
    payload=st.binary(max_size=2000),
    name=texts,
    parts=st.dictionaries(texts, texts, max_size=4),
    parents=st.lists(texts, max_size=3).map(tuple),
    seconds=st.floats(0, allow_nan=False, allow_infinity=False),
    codec=st.sampled_from([Codec.ZSTD, Codec.NONE]),
)
def test_envelopes_round_trip(
    payload: bytes, name: str, parts: dict[str, str], parents: tuple[str, ...], seconds: float, codec: Codec
) -> None:
    """What is sealed is unsealed, and the header reads the same without the payload."""
    data = seal(
        payload, kind="graphs", name=name, key="k", key_parts=parts, producers=parts, build_seconds=seconds,
        created_ns=5, parents=parents, codec=codec,
    )  # fmt: skip
    envelope = unseal(data)
    assert isinstance(envelope, Envelope)
    assert envelope.payload == payload
    header = envelope.header
    assert (header.name, header.key_parts, header.parents) == (name, parts, parents)
    assert (header.build_seconds, header.payload_codec, header.payload_length) == (seconds, codec, len(payload))
    assert read_header(data) == header


@pytest.mark.parametrize("codec", [Codec.ZSTD, Codec.NONE])
def test_every_flipped_bit_of_an_envelope_is_detected(codec: Codec) -> None:
    """Each single bit of an envelope, flipped, is damage."""
    data = small_envelope(codec=codec)
    for position in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            with pytest.raises(DamagedEntry):
                unseal(bytes(flipped))


def test_every_flipped_bit_before_the_payload_is_detected_by_the_header() -> None:
    """Each single bit of prefix and header, flipped, is damage even when only the header is read."""
    data = small_envelope(payload=b"", codec=Codec.NONE)
    for position in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            with pytest.raises(DamagedEntry):
                read_header(bytes(flipped))


def test_every_truncation_of_an_envelope_is_detected() -> None:
    """An envelope cut anywhere is damage, as is one with bytes behind it."""
    data = small_envelope()
    for end in range(len(data)):
        with pytest.raises(DamagedEntry):
            unseal(data[:end])
    for more in (b"\x00", b"\n", data):
        with pytest.raises(DamagedEntry):
            unseal(data + more)


def test_the_header_can_be_read_by_people() -> None:
    """The second line of an envelope is its header as JSON, and its lines end where the payload begins."""
    first, header, rest = small_envelope(b"payload", Codec.NONE).split(b"\n", 2)
    assert first == b"\x89jcache"
    assert json.loads(header[header.index(b"{") :])["name"] == "step"
    assert rest == b"payload"


@given(name=texts, payload=st.binary(max_size=200))
def test_payloads_are_aligned(name: str, payload: bytes) -> None:
    """Every payload starts at a multiple of 64 bytes, whatever the header holds."""
    data = seal(payload, kind="graphs", name=name, key="k", build_seconds=1.0, created_ns=5, codec=Codec.NONE)
    assert (len(data) - len(payload)) % 64 == 0
    assert data.endswith(b"\n" + payload)


@pytest.mark.parametrize("codec", [Codec.ZSTD, Codec.NONE])
def test_a_payload_in_pieces_is_one(codec: Codec) -> None:
    """Pieces of a payload are sealed as the whole of it would be, also those that count in other units than bytes."""
    pieces: list[Any] = [b"pay", memoryview(b"load").cast("H"), b""]
    assert small_envelope(pieces, codec) == small_envelope(b"payload", codec)


def test_an_uncompressed_payload_is_opened_where_it_lies() -> None:
    """Opening an envelope makes no copy of a payload that is not compressed, and gives what unsealing gives."""
    data = bytearray(small_envelope(b"payload", Codec.NONE))
    header, payload = open_envelope(memoryview(data))
    assert isinstance(payload, memoryview) and bytes(payload) == b"payload"
    assert header == unseal(bytes(data)).header
    data[-1:] = b"t"
    assert bytes(payload) == b"payloat"


def resealed(header: bytes, payload: bytes = b"") -> bytes:
    """An envelope with a correct seal around any header."""
    prefix = small_envelope()[:12] + len(header).to_bytes(4, "big") + len(payload).to_bytes(8, "big")
    return prefix + hashlib.sha256(prefix + header).digest() + header + payload


def aligned(header: str) -> str:
    """A header with blanks and a line feed, so that the payload starts at a multiple of 64."""
    return header + " " * (-(56 + len(header.encode(errors="surrogatepass")) + 1) % 64) + "\n"


def bare_json(**changes: object) -> str:
    record = {
        "kind": "traces", "name": "n", "key": "k", "key_parts": {}, "producers": {}, "build_seconds": 1.0,
        "created_ns": 1, "parents": [], "payload_codec": "none", "payload_length": 0, "payload_sha256": sha256(b""),
    }  # fmt: skip
    return json.dumps(record | changes, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def header_json(**changes: object) -> str:
    return aligned(bare_json(**changes))


def test_a_header_by_hand_is_accepted() -> None:
    """The grammar in the module is what the code follows: a header written by hand is read."""
    assert isinstance(unseal(resealed(header_json().encode())).header, EnvelopeHeader)


@pytest.mark.parametrize(
    "header",
    [
        header_json(name=1),
        header_json(key_parts=[]),
        header_json(key_parts={"a": 1}),
        header_json(parents="p"),
        header_json(parents=[1]),
        header_json(build_seconds=1),
        header_json(build_seconds=-1.0),
        header_json(build_seconds=float("nan")),
        header_json(build_seconds=float("inf")),
        header_json(created_ns=True),
        header_json(created_ns=-1),
        header_json(created_ns=1 << 63),
        header_json(payload_length=1.0),
        header_json(payload_codec="zlib"),
        header_json(payload_codec=[]),
        header_json(payload_sha256="00"),
        header_json(more=1),
        aligned(bare_json().replace('"name":"n",', "")),
        aligned(bare_json().replace('"name":"n"', '"name":"m","name":"n"')),
        aligned(bare_json().replace(":", ": ")),
        aligned(" " + bare_json()),
        bare_json(),
        bare_json() + "\n",
        header_json() + " " * 64,
        header_json().replace(" \n", "\t\n"),
        header_json().replace(" \n", "\n\n"),
        aligned(bare_json() + " " * 64),
        aligned("[]"),
        aligned("null"),
        aligned(""),
        "",
        aligned("[" * 100_000 + "]" * 100_000),
        header_json(name="\ud800").encode("utf-8", "surrogatepass").decode("latin-1"),
    ],
)
def test_headers_of_another_type_are_refused(header: str) -> None:
    """A header with a correct seal but a wrong type, range, field, order or blank is damage."""
    with pytest.raises(DamagedEntry):
        read_header(resealed(header.encode("latin-1")))


def test_a_header_that_is_not_utf8_is_refused() -> None:
    """Bytes that are no UTF-8 are damage, with a correct seal too."""
    with pytest.raises(DamagedEntry):
        read_header(resealed(b"\xff\xfe" + b" " * 5 + b"\n"))


def test_a_payload_of_another_length_is_refused() -> None:
    """A payload that decompresses to another length than the header says is damage."""
    stored = zstandard.ZstdCompressor().compress(b"abc")
    for length in (0, 2, 3, 4, 1 << 40):
        header = header_json(payload_codec="zstd", payload_length=length, payload_sha256=sha256(stored))
        with contextlib.nullcontext() if length == 3 else pytest.raises(DamagedEntry, match=r"payload|claim"):
            unseal(resealed(header.encode(), stored))


def test_large_payloads_are_refused_by_the_limit() -> None:
    """An envelope whose payload exceeds the limit is refused."""
    data = small_envelope(bytes(1000))
    assert len(unseal(data, limit=1000).payload) == 1000
    with pytest.raises(DamagedEntry):
        unseal(data, limit=999)


def test_a_header_of_impossible_length_costs_nothing() -> None:
    """A header length beyond 16 MiB or beyond the bytes is refused before anything is read."""
    data = bytearray(small_envelope())
    for length in (len(data), (16 << 20) + 1, (1 << 32) - 1):
        data[12:16] = length.to_bytes(4, "big")
        with pytest.raises(DamagedEntry):
            read_header(bytes(data))


@pytest.mark.parametrize(
    ("field", "value"),
    [("name", 1), ("build_seconds", 1), ("build_seconds", float("nan")), ("created_ns", 1.5), ("name", "\ud800")],
)
def test_wrong_fields_are_not_sealed(field: str, value: object) -> None:
    """Sealing refuses a field that unsealing would refuse."""
    fields: dict[str, object] = {"kind": "traces", "name": "n", "key": "k", "build_seconds": 1.0, "created_ns": 1}
    with pytest.raises(InvalidValue):
        seal(b"", **(fields | {field: value}))  # type: ignore[arg-type]


def test_zlib_is_no_codec_of_envelopes() -> None:
    """Sealing with zlib is refused as a wrong argument."""
    with pytest.raises(InvalidValue):
        small_envelope(codec=Codec.ZLIB)


@settings(max_examples=300)
@given(st.data())
def test_mutated_entries_raise_nothing_but_damage(data: st.DataObject) -> None:
    """A real entry or envelope with bytes changed, cut or inserted is read or is DamagedEntry."""
    entry = data.draw(
        st.sampled_from([h200_entry("jit_stage"), small_envelope(), pack_executable(b"x" * 99, 1, Codec.ZSTD)])
    )
    start = data.draw(st.integers(0, len(entry)))
    end = data.draw(st.integers(start, min(len(entry), start + 8)))
    mutated = entry[:start] + data.draw(st.binary(max_size=8)) + entry[end:]
    executable_seconds(mutated)
    for read in (unpack_executable, unseal, read_header):
        with contextlib.suppress(DamagedEntry):
            read(mutated)


def test_importing_brings_no_compressor() -> None:
    """Importing the module imports neither a codec nor JSON nor JAX."""
    code = "import sys; import jcache.formats.envelope, jcache.formats.inspection; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"zstandard", "zlib", "hashlib", "json", "jax", "jaxlib", "numpy"} & set(result.stdout.split())
