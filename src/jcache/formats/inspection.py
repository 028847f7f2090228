"""The facts in an executable entry, read without JAX and without running any of it.

After the codec and the four bytes of seconds (`jcache.formats.executable`) comes the executable as PJRT serialised it.
Names and numbers are those of XLA's protos, checked against the file descriptors inside jaxlib 0.12.0.1 and against
real entries (CPU: jax 0.4.30 to 0.12.0.1; H200: jax 0.11.2):

    content = [varint length, SerializedXlaExecutableMetadata] body        the metadata from jax 0.9 on
    SerializedXlaExecutableMetadata (ifrt): 2 runtime_name = "pjrt_ifrt", by which it is recognised; 7 computation_name;
        5 output_specs {6 shape, 1 shard_shape {1 dims}; 2 dtype {1 kind}};
        9 executable_version {3 {1 type, 2 PjRtExecutableAbiVersionProto {1 platform, 2 ExecutableAbiVersionProto}}}
    body = ExecutableAndOptionsProto, as a proto or split over a Riegeli file (`riegeli`; GPU from jax 0.11 on):
        1 serialized_executable; 2 compile_options {3 executable_build_options {3 DebugOptions}}
    DebugOptions: 306 xla_gpu_kernel_cache_file; 310 xla_gpu_per_fusion_autotune_cache_dir (also on CPU)
    serialized_executable = xla.cpu.CompilationResultProto, or xla.gpu.GpuExecutableProto (proto or Riegeli); both:
        1 HloModuleProtoWithConfig {1 HloModuleProto {1 name, 4 host_program_shape {2 result}, 17 stack_frame_index}}
      cpu only: 5 obj_files_kind (a varint, which in GPU is a map); 9 target_machine_options {2 cpu, 3 features}
      gpu only: 4 binary (ELF); 6 gpu_compute_capability {1 cuda {1 major, 2 minor} | 2 rocm {1 gcn_arch_name}};
        14 ExecutableAbiVersionProto {1 platform_name; 3 cuda {1 toolkit, 2 cuDNN, 3 CUB}}; 15 machine of the host

Nothing in an entry names the version of jax or jaxlib that wrote it. A plug-in (TPU) may write another body: then
``body_format`` is None and only the metadata are known. A fact that is missing or unreadable is None, never a guess.
"""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Final

from jcache.entry import Entry
from jcache.errors import DamagedEntry
from jcache.formats import riegeli
from jcache.formats.compression import MAX_CONTENT
from jcache.formats.debug_options import debug_options, usual_options
from jcache.formats.envelope import Codec, header_length, open_envelope
from jcache.formats.executable import HEAD_BYTES, decompress_executable
from jcache.formats.protobuf import Message, read_varint
from jcache.formats.shapes import ifrt_shapes, xla_shapes
from jcache.layout import Kind, Root

_ELF_MACHINES: Final = {62: "cpu", 183: "cpu", 190: "cuda", 224: "rocm"}  # EM_X86_64, EM_AARCH64, EM_CUDA, EM_AMDGPU
_MAX_MACHINE_BYTES: Final = 64 << 10  # the longest whose facts are cached; they have 2 KiB
_MAX_SPLIT_PROTO_BYTES: Final = 32 << 20  # snappy in Python decodes 20 to 150 MB/s; a larger Riegeli body stays unread


@dataclass(slots=True, kw_only=True)
class Inspection:
    """The facts in one executable entry; a missing one is None. If several places have a fact, the first one counts."""

    stored_bytes: int
    raw_bytes: int  # of the executable, without the codec and the four bytes of seconds
    codec: Codec
    seconds: int
    module_name: str | None = None  # "jit_" and the function's name
    platform: str | None = None  # "cpu", "cuda", "rocm"
    abi_version: dict[str, str] | None = None  # such as {"toolkit": "13.0.0", "cudnn": "9.19.0", "cub": "3.2.0"}
    compute_capability: str | None = None  # "9.0" (cuda), "gfx942" (rocm)
    output_shapes: tuple[str, ...] | None = None  # "f32[128,10]"; global ones from jax 0.9 on, one device's before
    cpu_name: str | None = None  # LLVM's name of the CPU that was compiled for (with a GPU: the host's)
    cpu_features: tuple[str, ...] | None = None  # "+avx512f", "-sha512", …
    source_file: str | None = None  # of the line that `_source` finds
    source_line: int | None = None
    source_function: str | None = None
    cache_path: str | None = None  # the cache directory that the compile options name
    xla_caches: str | None = None  # XLA's caches in that directory, "all" or the name of one
    xla_options: int | None = None  # numbers of the fields of DebugOptions, as a bit set: each release has its own
    body_format: str | None = None  # "proto", "riegeli"; None: an unknown body
    problems: tuple[str, ...] = ()  # the places where the content does not follow its grammar

    @property
    def grammar_ok(self) -> bool:
        """Whether the content is of a known format and all that was read of it follows that format."""
        return self.body_format is not None and not self.problems


