"""The facts in an executable entry."""

import random
import zlib

import pytest
import zstandard
from hypothesis import given, settings, strategies as st

from jcache.errors import DamagedEntry
from jcache.formats import riegeli
from jcache.formats.envelope import Codec
from jcache.formats.executable import pack_executable, unpack_executable
from jcache.formats.inspection import Inspection, inspect
from jcache.formats.protobuf import Message, read_varint
from tests.helpers.clocks import lines_run
from tests.helpers.jax_entries import (
    LAMBDA_LINE,
    NAMED_STEP_LINE,
    JaxEntries,
    cpu_entries_fixture as cpu_entries_fixture,
    h200_entry,
    number,
    text,
    varint,
)


def packed(content: bytes) -> bytes:
    return pack_executable(content, 3, Codec.ZSTD)


# Entries of the installed JAX


@pytest.mark.full
@pytest.mark.smoke(since="0.6")
@pytest.mark.jax
def test_a_cpu_entry_tells_what_was_compiled(cpu_entries: JaxEntries) -> None:
    """Name, sizes, shapes, source and cache path are those of the program that JAX compiled."""
    data = cpu_entries.bytes("jit_named_step")
    found = inspect(data)
    assert found.grammar_ok, found.problems
    assert (found.module_name, found.platform, found.codec) == ("jit_named_step", "cpu", Codec.ZSTD)
    assert (found.stored_bytes, found.raw_bytes) == (len(data), len(unpack_executable(data).payload))
    assert found.output_shapes == ("f32[128,20]", "s8[128,20]", "pred[20]")
    assert (found.source_file, found.source_line) == (str(cpu_entries.program), NAMED_STEP_LINE)
    assert found.source_function == "named_step"
    assert found.cache_path == str(cpu_entries.directory)
    assert found.body_format == "proto"


@pytest.mark.jax
def test_a_cpu_entry_names_the_cpu(cpu_entries: JaxEntries) -> None:
    """The entry names the CPU that it was compiled for and its features, and nothing that belongs to a GPU."""
    found = inspect(cpu_entries.bytes("jit_named_step"))
    assert found.cpu_name
    assert found.cpu_features
    assert all(feature[0] in "+-" for feature in found.cpu_features)
    assert found.abi_version is None
    assert found.compute_capability is None


@pytest.mark.jax
def test_a_lambda_is_found_at_its_line(cpu_entries: JaxEntries) -> None:
    """A lambda, whose name JAX rewrites, is located at its own line."""
    found = inspect(cpu_entries.bytes("jit__lambda*"))
    assert (found.source_file, found.source_line) == (str(cpu_entries.program), LAMBDA_LINE)


@pytest.mark.jax
def test_entries_older_than_the_metadata_are_read(cpu_entries: JaxEntries) -> None:
    """Without IFRT's metadata, before jax 0.9, name and shapes come from the HLO module."""
    payload = unpack_executable(cpu_entries.bytes("jit_named_step")).payload
    length, start = read_varint(memoryview(payload), 0)
    new, old = inspect(packed(payload)), inspect(packed(payload[start + length :]))
    assert old.grammar_ok
    for name in ("module_name", "platform", "output_shapes", "source_file", "source_line", "cpu_name", "cache_path"):
        assert getattr(old, name) == getattr(new, name) is not None


@pytest.mark.jax
def test_object_code_is_not_walked(cpu_entries: JaxEntries) -> None:
    """Inspecting 60 MB of object code takes as many steps as inspecting a few bytes of it."""
    payload = unpack_executable(cpu_entries.bytes("jit_named_step")).payload
    length, start = read_varint(memoryview(payload), 0)
    body = Message(payload[start + length :])
    executable, options = body.slice(1), body.slice(2)
    assert executable is not None
    assert options is not None
    larger = bytes(executable) + text(8, text(1, bytes(60 << 20)))
    data = packed(payload[: start + length] + text(1, larger) + text(2, bytes(options)))
    assert lines_run(lambda: inspect(data), at_most=100_000)
    found = inspect(data)
    assert found.grammar_ok
    assert found.cpu_name


# Entries of an H200


@pytest.mark.parametrize(
    ("name", "shapes"),
    [("jit_bitwise_or", ("pred[]",)), ("jit_stage", ("s32[7]",)), ("jit_convert_element_type", ("f32[3]",))],
)
def test_a_gpu_entry_tells_its_toolkit(name: str, shapes: tuple[str, ...]) -> None:
    """Device and toolkit versions are read from the Riegeli body of a GPU entry."""
    found = inspect(h200_entry(name))
    assert found.grammar_ok, found.problems
    assert (found.module_name, found.platform, found.body_format) == (name, "cuda", "riegeli")
    assert found.output_shapes == shapes
    assert found.abi_version == {"toolkit": "13.0.0", "cudnn": "9.19.0", "cub": "3.2.0"}
    assert found.compute_capability == "9.0"
    assert found.codec is Codec.ZLIB
    assert found.cache_path is not None
    assert found.cache_path.endswith("/lru")


