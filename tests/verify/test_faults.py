"""Damage in the bytes of an entry has a name, and a sound entry has none."""

import itertools

import pytest
from hypothesis import given, strategies as st

from jcache.findings import Damage
from jcache.formats.envelope import Codec, seal
from jcache.formats.executable import pack_executable, unpack_executable
from jcache.layout import Kind
from jcache.verify.faults import fault_of
from tests.helpers.entries import executable, key
from tests.helpers.jax_entries import h200_entry, number, text, varint

ZSTD, ZLIB = executable(), executable(codec=Codec.ZLIB)


CPU_BODY = text(1, text(1, text(1, text(1, b"jit_step"))) + number(5, 2)) + text(2, b"")
METADATA = text(2, b"pjrt_ifrt") + text(7, b"jit_step")


def packed(content: bytes, codec: Codec = Codec.ZSTD) -> bytes:
    return pack_executable(content, 1, codec)


def sealed(kind: str = "traces", a_key: str = key(1), payload: bytes = b"a trace " * 50) -> bytes:
    return seal(payload, kind=kind, name="jit_step", key=a_key, build_seconds=1.0, created_ns=1)


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def with_metadata(body: bytes, metadata: bytes = METADATA) -> bytes:
    return packed(varint(len(metadata)) + metadata + body)


BODIES = [b"", b"\0" * 99, b"a serialized TPU program" * 9]
TPU = METADATA + text(9, text(3, text(2, text(2, text(1, b"tpu")))))


@pytest.mark.parametrize("data", [ZSTD, ZLIB, packed(CPU_BODY), with_metadata(CPU_BODY)], ids=itertools.count())
def test_whole_entries_are_sound(data: bytes) -> None:
    """Either codec, with or without metadata, also where the key has no name to compare."""
    assert fault_of(data, Kind.EXECUTABLES, key(1)) is None
    assert fault_of(data, Kind.EXECUTABLES, "0" * 64) is None


@pytest.mark.parametrize("name", ["jit_stage", "jit_bitwise_or", "jit_convert_element_type"])
@pytest.mark.parametrize("codec", [Codec.ZSTD, Codec.ZLIB])
def test_entries_of_a_gpu_are_sound(name: str, codec: Codec) -> None:
    """Real entries of an H200 have nothing wrong with them, in either codec."""
    data = packed(unpack_executable(h200_entry(name)).payload, codec)
    assert fault_of(data, Kind.EXECUTABLES, key(1, name)) is None


@pytest.mark.parametrize(
    ("data", "damage"),
    [
        (b"", Damage.TORN),
        (ZSTD[:9], Damage.TORN),
        (ZSTD[:-5], Damage.TORN),
        (ZLIB[:-5], Damage.TORN),
        (packed(bytes(300_000) + ZLIB * 9)[:60], Damage.TORN),
        (b"junk" * 9, Damage.CODEC),
        (flipped(ZSTD, 1), Damage.CODEC),
        (ZSTD + b"x", Damage.COMPRESSION),
        (ZSTD + ZSTD, Damage.COMPRESSION),
        (ZLIB + b"x", Damage.COMPRESSION),
        (flipped(ZLIB, len(ZLIB) - 1), Damage.COMPRESSION),
        (bytes.fromhex("28b52ffd a0 00000080") + b"\1" * 40, Damage.COMPRESSION),
        (packed(b"\x7fELF" + CPU_BODY[:-1]), Damage.GRAMMAR),
        (with_metadata(CPU_BODY[:-4]), Damage.GRAMMAR),
        (with_metadata(b"\x7fELF" + CPU_BODY, METADATA[:-1]), Damage.GRAMMAR),
        (packed(CPU_BODY.replace(b"step", b"stop")), Damage.NAME),
        (with_metadata(CPU_BODY, METADATA.replace(b"step", b"stop")), Damage.NAME),
    ],
    ids=itertools.count(),
)
def test_damage_has_a_name_and_evidence(data: bytes, damage: Damage) -> None:
    """Bytes that end early are torn; faults of codec, compression, grammar and name are distinguished, each with a
    sentence.
    """
    fault = fault_of(data, Kind.EXECUTABLES, key(1))
    assert fault is not None and fault.damage is damage
    assert fault.evidence.endswith(".") and "\n" not in fault.evidence


