"""The manifest of an archive: what is in it, where it comes from, and what each entry was made by and for.

Its bytes are canonical JSON (UTF-8, sorted keys, no blanks) with a line for each item, maker and neighbour, so that a
reader needs no more memory than what it keeps and `zstd -d | tar xO manifest.json` is fit to be searched by lines::

    manifest   = {"directory":…,"host":{…},"items":[ LF lines ],"jax":…,"jaxlib":…,"jcache":…,"layout":…,
                 "makers":[ LF lines ],"neighbours":[ LF lines ],"recompressors":…,"root":…,"schema_version":2,
                 "solid":…} LF
    lines      = [object {"," LF object} LF]

What has its default value is left out of the lines' objects. There is one way to write a manifest, and no other is
read: keys twice, NaN, blanks, escapes that are not needed and numbers out of range are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Set
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jcache.errors import BadArchive, InvalidValue
from jcache.layout import Kind, is_key
from jcache.shipping.archive import manifest_schema as fields
from jcache.store import foreign

if TYPE_CHECKING:
    from jcache.store.foreign import Adapter

SCHEMA_VERSION: Final = 2
MAX_ENTRIES: Final = 400_000  # items and neighbours: twenty times the largest cache seen
MAX_MAKERS: Final = 4096  # a cache has a handful, and one may take a third of a mebibyte
MAX_MANIFEST_BYTES: Final = (
    128 << 20
)  # so many lines of 335 bytes, as real ones have; takes 450 MiB to read, whoever made it


class Maker(NamedTuple):
    """By and for what executables were made; many share one. None where it is not known.

    Attributes:
        platform: ``cpu``, ``cuda``, ``rocm``, ….
        jaxlib: version that made them.
        cpu_name: LLVM's name of the CPU (with a GPU: the host's).
        cpu_features: LLVM's features of the CPU: ``+avx512f``, ``-sha512``, ….
        compute_capability: of the GPU, such as ``9.0`` or ``gfx942``.
        abi_version: pairs such as ``("toolkit", "13.0.0")``, sorted.
        cache_path: the cache directory that the compile options name; None if they name none.
        xla_caches: those of XLA that JAX was told to have there besides, ``all`` or one by its name; None for none.
        xla_options: numbers of XLA's options in them, as a bit set in hexadecimal: every release of XLA has its own.
        compression: the word that JAX hashed for those in zstd: ``zstandard``, or ``zlib`` with Python's own zstd.
    """

    platform: str | None = None
    jaxlib: str | None = None
    cpu_name: str | None = None
    cpu_features: tuple[str, ...] | None = None
    compute_capability: str | None = None
    abi_version: tuple[tuple[str, str], ...] | None = None
    cache_path: str | None = None
    xla_caches: str | None = None
    xla_options: str | None = None
    compression: str | None = None


class Item(NamedTuple):
    """One entry of an archive.

    Attributes:
        kind, key: which entry.
        bytes: how many stored bytes it has.
        digest: of the stored bytes (`jcache.formats.digest`).
        created_ns: modification time of its file, nanoseconds since 1970.
        recency_ns: when it was last used.
        sidecar: whether it had a sidecar.
        pinned: whether prune had to keep it.
        seconds: what building it took, where known.
        origin: how it came into the root, as the ledger has it.
        parents: keys of what it was made from (a trace's graph, an executable's trace).
        codec: of an executable: ``zstd`` or ``zlib``.
        portable: whether its key is known not to depend on the directory: it was stored with portable keys.
        maker: position in the manifest's table of makers; None for none.
    """

    kind: Kind
    key: str
    bytes: int
    digest: str
    created_ns: int
    recency_ns: int
    sidecar: bool = False
    pinned: bool = False
    seconds: float | None = None
    origin: str | None = None
    parents: tuple[str, ...] = ()
    codec: str | None = None
    portable: bool = False
    maker: int | None = None


class Neighbour(NamedTuple):
    """One file of XLA's own sub-caches, which lies beside the executables.

    Attributes:
        path: relative to the executables' directory, such as ``xla_gpu_per_fusion_autotune_cache_dir/x.pb``.
        bytes, digest: as of an entry.
    """

    path: str
    bytes: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The machine that an archive was made on.

    Attributes:
        cpu: its model, as the system names it; None where it does not.
        gpus: models of its GPUs.
    """

    cpu: str | None = None
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What stands first in an archive.

    Attributes:
        jcache: version that made the archive.
        root: path of the root.
        directory: path of its executables, as ``jax_compilation_cache_dir`` has it.
        jax, jaxlib: versions installed where it was made (from the metadata), None if not there.
        host: where it was made.
        solid: whether the entries were recompressed together.
        recompressors: of a solid archive, names and versions of the libraries that must compress alike, sorted.
        makers: what the items' ``maker`` points into.
        items: the entries, sorted by kind and key.
        neighbours: files of XLA's sub-caches, sorted by path.
        layout: name of the adapter whose directory it is of; None for JAX's and jcache's own.
    """

    jcache: str
    root: str
    directory: str
    layout: str | None = None
    jax: str | None = None
    jaxlib: str | None = None
    host: Host = Host()
    solid: bool = False
    recompressors: tuple[tuple[str, str], ...] = ()
    makers: tuple[Maker, ...] = ()
    items: tuple[Item, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()


_SECTIONS: Final = ("items", "makers", "neighbours")
_KEY_FIELDS: Final = {"items": 2, "makers": 0, "neighbours": 1}  # by how many of their first fields
_VERSION = re.compile(rb'"schema_version":(\d{1,9})[,}]')
_TOO_MANY: Final = fields.Malformed(
    f"it lists more than {MAX_ENTRIES:,} entries, or {MAX_MAKERS:,} makers: export fewer at once by --filter or --kind"
)
_FRAME_FIELDS: Final = {
    "directory": fields.PATH, "jax": fields.optional(fields.TEXT), "jaxlib": fields.optional(fields.TEXT),
    "jcache": fields.TEXT, "layout": fields.optional(fields.TEXT), "recompressors": fields.PAIRS,
    "root": fields.PATH, "solid": fields.FLAG,
}  # fmt: skip
_HOST_FIELDS: Final = {"cpu": fields.optional(fields.TEXT), "gpus": fields.TEXTS}


def encode(manifest: Manifest) -> bytes:
    """The bytes of a manifest.

    Times out of range become the nearest in it; what is not printable is escaped, but in paths.

    Raises:
        InvalidValue: it is not sorted, has an entry twice, or more of them than an archive may have.
    """
    try:
        _check_together(manifest)
        text = fields.dumps(_frame_record(manifest))
        pieces = []
        for section in _SECTIONS:
            head, text = text.split(f'"{section}":[]')  # quotes in texts are escaped, so that it is there once
            write = _ROWS[section][1].write
            lines = ",\n".join(map(write, getattr(manifest, section)))
            pieces += [head, f'"{section}":[\n', lines, "\n" if lines else ""]
            text = "]" + text
        data = "".join([*pieces, text, "\n"]).encode()
    except (ValueError, TypeError) as error:
        raise InvalidValue(f"The manifest of an archive cannot be written: {error}.") from error
    if len(data) > MAX_MANIFEST_BYTES:
        raise InvalidValue(
            f"A manifest of {len(data)} bytes is more than {MAX_MANIFEST_BYTES}: export fewer entries at once by "
            "--filter or --kind."
        )
    return data


def decode(data: bytes, *, name: str = "the archive") -> Manifest:
    """The manifest that the bytes are; everything about it is checked but whether it is true.

    Args:
        data: what `encode` gave.
        name: of the archive, for messages.

    Raises:
        BadArchive: `encode` would not have written this, or it is of another version.
    """
    frame: list[bytes] = []
    rows: dict[str, list[Any]] = {section: [] for section in _SECTIONS}
    where, last = "the beginning", ()
    try:
        for number, (line, is_element) in enumerate(fields.split_lines(data), 1):
            where = f"line {number}"
            if is_element:
                section = _SECTIONS[len(frame) - 1]
                (make, row), width = _ROWS[section], _KEY_FIELDS[section]
                made = make(**row.read(line))
                if width and made[:width] <= last:  # asked at once: a million lines that are alike take a kilobyte
                    raise _order_error(made[:width])
                last = made[:width]
                rows[section].append(made)
                if len(rows[section]) > (MAX_MAKERS if section == "makers" else MAX_ENTRIES):
                    raise _TOO_MANY
            else:
                last = ()
                frame.append(line)
                if len(frame) > len(_SECTIONS) + 1:
                    raise fields.Malformed("it has more lines than lists")
        where = "the whole"
        manifest = _read_frame(frame, {section: tuple(found) for section, found in rows.items()})
        _check_together(manifest)
    except (ValueError, TypeError, IndexError, RecursionError) as error:
        raise _decoding_error(data, name, where, error) from error
    return manifest


def _decoding_error(data: bytes, name: str, where: str, error: Exception) -> BadArchive:
    version = _VERSION.search(data[-4096:]) or _VERSION.search(data[:4096])
    if version and int(version[1]) != SCHEMA_VERSION:
        return BadArchive(
            f"The manifest of {name} is of version {int(version[1])} and this jcache reads {SCHEMA_VERSION}: "
            "use the jcache that made the archive, or a newer one."
        )
    reason = str(error) if isinstance(error, fields.Malformed) else "it is not canonical JSON, as a manifest is"
    return BadArchive(f"The manifest of {name} cannot be used: {where}: {reason}. Make it again.")


_ROWS: Final = {
    "items": (Item, fields.Row(fields.ITEM, Item._field_defaults)),
    "makers": (Maker, fields.Row(fields.MAKER, Maker._field_defaults)),
    "neighbours": (Neighbour, fields.Row(fields.NEIGHBOUR, Neighbour._field_defaults)),
}


# The frame


def _frame_record(manifest: Manifest) -> dict[str, Any]:
    """The manifest without its lines."""
    record: dict[str, Any] = {name: field.write(getattr(manifest, name)) for name, field in _FRAME_FIELDS.items()}
    record["host"] = {name: field.write(getattr(manifest.host, name)) for name, field in _HOST_FIELDS.items()}
    record |= {section: [] for section in _SECTIONS}
    return record | {"schema_version": SCHEMA_VERSION}


def _read_frame(frame: list[bytes], rows: dict[str, Any]) -> Manifest:
    joints = zip(frame, _SECTIONS, strict=False)
    if len(frame) != len(_SECTIONS) + 1 or not all(line.endswith(f'"{name}":['.encode()) for line, name in joints):
        raise fields.Malformed(f"its lists are not {', '.join(_SECTIONS)}")
    record = json.loads(b"".join(frame))
    _check_fields("it", record, _FRAME_FIELDS.keys() | {"host", "schema_version", *_SECTIONS})
    _check_fields("its 'host'", record["host"], _HOST_FIELDS.keys())
    manifest = Manifest(
        host=Host(
            **{name: fields.read_value(name, field, record["host"][name]) for name, field in _HOST_FIELDS.items()}
        ),
        **{name: fields.read_value(name, field, record[name]) for name, field in _FRAME_FIELDS.items()},
        **rows,
    )
    if fields.dumps(_frame_record(manifest)).encode() != b"".join(frame):
        raise fields.Malformed("it is not canonical JSON, or of another version")
    return manifest


def _check_fields(what: str, record: object, names: Set[str]) -> None:
    if not isinstance(record, dict):
        raise fields.Malformed(f"{what} is no object")
    for name in sorted(names - record.keys()):
        raise fields.Malformed(f"{what} lacks the field '{name}'")
    for name in sorted(record.keys() - names):
        raise fields.Malformed(f"{what} has a field {fields.json_excerpt(name)}, which there is not")


def _check_together(manifest: Manifest) -> None:
    """Raise ValueError unless entries are sorted, none is there twice, and makers are where items look for them."""
    if len(manifest.items) + len(manifest.neighbours) > MAX_ENTRIES or len(manifest.makers) > MAX_MAKERS:
        raise _TOO_MANY
    for section, width in _KEY_FIELDS.items():
        rows: tuple[Any, ...] = getattr(manifest, section)
        for before, after in zip(rows, islice(rows, 1, None), strict=False):
            if width and before[:width] >= after[:width]:
                raise _order_error(after[:width])
    _check_keys(manifest)
    paths = [neighbour.path for neighbour in manifest.neighbours]
    directories = {path[:i] for path in paths for i, letter in enumerate(path) if letter == "/"}
    for path in directories.intersection(paths):
        raise fields.Malformed(f"{fields.json_excerpt(path)} is a file's path and a directory's")
    count = len(manifest.makers)
    for item in manifest.items:
        if item.maker is not None and item.maker >= count:
            raise fields.Malformed(
                f"{fields.json_excerpt(item.key)}: its 'maker' is {item.maker}, of {count} that are listed"
            )
    if manifest.recompressors != tuple(sorted(set(manifest.recompressors))):
        raise fields.Malformed("its 'recompressors' are not sorted, or one is twice there")


def adapter_of(manifest: Manifest) -> Adapter | None:
    """Who knows the files of the manifest's items, if they are another program's.

    Raises:
        Malformed: nobody does.
    """
    adapter = None if manifest.layout is None else foreign.named(manifest.layout)
    if adapter is None and manifest.layout is not None:
        raise fields.Malformed(
            f"it is of {fields.json_excerpt(manifest.layout)}, whose cache this jcache does not know"
        )
    return adapter


def _check_keys(manifest: Manifest) -> None:
    adapter = adapter_of(manifest)
    for item in manifest.items:
        if not is_key(item.key) if adapter is None else adapter.file_name(item.kind, item.key) is None:
            whose = "JAX" if adapter is None else adapter.name
            raise fields.Malformed(f"{fields.json_excerpt(item.key)} is no key of {whose}'s {item.kind}")


def _order_error(rank: tuple[str, ...]) -> fields.Malformed:
    return fields.Malformed(f"{fields.json_excerpt('/'.join(rank))} is twice there, or not in its order")