def test_a_program_of_jax_itself_is_placed_at_its_caller() -> None:
    """If no frame has the function's name, the source is the innermost common frame, and the result says so."""
    found = inspect(h200_entry("jit_bitwise_or"))
    assert found.source_file is not None
    assert found.source_file.endswith("diffrax/_solution.py")
    assert (found.source_line, found.source_function) == (54, "is_okay")


def test_a_program_without_stack_frames_has_no_source() -> None:
    """Without stack frames, the source is None."""
    found = inspect(h200_entry("jit_stage"))
    assert (found.source_file, found.source_line, found.source_function) == (None, None, None)


# Bodies made by hand


def cpu_body(index: bytes, name: bytes = b"jit_f") -> bytes:
    module = text(1, name) + text(17, index)
    return text(1, text(1, text(1, module)) + number(5, 2)) + text(2, b"")


def frames(*pairs: tuple[int, int]) -> bytes:
    return b"".join(text(4, number(1, place) + number(2, parent)) for place, parent in pairs)


FILES = text(1, b"a.py") + text(2, b"main") + text(2, b"C.<locals>.f") + text(2, b"g")
PLACES = b"".join(
    text(3, number(1, 1) + number(2, function) + number(3, line))
    for function, line in [(1, 50), (2, 9), (2, 8), (3, 7)]
)


def test_the_source_is_the_first_line_in_the_function() -> None:
    """The source is the first line in the function with the module's name, which is reported with its
    qualified name.
    """
    found = inspect(packed(cpu_body(FILES + PLACES + frames((1, 0), (2, 1), (3, 1)))))
    assert (found.source_file, found.source_line, found.source_function) == ("a.py", 8, "C.<locals>.f")


def test_the_source_of_a_foreign_name_is_the_shared_frame() -> None:
    """With another module name, the source is the last frame before the stacks diverge."""
    index = FILES + PLACES + frames((1, 0), (4, 1), (2, 2), (3, 2))
    found = inspect(packed(cpu_body(index, b"jit_other")))
    assert (found.source_line, found.source_function) == (7, "g")


def test_stacks_that_share_nothing_have_no_source() -> None:
    """If the stacks have two roots and no function has the name, the source is None, and not one of the two."""
    found = inspect(packed(cpu_body(FILES + PLACES + frames((1, 0), (4, 0)), b"jit_other")))
    assert found.source_file is None
    assert found.grammar_ok


def test_a_frame_that_names_no_file_is_a_problem() -> None:
    """An index out of range is listed as a problem, and the other fields stay."""
    found = inspect(packed(cpu_body(FILES + text(3, number(1, 2) + number(2, 1)))))
    assert not found.grammar_ok
    assert found.problems[0].startswith("stack frames: ")
    assert (found.module_name, found.platform) == ("jit_f", "cpu")


@pytest.mark.parametrize(("machine", "platform"), [(190, "cuda"), (224, "rocm"), (3, None)])
def test_an_older_gpu_body_is_known_by_its_binary(machine: int, platform: str | None) -> None:
    """The platform of a body without ABI version is that of its ELF binary; without such a binary it is None."""
    elf = b"\x7fELF" + bytes(14) + machine.to_bytes(2, "little")
    body = text(1, text(1, text(1, text(1, b"jit_f"))) + text(3, b".version 8.0") + text(4, elf)) + text(2, b"")
    found = inspect(packed(body))
    assert (found.platform, found.module_name) == (platform, "jit_f")


def test_an_unknown_body_is_no_guess() -> None:
    """Of a body in an unknown format, every fact is None, the format as well."""
    found = inspect(packed(b"\xffsome plug-in's own bytes"))
    assert found.body_format is None
    assert not found.grammar_ok
    assert (found.module_name, found.platform, found.output_shapes) == (None, None, None)
    assert (found.seconds, found.codec) == (3, Codec.ZSTD)


def test_metadata_before_an_unknown_body_is_read() -> None:
    """Metadata are read even if the body after them is unknown."""
    shape = text(6, text(1, varint(4))) + text(2, number(1, 11))
    metadata = text(2, b"pjrt_ifrt") + text(7, b"jit_f") + text(5, shape)
    found = inspect(packed(varint(len(metadata)) + metadata + b"\xff\xff"))
    assert (found.module_name, found.output_shapes, found.body_format) == ("jit_f", ("f32[4]",), None)


