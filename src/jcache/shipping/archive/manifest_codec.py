"""The bytes of an archive's manifest: canonical JSON (UTF-8, sorted keys, no blanks).

Each item, maker and neighbour has a line of its own, so that a reader needs no more memory than for what it keeps, and
`zstd -d | tar xO manifest.json` can be searched by lines::

    manifest   = {"directory":…,"host":{…},"items":[ LF lines ],"jax":…,"jaxlib":…,"jcache":…,"layout":…,
                 "makers":[ LF lines ],"neighbours":[ LF lines ],"recompressors":…,"root":…,"schema_version":2,
                 "settings":…,"solid":…,"worlds":[ LF lines ]} LF
    lines      = [object {"," LF object} LF]

Fields with their default values are left out of these objects, and so are ``settings`` and ``worlds`` where there are
none. A manifest can be written in one way only. The decoder refuses every other way: duplicate keys, NaN, blanks,
needless escapes and numbers out of range.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Set
from io import BytesIO
from itertools import islice
from typing import Any, Final

from jcache.configuration.settings import SETTINGS, to_write
from jcache.errors import BadArchive, InvalidValue
from jcache.layout import is_key
from jcache.shipping.archive import manifest_schema as fields
from jcache.shipping.archive.manifest import MAX_ENTRIES, Host, Item, Maker, Manifest, WorldLine, XlaFile, adapter_of
from jcache.shipping.archive.manifest_lines import read_usual, write_usual

SCHEMA_VERSION: Final = 2
MAX_MAKERS: Final = 4096  # a cache has a handful, and one may take a third of a mebibyte
MAX_MANIFEST_BYTES: Final = 128 << 20  # 400,000 lines of 335 bytes, as real ones have; takes 450 MiB to read
_MAX_LINE_BYTES: Final = 1 << 20
_SECTIONS: Final = ("items", "makers", "neighbours")
_WORLDS: Final = "worlds"  # a section that is left out where it is empty
_EVERY_SECTION: Final = (*_SECTIONS, _WORLDS)
_KEY_FIELDS: Final = {
    "items": 2,
    "makers": 0,
    "neighbours": 1,
    _WORLDS: 1,
}  # number of first fields that rows are sorted by
_VERSION = re.compile(rb'"schema_version":(\d{1,9})[,}]')
_TOO_MANY: Final = fields.Malformed(
    f"it lists more than {MAX_ENTRIES:,} entries, or {MAX_MAKERS:,} makers: export fewer at once by --filter or --kind"
)
_FRAME_FIELDS: Final = {
    "directory": fields.PATH, "jax": fields.optional(fields.TEXT), "jaxlib": fields.optional(fields.TEXT),
    "jcache": fields.TEXT, "layout": fields.optional(fields.TEXT), "recompressors": fields.PAIRS,
    "root": fields.PATH, "solid": fields.FLAG,
}  # fmt: skip
_SETTINGS: Final = "settings"  # left out where there are none, so that an older jcache reads all other archives
_HOST_FIELDS: Final = {"cpu": fields.optional(fields.TEXT), "gpus": fields.TEXTS}


def encode(manifest: Manifest) -> bytes:
    """Return the bytes of a manifest.

    Times out of range become the nearest ones in range. Unprintable characters are escaped, except in paths.

    Raises:
        InvalidValue: the manifest is not sorted, has an entry twice, or has more entries than an archive may have.
    """
    try:
        _check_together(manifest)
        text = fields.dumps(_frame_record(manifest))
        pieces = []
        for section in _sections(manifest):
            head, text = text.split(f'"{section}":[]')  # once: quotes in texts are escaped
            lines = ",\n".join(map(_write_line, getattr(manifest, section)))
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
    """Return the manifest that the bytes stand for; check everything that the bytes alone can show.

    Args:
        data: the bytes that `encode` returned.
        name: name of the archive, for messages.

    Raises:
        BadArchive: `encode` would not have written these bytes, or they are of another version.
    """
    frame: list[bytes] = []
    rows: dict[str, list[Any]] = {section: [] for section in _EVERY_SECTION}
    where, last = "the beginning", ()
    try:
        for number, (line, is_element) in enumerate(_split_lines(data), 1):
            where = f"line {number}"
            if is_element:
                section = _EVERY_SECTION[len(frame) - 1]
                made, width = _read_line(section, line), _KEY_FIELDS[section]
                if width and made[:width] <= last:  # before parsing: a million equal lines are a kilobyte of zstd
                    raise _order_error(made[:width])
                last = made[:width]
                rows[section].append(made)
                if len(rows[section]) > (MAX_MAKERS if section == "makers" else MAX_ENTRIES):
                    raise _TOO_MANY
            else:
                last = ()
                frame.append(line)
                if len(frame) > len(_EVERY_SECTION) + 1:
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
    "neighbours": (XlaFile, fields.Row(fields.NEIGHBOUR, XlaFile._field_defaults)),
    _WORLDS: (WorldLine, fields.Row(fields.WORLD, WorldLine._field_defaults)),
}
_SECTION_OF: Final = {make: section for section, (make, _) in _ROWS.items()}


def _sections(manifest: Manifest) -> tuple[str, ...]:
    return _EVERY_SECTION if manifest.worlds else _SECTIONS


def _write_line(row: Item | Maker | XlaFile | WorldLine) -> str:
    usual = write_usual(row) if isinstance(row, Item) else None
    return usual or _ROWS[_SECTION_OF[type(row)]][1].write(row)


def _read_line(section: str, line: bytes) -> Any:  # noqa: ANN401  a row of this section
    text = line.decode()
    if section == "items" and (usual := read_usual(text)) is not None:
        return usual
    make, row = _ROWS[section]
    return make(**row.read(text))


# The frame


def _frame_record(manifest: Manifest) -> dict[str, Any]:
    """Return the manifest as JSON values, with empty lists in place of its lines."""
    record: dict[str, Any] = {name: field.write(getattr(manifest, name)) for name, field in _FRAME_FIELDS.items()}
    record["host"] = {name: field.write(getattr(manifest.host, name)) for name, field in _HOST_FIELDS.items()}
    record |= {section: [] for section in _sections(manifest)}
    if manifest.settings:
        record[_SETTINGS] = fields.PAIRS.write(manifest.settings)
    return record | {"schema_version": SCHEMA_VERSION}


def _read_frame(frame: list[bytes], rows: dict[str, Any]) -> Manifest:
    joints = zip(frame[:-1], _EVERY_SECTION, strict=False)
    if len(frame) <= len(_SECTIONS) or not all(line.endswith(f'"{name}":['.encode()) for line, name in joints):
        raise fields.Malformed(f"its lists are not {', '.join(_SECTIONS)}")
    record = json.loads(b"".join(frame))
    optional = {_SETTINGS, _WORLDS} & record.keys() if isinstance(record, dict) else set()
    _check_fields("it", record, _FRAME_FIELDS.keys() | {"host", "schema_version", *_SECTIONS, *optional})
    _check_fields("its 'host'", record["host"], _HOST_FIELDS.keys())
    manifest = Manifest(
        host=Host(
            **{name: fields.read_value(name, field, record["host"][name]) for name, field in _HOST_FIELDS.items()}
        ),
        **{name: fields.read_value(name, field, record[name]) for name, field in _FRAME_FIELDS.items()},
        settings=fields.read_value(_SETTINGS, fields.PAIRS, record.get(_SETTINGS, [])),
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
        raise fields.Malformed(f"{what} has a field {fields.json_excerpt(name)}, which is unknown")


def _check_together(manifest: Manifest) -> None:
    """Raise ValueError unless entries are sorted and unique, and the makers that items point to exist."""
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
    _check_settings(manifest.settings)
    if manifest.recompressors != tuple(sorted(set(manifest.recompressors))):
        raise fields.Malformed("its 'recompressors' are not sorted, or one is listed twice")


def _check_settings(settings: tuple[tuple[str, str], ...]) -> None:
    if [name for name, _ in settings] != sorted({name for name, _ in settings}):
        raise fields.Malformed("its 'settings' are not sorted, or one is twice there")
    for name, text in settings:
        if name not in SETTINGS or not SETTINGS[name].in_root:
            raise fields.Malformed(f"{fields.json_excerpt(name)} is no setting that a root may have")
        try:
            to_write(name, [text])
        except InvalidValue:
            raise fields.Malformed(f"{fields.json_excerpt(text)} is no value of its setting '{name}'") from None


def _check_keys(manifest: Manifest) -> None:
    adapter = adapter_of(manifest)
    for item in manifest.items:
        if not is_key(item.key) if adapter is None else adapter.file_name(item.kind, item.key) is None:
            whose = "JAX" if adapter is None else adapter.name
            raise fields.Malformed(f"{fields.json_excerpt(item.key)} is no key of {whose}'s {item.kind}")


def _order_error(rank: tuple[str, ...]) -> fields.Malformed:
    return fields.Malformed(f"{fields.json_excerpt('/'.join(rank))} is listed twice, or out of order")


def _split_lines(data: bytes) -> Iterator[tuple[bytes, bool]]:
    """Yield the lines without separators, and for each whether it is an element of a list.

    An element must end with a comma if, and only if, another one follows.
    """
    stream, first, wants_more = BytesIO(data), True, False
    while line := stream.readline(_MAX_LINE_BYTES):
        if line[-1:] != b"\n":
            raise fields.Malformed(
                f"it has over {_MAX_LINE_BYTES} bytes, or no line feed: another program may have rewritten the manifest"
            )
        is_element = line[:1] == b"{" and not first
        if wants_more and not is_element:
            raise fields.Malformed("an object is missing")
        wants_more = is_element and line[-2:-1] == b","
        if is_element and not wants_more and data[stream.tell() : stream.tell() + 1] == b"{":
            raise fields.Malformed("a comma is missing")
        yield line[: -2 if wants_more else -1], is_element
        first = False
