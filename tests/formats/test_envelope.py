"""The sealed envelope of traces and graphs, and damage in any entry."""

import contextlib
import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings, strategies as st

from jcache.errors import DamagedEntry, InvalidValue
from jcache.formats.envelope import Codec, Envelope, EnvelopeHeader, open_envelope, read_header, seal, unseal
from jcache.formats.executable import executable_seconds, pack_executable, unpack_executable
from tests.helpers.jax_entries import cpu_entries_fixture as cpu_entries_fixture, h200_entry


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


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
    """A sealed payload is unsealed unchanged, and the header is read without the payload."""
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
    """Each flipped bit of an envelope is damage."""
    data = small_envelope(codec=codec)
    for position in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            with pytest.raises(DamagedEntry):
                unseal(bytes(flipped))


def test_every_flipped_bit_before_the_payload_is_detected_by_the_header() -> None:
    """Each flipped bit of prefix and header is damage even if only the header is read."""
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
    """Sealing pieces of a payload gives the same as sealing the whole, even if items of a piece exceed a byte."""
    pieces: list[Any] = [b"pay", memoryview(b"load").cast("H"), b""]
    assert small_envelope(pieces, codec) == small_envelope(b"payload", codec)


def test_an_uncompressed_payload_is_opened_where_it_lies() -> None:
    """Opening an envelope copies no uncompressed payload, and returns the same as unsealing."""
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
    """A header that somebody writes by hand, after the module's grammar, is read."""
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
    """A payload that decompresses to another length than the header's is damage."""
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
    """A real entry or envelope with bytes changed, cut or inserted is read or raises DamagedEntry."""
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
    """Importing the module imports no codec, JSON or JAX."""
    code = "import sys; import jcache.formats.envelope, jcache.formats.inspection; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"zstandard", "zlib", "hashlib", "json", "jax", "jaxlib", "numpy"} & set(result.stdout.split())
