"""Find faults in the bytes of an entry by the format of executables and envelopes."""

from __future__ import annotations

import operator
import re
from functools import lru_cache
from typing import Final

from jcache.errors import DamagedEntry
from jcache.findings import Damage, Fault
from jcache.formats.compression import MAX_CONTENT, Codec, codec_of
from jcache.formats.envelope import check_seal, sealed_length, unseal
from jcache.formats.executable import decompress_executable
from jcache.formats.inspection import Inspection, inspect
from jcache.formats.riegeli import SIGNATURE
from jcache.layout import Kind, kept_of, name_of

_PIECE_BYTES: Final = 1 << 20
_MAX_TRIED_BYTES: Final = 256 << 20  # of a damaged entry's content
_READABLE_PLATFORMS: Final = frozenset({"cpu", "cuda", "rocm", "gpu"})
_KNOWN_BODY_STARTS: Final = (b"\x7fELF", SIGNATURE[:8])
_METADATA_WORDS: Final = (b"_ifrt", b"xla:", b"PjRt")
_METADATA_START: Final = b"\x08\x03\x12\tpjrt_ifrt"  # follows the length, which takes one or two bytes
NO_MEMORY: Final = "There is not enough memory to open it."


def fault_of(
    data: bytes,
    kind: Kind,
    key: str,
    *,
    quick: bool = False,
    platforms: frozenset[str] | None = None,
) -> Fault | None:
    """Return the fault in an entry's bytes; None if there is none.

    A fault with `Damage.OPAQUE` is no damage: jcache cannot read the content, and the rest of the entry is sound.

    Args:
        data: stored bytes.
        kind: kind of the entry.
        key: key of the entry.
        quick: whether to omit the checks that decompress the entry.
        platforms: JAX platforms of the process that will load the entry; None if they are unknown.
    """
    return examine(data, kind, key, quick=quick, platforms=platforms)[0]


def examine(
    data: bytes, kind: Kind, key: str, *, quick: bool = False, platforms: frozenset[str] | None = None
) -> tuple[Fault | None, Inspection | None]:
    """Return the fault as `fault_of` does, and the facts in an executable, if it could be opened to look for faults."""
    if not data:
        return Fault(Damage.TORN, "The file is empty."), None
    try:
        if kind is not Kind.EXECUTABLES:
            return _envelope_fault(data, kind, key, quick=quick), None
        if codec_of(data) is None:
            return Fault(Damage.CODEC, f"It begins with {data[:4].hex(' ')}, which is neither zstd nor zlib."), None
        if quick:
            return None, None
        try:
            inspection = inspect(data, hashes=True)
        except DamagedEntry as error:
            _reraise_memory_error(error)
            return Fault(Damage.TORN if _is_truncated(data) else Damage.COMPRESSION, str(error)), None
        return _content_fault(inspection, data, key, platforms), inspection
    except MemoryError:
        return Fault(Damage.UNREADABLE, NO_MEMORY), None


def _content_fault(inspection: Inspection, data: bytes, key: str, platforms: frozenset[str] | None) -> Fault | None:
    if inspection.raw_bytes == 0:
        return Fault(Damage.GRAMMAR, "It holds no executable.")
    if not inspection.problems:
        return _name_fault(inspection, key)
    platform = _unreadable_platform(inspection, data, platforms)
    if platform is None:
        return Fault(Damage.GRAMMAR, "; ".join(inspection.problems) + ".")
    if platforms is not None and platform not in platforms:
        return Fault(Damage.GRAMMAR, f"It was compiled for {platform}, but this is {' or '.join(sorted(platforms))}.")
    opaque = f"It was compiled for {platform}, whose programs jcache cannot read: its content is not checked."
    return _name_fault(inspection, key) or Fault(Damage.OPAQUE, opaque)


def _name_fault(inspection: Inspection, key: str) -> Fault | None:
    module, name = inspection.module_name, name_of(key)
    if not name or module is None:
        return None
    cut = kept_of(key)
    if _xla_name(module).startswith(_xla_name(cut)) if cut is not None else _xla_name(module) == _xla_name(name):
        return None
    return Fault(Damage.NAME, f"It holds {module!r}, not {name!r}.")


@lru_cache(maxsize=256)  # many programs of a cache have a name in common
def _xla_name(name: str) -> bytes:
    """Return the name that XLA gives to a module: bytes other than letters, digits, dashes and dots become ``_``."""
    return re.sub(rb"[^A-Za-z0-9_.-]", b"_", name.encode(errors="surrogateescape"))


def _envelope_fault(data: bytes, kind: Kind, key: str, *, quick: bool) -> Fault | None:
    try:
        header = check_seal(data) if quick else unseal(data).header
    except DamagedEntry as error:
        _reraise_memory_error(error)
        length = sealed_length(data)
        return Fault(Damage.SEAL if length is None or length <= len(data) else Damage.TORN, str(error))
    if (header.kind, header.key) != (kind, key):
        return Fault(Damage.NAME, f"It was sealed as {header.kind} {header.key}.")
    return None


def _reraise_memory_error(error: DamagedEntry) -> None:
    """Raise the MemoryError that caused an error: an entry that does not fit into memory need not be damaged."""
    if isinstance(error.__cause__, MemoryError):
        raise error.__cause__


def _unreadable_platform(inspection: Inspection, data: bytes, platforms: frozenset[str] | None) -> str | None:
    """Return the platform, unreadable for jcache, whose format the body may have; None if it should be readable.

    The metadata of jax >= 0.9 name the platform. Without them, only the process that will load the entry knows one.
    """
    if inspection.body_format is not None:
        return None
    if inspection.platform is not None:
        return None if inspection.platform in _READABLE_PLATFORMS else inspection.platform
    own = sorted((platforms or frozenset()) - _READABLE_PLATFORMS)
    if not own:
        return None
    content = decompress_executable(data, limit=MAX_CONTENT)[1]  # jax < 0.9 wrote no metadata, or they are damaged
    starts = (content[skip : skip + len(_METADATA_START)] for skip in (5, 6))  # after the seconds
    alike = max(sum(map(operator.eq, start, _METADATA_START)) for start in starts)
    if 2 * alike > len(_METADATA_START) or any(sign in content[:260] for sign in _METADATA_WORDS):
        return None
    return None if any(sign in content for sign in _KNOWN_BODY_STARTS) else own[0]


def _is_truncated(data: bytes) -> bool:
    """Return whether damaged bytes only lack their end: all bytes that exist decompress without an error."""
    import zlib

    import zstandard

    seen = 0
    try:
        if codec_of(data) is Codec.ZSTD:
            with zstandard.ZstdDecompressor().stream_reader(data) as reader:
                while seen < _MAX_TRIED_BYTES and (piece := reader.read(_PIECE_BYTES)):
                    seen += len(piece)
            return len(data) < 18 or 0 <= seen < zstandard.frame_content_size(data)  # 18: the longest frame header
        stream = zlib.decompressobj()
        rest = data
        while rest and seen < _MAX_TRIED_BYTES:
            seen += len(stream.decompress(rest, _PIECE_BYTES))
            rest = stream.unconsumed_tail
        return not stream.eof
    except (zstandard.ZstdError, zlib.error):
        return False
