"""XLA's debug options in an entry: the cache directory that JAX had, and the options that XLA knew.

DebugOptions: 306 xla_gpu_kernel_cache_file; 310 xla_gpu_per_fusion_autotune_cache_dir (also on CPU). They are in
CompileOptionsProto {3 executable_build_options {3 DebugOptions}}.
"""

from functools import lru_cache
from typing import Final, NamedTuple

from jcache.errors import DamagedEntry
from jcache.formats.protobuf import Message

_KERNELS: Final = "xla_gpu_kernel_cache_file"
_MAX_CACHED_BYTES: Final = 64 << 10  # the longest options whose content is cached; they have 1 KiB
_MAX_NUMBER: Final = 4096  # of a field: more than XLA has, 557 in jaxlib 0.12
_SET_BY_JAX: Final = frozenset({252, 268, 306, 310})  # logging, parallel LLVM, and the two paths


class DebugOptions(NamedTuple):
    """Facts from XLA's debug options; None for a fact that the options do not have.

    Attributes:
        cache_path: the cache directory in which XLA keeps its own caches.
        xla_caches: which of its caches XLA keeps there: "all" or the name of one; None for the default, the autotune
            cache.
        numbers: the numbers of the fields as a bit set, without those that JAX sets for single entries; each release
            of XLA has its own set.
    """

    cache_path: str | None
    xla_caches: str | None
    numbers: int | None


def debug_options(compile_options: Message) -> DebugOptions | None:
    """Read the debug options in a CompileOptionsProto, None if there are none.

    Raises:
        DamagedEntry: they do not follow their grammar.
    """
    build = compile_options.message(3)
    debug = None if build is None else build.slice(3)
    if debug is None:
        return None
    is_usual = len(debug) <= _MAX_CACHED_BYTES
    return _read(bytes(debug)) if is_usual else _read.__wrapped__(debug)


def usual_options(compile_options: memoryview) -> DebugOptions | None:
    """Return what `debug_options` reads in a CompileOptionsProto that many entries share; None for any other."""
    if len(compile_options) > _MAX_CACHED_BYTES:
        return None
    try:
        return _read_usual(bytes(compile_options))
    except DamagedEntry:
        return None


@lru_cache(maxsize=16)
def _read_usual(compile_options: bytes) -> DebugOptions | None:
    return debug_options(Message(compile_options))


def xla_options(compile_options: bytes) -> int | None:
    """Return `DebugOptions.numbers` of a CompileOptionsProto, for example a jaxlib's defaults; None for other bytes."""
    try:
        told = debug_options(Message(compile_options))
    except DamagedEntry:
        return None
    return None if told is None else told.numbers


@lru_cache(maxsize=16)
def _read(data: bytes | memoryview) -> DebugOptions:
    """Read a DebugOptions proto; the result is remembered, since the entries of one program have the same options."""
    debug = Message(data)
    numbers = sum(1 << number for number in debug.numbers() - _SET_BY_JAX if number < _MAX_NUMBER)
    # JAX appends the option's name to the cache directory; any other path comes from XLA_FLAGS
    directories: dict[str, str] = {}
    for number, name in ((310, "xla_gpu_per_fusion_autotune_cache_dir"), (306, _KERNELS)):
        directory, slash, last = (debug.text(number) or "").rpartition("/")
        if last == name:
            directories[name] = directory or slash or "."
    caches = None if _KERNELS not in directories else "all" if len(directories) > 1 else _KERNELS
    return DebugOptions(next(iter(directories.values()), None), caches, numbers or None)