def describe_entry(root: Root, entry: Entry, data: bytes) -> dict[str, Any]:
    """Return the facts in the bytes of an entry, under the names of `Inspection` or of an envelope's header.

    ``raw_bytes`` of a trace or graph is the size of the whole entry with its payload decompressed.

    For another program's directory, the result is ``{"facts": …}`` with names for people.

    Raises:
        DamagedEntry: the bytes cannot be read.
    """
    if root.adapter is not None:
        return {"facts": root.adapter.facts(entry.kind, entry.key, data)}
    if entry.kind is Kind.EXECUTABLES:
        return asdict(inspect(data))
    header, payload = open_envelope(data, limit=_limit_of(data))
    raw_bytes = header_length(data[:HEAD_BYTES]) + len(payload)  # a header is not compressed
    return {**header._asdict(), "stored_bytes": len(data), "raw_bytes": raw_bytes}


def inspect(data: bytes, *, limit: int | None = None, hashes: bool = False) -> Inspection:
    """Return the facts in an executable entry.

    Args:
        data: the stored bytes.
        limit: how many bytes it may hold; by default 256 MiB or 100 times its size, whichever is more. Executables
            shrink to a quarter; an entry that shrinks to a hundredth was made to fill the memory.
        hashes: whether to check the hashes of a Riegeli body, at 20 MB/s, unless zlib's checksum covers it.

    Raises:
        DamagedEntry: codec, compression or seconds are damaged, or the entry holds too much. Damage further inside is
            not raised but listed in ``problems``.
    """
    limit = _limit_of(data) if limit is None else limit
    codec, content = decompress_executable(data, limit=limit)
    seconds, executable = int.from_bytes(content[:4], "big"), memoryview(content)[4:]
    found = Inspection(stored_bytes=len(data), raw_bytes=len(executable), codec=codec, seconds=seconds)
    metadata, body = split_metadata(executable)
    if metadata is not None:
        _collect_problems(found, "metadata", lambda: _read_metadata(found, metadata))
    _collect_problems(found, "body", lambda: _read_body(found, body))
    if hashes and codec is Codec.ZSTD and found.body_format == "riegeli":
        _collect_problems(found, "hashes", lambda: riegeli.check_hashes(body))
    return found


def _limit_of(data: bytes) -> int:
    """Return how many bytes an entry may hold."""
    return min(MAX_CONTENT, max(256 << 20, 100 * len(data)))


def _collect_problems(found: Inspection, part: str, read: Callable[[], None]) -> None:
    """Read a part; a malformed one becomes a problem, and the facts that were found before stay."""
    try:
        read()
    except DamagedEntry as error:
        found.problems += (f"{part}: {error}",)


def split_metadata(content: memoryview) -> tuple[Message | None, memoryview]:
    """Return IFRT's metadata and the body behind it; None and all bytes for an entry of an older version."""
    try:
        length, start = read_varint(content, 0)
        metadata = Message(content[start : start + length])
        if start + length <= len(content) and metadata.text(2) == "pjrt_ifrt":
            return metadata, content[start + length :]
    except DamagedEntry:
        pass  # an older body starts with a tag instead of a length; that is no damage
    return None, content


def _read_metadata(found: Inspection, metadata: Message) -> None:
    found.module_name = metadata.text(7)
    found.output_shapes = ifrt_shapes(metadata)
    version = metadata.message(9, 3, 2, 2)
    if version is not None:
        _read_abi(found, version)


def _read_abi(found: Inspection, version: Message) -> None:
    found.platform = (version.text(1) or "").lower() or found.platform
    cuda = version.message(3)
    if cuda is not None:
        parts = {"toolkit": cuda.text(1), "cudnn": cuda.text(2), "cub": cuda.text(3)}
        found.abi_version = (found.abi_version or {}) | {name: text for name, text in parts.items() if text}


def _read_body(found: Inspection, body: memoryview) -> None:
    opened = open_message(body)
    if opened is None:
        found.body_format = "riegeli"
        return
    message, fields, is_split = opened
    executable = fields.get(1) or message.slice(1)
    options = message.slice(2)
    if executable is None or options is None:
        raise DamagedEntry("no ExecutableAndOptionsProto")
    known = usual_options(options)
    opened_options = None if known else Message(options, parent=message)
    found.body_format = "riegeli" if is_split else "proto"
    if known:
        found.cache_path, found.xla_caches, found.xla_options = known
    elif opened_options is not None:
        _collect_problems(found, "compile options", lambda: _read_options(found, opened_options))
    _collect_problems(found, "executable", lambda: _read_executable(found, executable))


