"""The lines of a manifest: what each field may hold, how its value is written as JSON, how it is read and checked."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from typing import Any, Final, NamedTuple, TypeVar

from jcache.errors import InvalidValue
from jcache.files import LATEST_NS
from jcache.layout import AUTOTUNE_NAME, KERNELS_NAME, NAME_LIMIT, Kind, check_key

MAX_ENTRY: Final = 8 << 30  # stored bytes of one entry; the largest executable seen in reports is 2 GiB
_MAX_TEXT: Final = 4096  # characters: a path of Linux, and more than any name of a device
_MAX_MANY: Final = 4096  # of parents, CPU features, GPUs
_MAX_LINE: Final = 1 << 20
_MAX_DEPTH: Final = 16
_MAX_SECONDS: Final = 1e10
_DIGEST = re.compile(r"[0-9a-f]{64}")
_KINDS: Final = {kind.value: kind for kind in Kind}


dumps: Final = json.JSONEncoder(sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class Field(NamedTuple):
    """A field: from value to JSON, and from JSON to value; the latter raises ValueError or TypeError."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


_T = TypeVar("_T")


def _same(value: _T) -> _T:
    return value


def _writable(value: str) -> str:
    """The text, with escapes in the place of what cannot be printed or is no Unicode, and no longer than allowed."""
    if not value.isprintable():
        value = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in value)
    return value[:_MAX_TEXT]


def _text(value: object) -> str:
    if type(value) is not str or len(value) > _MAX_TEXT or not value.isprintable():
        raise ValueError("a text is none, too long or not printable")
    return value


def _kind(value: object) -> Kind:
    if type(value) is not str or value not in _KINDS:
        raise ValueError("a kind is none of those there are")
    return _KINDS[value]


def _key(value: object) -> str:
    if type(value) is not str:
        raise TypeError("a key is not a text")
    try:
        return check_key(value)
    except InvalidValue:
        raise ValueError("a key is not a name, a dash and 64 hexadecimal digits, or too long for a file name") from None


def _natural(limit: int) -> Callable[[Any], int]:
    def read(value: object) -> int:
        if type(value) is not int or not 0 <= value <= limit:
            raise ValueError(f"a number is not a whole one from 0 to {limit}")
        return value

    return read


def _digest(value: object) -> str:
    if type(value) is not str or not _DIGEST.fullmatch(value):
        raise ValueError("a digest is not 64 hexadecimal digits")
    return value


def _flag(value: object) -> bool:
    if type(value) is not bool:
        raise TypeError("something is neither true nor false")
    return value


def _seconds(value: object) -> float:
    if type(value) is not float or not 0 <= value <= _MAX_SECONDS:
        raise ValueError("a number of seconds is out of range")
    return value


def _writable_seconds(value: float) -> float:
    return min(max(float(value), 0.0), _MAX_SECONDS) + 0.0 if math.isfinite(value) else 0.0


def _codec(value: object) -> str:
    if value not in ("zstd", "zlib"):
        raise ValueError("a codec is neither zstd nor zlib")
    return str(value)


def _path(value: object) -> str:
    """A path below XLA's names, which leads nowhere else."""
    path = _text(value)
    parts = path.split("/")
    if parts[0] not in (AUTOTUNE_NAME, KERNELS_NAME) or len(parts) > _MAX_DEPTH:
        raise ValueError("a path is not one of XLA's sub-caches")
    if any(part in {"", ".", ".."} or len(part.encode()) > NAME_LIMIT for part in parts):
        raise ValueError("a path has a part that is no file name")
    return path


def _many(field: Field) -> Field:
    """A tuple of what a field holds."""

    def write(values: Iterable[Any]) -> list[Any]:
        return [field.write(value) for value in values]

    def read(values: object) -> tuple[Any, ...]:
        if type(values) is not list or len(values) > _MAX_MANY:
            raise ValueError("a list is none, or too long")
        return tuple(map(field.read, values))

    return Field(write, read)