# Riegeli


def riegeli_file(*records: bytes, codec: int = 0) -> bytes:
    """A file of one chunk, with block headers where they belong."""
    sizes, values = b"".join(map(varint, map(len, records))), b"".join(records)
    if codec == ord("z"):
        compress = zstandard.ZstdCompressor().compress
        sizes, values = varint(len(sizes)) + compress(sizes), varint(len(values)) + compress(values)
    data = bytes([codec]) + varint(len(sizes)) + sizes + values
    decoded = sum(map(len, records))
    header = bytes(8) + len(data).to_bytes(8, "little") + bytes(8) + b"r" + len(records).to_bytes(7, "little")
    plain = riegeli.SIGNATURE[24:] + bytes(8) + bytes.fromhex("e19f13c0e9b1c372") + b"s" + bytes(15)
    plain += header + decoded.to_bytes(8, "little") + data
    blocks = [plain[i : i + 65512] for i in range(0, len(plain), 65512)]
    return b"".join([riegeli.SIGNATURE[:24] + blocks[0], *(bytes(24) + block for block in blocks[1:])])


@pytest.mark.parametrize("codec", [0, ord("z")])
@pytest.mark.parametrize("size", [0, 10, 65_000, 65_408, 65_512, 200_000])
def test_records_are_read_across_blocks(size: int, codec: int) -> None:
    """Records are read whole, however the 64 KiB blocks cut them, plain and zstd."""
    records = [b"first", random.Random(size).randbytes(size), b"", b"last"]
    read = riegeli.read_records(memoryview(riegeli_file(*records, codec=codec)), limit=1 << 20)
    assert read is not None
    assert [bytes(record) for record in read] == records


@pytest.mark.parametrize("codec", [ord("b"), ord("x")])
def test_records_in_another_compression_stay_unread(codec: int) -> None:
    """Records in Brotli, for which jcache has no decoder, yield None, and are no damage."""
    assert riegeli.read_records(memoryview(riegeli_file(b"a", codec=codec)), limit=100) is None
    found = inspect(packed(riegeli_file(b"a", codec=codec)))
    assert (found.body_format, found.problems, found.module_name) == ("riegeli", (), None)


def test_records_beyond_the_limit_stay_unread() -> None:
    """A file that holds more than the limit is left alone."""
    assert riegeli.read_records(memoryview(riegeli_file(b"a" * 100)), limit=99) is None


def test_a_riegeli_file_cut_anywhere_is_damage_or_shorter() -> None:
    """A cut file raises DamagedEntry unless it is cut between chunks."""
    data = riegeli_file(b"abc", b"de")
    for end in range(len(data)):
        if end == 64:
            continue
        with pytest.raises(DamagedEntry):
            riegeli.read_records(memoryview(data[:end]), limit=100)


# Damage


def test_only_the_container_raises() -> None:
    """Damaged compression raises DamagedEntry, as unpacking does; damage further inside does not."""
    with pytest.raises(DamagedEntry):
        inspect(h200_entry("jit_stage")[:-1])
    with pytest.raises(DamagedEntry):
        inspect(h200_entry("jit_stage"), limit=100)


@pytest.mark.full
@settings(max_examples=400, deadline=None)
@given(st.data())
def test_mutated_insides_never_raise(data: st.DataObject) -> None:
    """An entry whose inside was changed at random is inspected without an exception."""
    payload = unpack_executable(h200_entry(data.draw(st.sampled_from(["jit_bitwise_or", "jit_stage"])))).payload
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(payload)))
        end = data.draw(st.integers(start, min(len(payload), start + 6)))
        payload = payload[:start] + data.draw(st.binary(max_size=6)) + payload[end:]
    assert isinstance(inspect(zlib.compress(bytes(4) + payload)), Inspection)


@pytest.mark.jax
@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_mutated_cpu_insides_never_raise(cpu_entries: JaxEntries, seed: int) -> None:
    """Mutated content of a CPU's entry raises nothing."""
    chance = random.Random(seed)
    payload = bytearray(unpack_executable(cpu_entries.bytes("jit_named_step")).payload)
    for _ in range(chance.randint(1, 8)):
        payload[chance.randrange(len(payload))] = chance.randrange(256)
    assert isinstance(inspect(packed(bytes(payload[: chance.randint(1, len(payload))]))), Inspection)


@given(st.binary(max_size=300))
def test_random_insides_never_raise(content: bytes) -> None:
    """Random bytes in a sound container are inspected without an exception."""
    assert isinstance(inspect(packed(content)), Inspection)
