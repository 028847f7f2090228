"""Faults of an entry's bytes by themselves: everything that the format of executables and envelopes can reveal."""

from __future__ import annotations

import operator
import re
from typing import Final

from jcache.errors import DamagedEntry
from jcache.findings import Damage, Fault
from jcache.formats.compression import MAX_CONTENT, Codec, codec_of
from jcache.formats.envelope import check_seal, sealed_length, unseal
from jcache.formats.executable import decompress_executable
from jcache.formats.inspection import Inspection, inspect
from jcache.formats.riegeli import SIGNATURE
from jcache.layout import Kind, kept_of, name_of

_PIECE: Final = 1 << 20


_ENOUGH: Final = 256 << 20


_READABLE: Final = frozenset({"cpu", "cuda", "rocm", "gpu"})


_OF_KNOWN_BODIES: Final = (b"\x7fELF", SIGNATURE[:8])


_OF_METADATA: Final = (b"_ifrt", b"xla:", b"PjRt")


_METADATA_START: Final = b"\x08\x03\x12\tpjrt_ifrt"  # behind the length, of one or two bytes


NO_MEMORY: Final = "There is not enough memory to open it."


def fault_of(
    data: bytes,
    kind: Kind,
    key: str,
    *,
    quick: bool = False,
    platforms: frozenset[str] | None = None,
) -> Fault | None:
    """Return the fault of an entry's bytes by themselves, None if they have none.

    `Damage.OPAQUE` says that nothing is wrong as far as can be seen, of an entry whose inside cannot be read.

    Args:
        data: the stored bytes.
        kind: what they should hold.
        key: under which key.
        quick: whether to do without decompressing them.
        platforms: those of the process that is to load it, as JAX calls them; None where nobody knows.
    """
    if not data:
        return Fault(Damage.TORN, "The file is empty.")
    try:
        if kind is Kind.EXECUTABLES:
            return _executable_fault(data, key, quick=quick, platforms=platforms)
        return _envelope_fault(data, kind, key, quick=quick)
    except MemoryError:
        return Fault(Damage.UNREADABLE, NO_MEMORY)


def _executable_fault(data: bytes, key: str, *, quick: bool, platforms: frozenset[str] | None) -> Fault | None:
    if codec_of(data) is None:
        return Fault(Damage.CODEC, f"It begins with {data[:4].hex(' ')}, which is neither zstd nor zlib.")
    if quick:
        return None
    try:
        inspection = inspect(data, hashes=True)
    except DamagedEntry as error:
        _raise_want_of_memory(error)
        return Fault(Damage.TORN if _ends_early(data) else Damage.COMPRESSION, str(error))
    if inspection.raw_bytes == 0:
        return Fault(Damage.GRAMMAR, "It holds no executable.")
    if not inspection.problems:
        return _name_fault(inspection, key)
    platform = _plug_in_of(inspection, data, platforms)
    if platform is None:
        return Fault(Damage.GRAMMAR, "; ".join(inspection.problems) + ".")
    if platforms is not None and platform not in platforms:
        return Fault(Damage.GRAMMAR, f"It is for {platform}, and is to be loaded on {' or '.join(sorted(platforms))}.")
    opaque = f"It is for {platform}, whose programs jcache cannot read: its inside is not checked."
    return _name_fault(inspection, key) or Fault(Damage.OPAQUE, opaque)


def _name_fault(inspection: Inspection, key: str) -> Fault | None:
    module, name = inspection.module_name, name_of(key)
    if not name or module is None:
        return None
    cut = kept_of(key)
    if _as_xla(module).startswith(_as_xla(cut)) if cut is not None else _as_xla(module) == _as_xla(name):
        return None
    return Fault(Damage.NAME, f"It holds {module!r}, not {name!r}.")


def _as_xla(name: str) -> bytes:
    """Return a name as XLA keeps it: each byte that is not of a C identifier, a dash or a dot is an underscore."""
    return re.sub(rb"[^A-Za-z0-9_.-]", b"_", name.encode(errors="surrogateescape"))


def _envelope_fault(data: bytes, kind: Kind, key: str, *, quick: bool) -> Fault | None:
    try:
        header = check_seal(data) if quick else unseal(data).header
    except DamagedEntry as error:
        _raise_want_of_memory(error)
        length = sealed_length(data)
        return Fault(Damage.SEAL if length is None or length <= len(data) else Damage.TORN, str(error))
    if (header.kind, header.key) != (kind, key):
        return Fault(Damage.NAME, f"It was sealed as {header.kind} {header.key}.")
    return None


def _raise_want_of_memory(error: DamagedEntry) -> None:
    """Raise the MemoryError that caused an error: what did not fit into memory need not be damaged."""
    if isinstance(error.__cause__, MemoryError):
        raise error.__cause__


def _plug_in_of(inspection: Inspection, data: bytes, platforms: frozenset[str] | None) -> str | None:
    """Return the platform whose own body an unreadable one may be; None where it should have been one that can be read.

    The metadata of jax >= 0.9 name it. Without them only the process that is to load the entry can tell of one.
    """
    if inspection.body_format is not None:
        return None
    if inspection.platform is not None:
        return None if inspection.platform in _READABLE else inspection.platform
    own = sorted((platforms or frozenset()) - _READABLE)
    if not own:
        return None
    content = decompress_executable(data, limit=MAX_CONTENT)[1]  # no metadata: of jax < 0.9, or they are damaged
    starts = (content[skip : skip + len(_METADATA_START)] for skip in (5, 6))  # behind the seconds
    alike = max(sum(map(operator.eq, start, _METADATA_START)) for start in starts)
    if 2 * alike > len(_METADATA_START) or any(sign in content[:260] for sign in _OF_METADATA):
        return None
    return None if any(sign in content for sign in _OF_KNOWN_BODIES) else own[0]


def _ends_early(data: bytes) -> bool:
    """Return whether damaged bytes are so because the rest is missing: what there is decompresses without an error."""
    import zlib

    import zstandard

    seen = 0
    try:
        if codec_of(data) is Codec.ZSTD:
            with zstandard.ZstdDecompressor().stream_reader(data) as reader:
                while seen < _ENOUGH and (piece := reader.read(_PIECE)):
                    seen += len(piece)
            return len(data) < 18 or 0 <= seen < zstandard.frame_content_size(data)  # 18: the longest frame header
        stream = zlib.decompressobj()
        rest = data
        while rest and seen < _ENOUGH:
            seen += len(stream.decompress(rest, _PIECE))
            rest = stream.unconsumed_tail
        return not stream.eof
    except (zstandard.ZstdError, zlib.error):
        return False