def _pair(value: object) -> tuple[str, str]:
    if type(value) is not list or len(value) != 2:
        raise ValueError("a pair is none")
    return _text(value[0]), _text(value[1])


def optional(field: Field) -> Field:
    """What a field holds, or None."""
    return Field(
        lambda value: None if value is None else field.write(value),
        lambda value: None if value is None else field.read(value),
    )


TEXT: Final = Field(_writable, _text)
TEXTS: Final = _many(TEXT)
FLAG: Final = Field(_same, _flag)
PAIRS: Final = _many(Field(lambda pair: [_writable(text) for text in pair], _pair))
_TIME: Final = Field(lambda time_ns: min(max(time_ns, 0), LATEST_NS), _natural(LATEST_NS))
_BYTES: Final = Field(_same, _natural(MAX_ENTRY))
_DIGEST_FIELD: Final = Field(_same, _digest)
_KEY: Final = Field(_same, _key)

ITEM: Final = {
    "kind": Field(str, _kind), "key": _KEY, "bytes": _BYTES, "digest": _DIGEST_FIELD, "created_ns": _TIME,
    "recency_ns": _TIME, "sidecar": FLAG, "pinned": FLAG, "seconds": Field(_writable_seconds, _seconds),
    "origin": TEXT, "parents": _many(_KEY), "codec": Field(_same, _codec), "portable": FLAG,
    "maker": Field(_same, _natural(1 << 20)),
}  # fmt: skip
MAKER: Final = {
    "platform": TEXT, "jaxlib": TEXT, "cpu_name": TEXT, "cpu_features": TEXTS, "compute_capability": TEXT,
    "abi_version": PAIRS, "cache_path": TEXT,
}  # fmt: skip
NEIGHBOUR: Final = {"path": Field(_same, _path), "bytes": _BYTES, "digest": _DIGEST_FIELD}


class Row(NamedTuple):
    """A kind of line: the fields that an object of it may have, and those that it must have.

    Attributes:
        fields: by name.
        defaults: of those that may be left out, and then must be.
    """

    fields: dict[str, Field]
    defaults: dict[str, Any]

    def write(self, values: tuple[Any, ...]) -> str:
        """The object of the values, in the order of the fields; raises ValueError or TypeError if none may read it."""
        record = {}
        for name, value in zip(self.fields, values, strict=True):
            if name not in self.defaults or value != self.defaults[name]:
                field = self.fields[name]
                record[name] = written = field.write(value)
                field.read(written)
        return dumps(record)

    def read(self, line: bytes) -> dict[str, Any]:
        """The values of an object; raises ValueError, TypeError or RecursionError."""
        record = json.loads(line)
        if type(record) is not dict or dumps(record).encode() != line:  # a key twice, blanks, escapes
            raise ValueError("it is not one object in canonical JSON")
        values = {}
        for name, value in record.items():
            if name not in self.fields:
                raise ValueError("an object has a field that there is not")
            values[name] = read = self.fields[name].read(value)
            if name in self.defaults and read == self.defaults[name]:
                raise ValueError("a default is written")
        if len(values) < len(self.fields) and not self.fields.keys() - self.defaults.keys() <= values.keys():
            raise ValueError("an object lacks a field")
        return values


def lines(data: bytes) -> Iterator[tuple[bytes, bool]]:
    """The lines without what separates them, and of each whether it is an element of a list.

    An element ends with a comma if, and only if, another one follows.
    """
    stream, first, wants_more = BytesIO(data), True, False
    while line := stream.readline(_MAX_LINE):
        if line[-1:] != b"\n":
            raise ValueError("it is too long or the last one and not ended")
        is_element = line[:1] == b"{" and not first
        if wants_more and not is_element:
            raise ValueError("an object is missing")
        wants_more = is_element and line[-2:-1] == b","
        if is_element and not wants_more and data[stream.tell() : stream.tell() + 1] == b"{":
            raise ValueError("a comma is missing")
        yield line[: -2 if wants_more else -1], is_element
        first = False