def open_message(data: memoryview) -> tuple[Message, dict[int, memoryview], bool] | None:
    """Return a message, the fields split off it, and whether it is split; None for a compression that is not read."""
    if data[: len(riegeli.SIGNATURE)] != riegeli.SIGNATURE:
        return Message(data), {}, False
    split = riegeli.read_split_proto(data, limit=_MAX_SPLIT_PROTO_BYTES)
    return None if split is None else (split.message, split.fields, True)


def _read_options(found: Inspection, options: Message) -> None:
    debug = debug_options(options)
    if debug is not None:
        found.cache_path, found.xla_caches, found.xla_options = debug


def _read_executable(found: Inspection, data: memoryview) -> None:
    opened = open_message(data)
    if opened is None:
        return
    message, fields, _ = opened
    _collect_problems(found, "platform", lambda: _read_platform(found, message, fields))
    _collect_problems(found, "target machine", lambda: _read_machine(found, message))
    module = message.message(1, 1)
    if module is None:
        raise DamagedEntry("no HLO module")
    found.module_name = found.module_name or module.text(1)
    if found.output_shapes is None:
        _collect_problems(found, "output shapes", lambda: _read_result(found, module))
    _collect_problems(found, "stack frames", lambda: _read_source(found, module))


def _read_platform(found: Inspection, message: Message, fields: dict[int, memoryview]) -> None:
    version = message.message(14)
    if version is not None:
        _read_abi(found, version)
    if message.varint(5) in {1, 2}:  # CLASSIC, KERNELS
        found.platform = found.platform or "cpu"
        return  # field 6 of a CPU's result holds its thunks
    cuda, rocm = message.message(6, 1), message.message(6, 2)
    if cuda is not None and (cuda.varint(1) or 0) > 0:
        found.compute_capability = f"{cuda.varint(1)}.{cuda.varint(2) or 0}"
        found.platform = found.platform or "cuda"
    elif rocm is not None and rocm.text(1):
        found.compute_capability = rocm.text(1)
        found.platform = found.platform or "rocm"
    binary = fields.get(4) or message.slice(4)
    if found.platform is None and binary is not None and bytes(binary[:4]) == b"\x7fELF":
        found.platform = _ELF_MACHINES.get(int.from_bytes(binary[18:20], "little"))


def _read_machine(found: Inspection, message: Message) -> None:
    machine = message.slice(9 if found.platform == "cpu" else 15)
    if machine is not None:
        is_usual = len(machine) <= _MAX_MACHINE_BYTES
        told = _machine_of(bytes(machine)) if is_usual else _machine_of.__wrapped__(machine)
        found.cpu_name, found.cpu_features = told if found.platform is not None else (None, None)


@lru_cache(maxsize=16)  # few among thousands of entries
def _machine_of(data: bytes | memoryview) -> tuple[str | None, tuple[str, ...] | None]:
    """Return the name and the features of a CPU."""
    machine = Message(data)
    features = machine.text(3)
    return machine.text(2) or None, tuple(features.split(",")) if features else None


def _read_result(found: Inspection, module: Message) -> None:
    result = module.message(4, 2)
    if result is not None:
        found.output_shapes = xla_shapes(result)


def _read_source(found: Inspection, module: Message) -> None:
    index = module.message(17)
    if index is not None and found.module_name:
        place = _source(index, found.module_name.partition("_")[2])
        if place is not None:
            found.source_file, found.source_function, found.source_line = place


def _source(index: Message, function: str) -> tuple[str, str, int] | None:
    """Return file, function and line of the program's first operation in the jitted function itself.

    If no stack frame belongs to a function of that name (``jit_convert_element_type`` comes from inside JAX), return
    the innermost frame that all operations share: the line that made JAX compile. The function's name tells which.
    """
    files, functions = index.texts(1), index.texts(2)
    places: list[tuple[str, str, int]] = []
    for file, label, line in index.rows(3, 1, 2, 3):
        if not (1 <= file <= len(files) and 1 <= label <= len(functions)):
            raise DamagedEntry("a location without file or function")
        places.append((files[file - 1], functions[label - 1], line))
    name = "<lambda>" if function.strip("_") == "lambda" else function  # JAX writes jit__lambda or jit__lambda_
    inside = [place for place in places if place[1].rpartition(".")[2] == name]
    if inside:
        return min(inside, key=lambda place: place[2])
    shared = _shared_frame(index.rows(4, 1, 2))
    return places[shared - 1] if 1 <= shared <= len(places) else None


def _shared_frame(frames: Iterable[tuple[int, ...]]) -> int:
    """Return the location of the innermost frame that is in every stack, 0 if there is none; frames count from 1."""
    locations = [0]
    only_child: dict[int, int] = {}  # 0 where a frame has several
    for number, (location, parent) in enumerate(frames, start=1):
        locations.append(location)
        only_child[parent] = 0 if parent in only_child else number
    here = 0
    while child := only_child.get(here, 0):  # ends: every frame has one parent, so none is met twice
        here = child
    return locations[here]