def test_every_flip_in_a_gpu_body_is_found() -> None:
    """Each chunk of a Riegeli body has a hash, so every changed or missing byte is found, even under zstd."""
    content = unpack_executable(h200_entry("jit_stage")).payload
    start = content.index(bytes.fromhex("83af70d10d884a3f"))
    for changed in (content[:-20], *(flipped(content, place) for place in range(start, len(content), 37))):
        fault = fault_of(packed(changed), Kind.EXECUTABLES, key(1, "jit_stage"))
        assert fault is not None and fault.damage is Damage.GRAMMAR


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize(
    ("platforms", "damage"), [(None, Damage.OPAQUE), ({"cpu", "tpu"}, Damage.OPAQUE), ({"cpu", "cuda"}, Damage.GRAMMAR)]
)
def test_a_plug_ins_body_is_its_own_affair(body: bytes, platforms: set[str] | None, damage: Damage) -> None:
    """A body that we cannot read is not checked if the metadata name its platform, and never loaded on another one."""
    known = None if platforms is None else frozenset(platforms)
    fault = fault_of(with_metadata(body, TPU), Kind.EXECUTABLES, key(1), platforms=known)
    assert fault is not None and fault.damage is damage and fault.evidence.startswith("It was compiled for tpu, ")
    wrong = fault_of(with_metadata(body, TPU), Kind.EXECUTABLES, key(1, "jit_other"), platforms=known)
    assert wrong is not None and wrong.damage is (Damage.NAME if damage is Damage.OPAQUE else Damage.GRAMMAR)


@given(st.binary(max_size=3000), st.sampled_from([Codec.ZSTD, Codec.ZLIB]))
def test_framed_random_bytes_are_damage(content: bytes, codec: Codec) -> None:
    """Random bytes in a valid frame are damage, unless the process has a device whose programs jcache cannot read."""
    data = packed(content, codec)
    found = fault_of(data, Kind.EXECUTABLES, key(1))
    on_cpu = fault_of(data, Kind.EXECUTABLES, key(1), platforms=frozenset({"cpu", "cuda"}))
    assert found == on_cpu and found is not None and found.damage in (Damage.GRAMMAR, Damage.NAME)


@pytest.mark.parametrize("body", BODIES[1:])
def test_a_process_may_tell_what_an_old_jax_did_not(body: bytes) -> None:
    """Without metadata, before jax 0.9, a body may belong to the process's own device, unless it shows damage."""
    tpu = frozenset({"cpu", "tpu"})
    fault = fault_of(packed(body), Kind.EXECUTABLES, key(1), platforms=tpu)
    assert fault is not None and fault.damage is Damage.OPAQUE
    for damaged in (packed(b"\x7fELF" + body), with_metadata(body), packed(b"\xff" + METADATA + body)):
        fault = fault_of(damaged, Kind.EXECUTABLES, key(1), platforms=tpu)
        assert fault is not None and fault.damage is Damage.GRAMMAR


def test_names_beyond_ascii_are_the_same_name() -> None:
    """XLA keeps only ASCII of a function's name, JAX's key keeps all of it: no damage."""
    data = with_metadata(CPU_BODY, text(2, b"pjrt_ifrt") + text(7, b"jit_gr____e"))
    assert fault_of(data, Kind.EXECUTABLES, key(1, "jit_größe")) is None


@pytest.mark.parametrize("kind", [Kind.TRACES, Kind.GRAPHS])
def test_envelopes_are_sound_only_as_they_were_sealed(kind: Kind) -> None:
    """Any change breaks the seal; another key or kind is another entry's content."""
    data = sealed(kind)
    assert fault_of(data, kind, key(1)) is None
    for damaged in (data + b"x", flipped(data, 3), flipped(data, len(data) - 1), ZSTD):
        fault = fault_of(damaged, kind, key(1))
        assert fault is not None and fault.damage is Damage.SEAL
    for length in (10, 100, len(data) - 1):
        torn = fault_of(data[:length], kind, key(1))
        assert torn is not None and torn.damage in (Damage.TORN, Damage.SEAL)
    other = Kind.GRAPHS if kind is Kind.TRACES else Kind.TRACES
    for wrong in (fault_of(data, kind, key(2)), fault_of(data, other, key(1))):
        assert wrong is not None and wrong.damage is Damage.NAME


def test_quick_does_without_decompression() -> None:
    """A quick check covers the codec and an envelope's seal, but not compressed content."""
    assert fault_of(ZLIB[:-5], Kind.EXECUTABLES, key(1), quick=True) is None
    junk = fault_of(b"junk", Kind.EXECUTABLES, key(1), quick=True)
    assert junk is not None and junk.damage is Damage.CODEC
    data = sealed()
    assert fault_of(data, Kind.TRACES, key(1), quick=True) is None
    for place in (80, len(data) - 1):
        changed = fault_of(flipped(data, place), Kind.TRACES, key(1), quick=True)
        assert changed is not None and changed.damage is Damage.SEAL
