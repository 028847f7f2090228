"""The schema of a manifest's lines: the values of each field, how they are written as JSON, read and checked."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeVar

from jcache.formats.digest import is_digest
from jcache.layout import AUTOTUNE_NAME, KERNELS_NAME, NAME_LIMIT, Kind, check_key
from jcache.store.sidecar import LATEST_NS

MAX_ENTRY_BYTES: Final = 8 << 30  # stored bytes of one entry; the largest executable in public reports has 2 GiB
_MAX_TEXT_LENGTH: Final = 4096  # characters; Linux's longest path
_MAX_LIST_LENGTH: Final = 4096  # of parents, CPU features, GPUs
_MAX_DEPTH: Final = 16
_MAX_SECONDS: Final = 1e10
_MAX_EXCERPT: Final = 80  # characters of a value in a message
_BIT_SET = re.compile(r"[1-9a-f][0-9a-f]{0,1023}")
_FOREIGN_KEY = re.compile(r"[A-Za-z0-9_.]{1,64}-[0-9a-f]{1,128}")
_KINDS: Final = {kind.value: kind for kind in Kind}


dumps: Final = json.JSONEncoder(sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_loads: Final = json.JSONDecoder().raw_decode


class Malformed(ValueError):
    """A manifest has an error, which the text describes."""


class FieldRule(NamedTuple):
    """A field's functions from value to JSON and back; the latter raises ValueError for other values than expected."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]
    expected: str


_T = TypeVar("_T")


def _unchanged(value: _T) -> _T:
    return value


def _require(condition: object) -> None:
    if not condition:
        raise ValueError


def _to_text(value: str) -> str:
    """Return the text with escapes for unprintable characters and surrogates, cut to the longest that is allowed."""
    if not value.isprintable():
        value = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in value)
    return value[:_MAX_TEXT_LENGTH]


def _read_text(value: Any) -> str:  # noqa: ANN401  from JSON, like the values below
    _require(type(value) is str and len(value) <= _MAX_TEXT_LENGTH and value.isprintable())
    return str(value)


def _to_path_text(value: str) -> str:
    """Return a path as it is, with escapes for surrogates alone: JAX hashes every character, printable or not."""
    return value.encode(errors="backslashreplace").decode()[:_MAX_TEXT_LENGTH]


def _read_path_text(value: Any) -> str:  # noqa: ANN401
    _require(type(value) is str and len(value) <= _MAX_TEXT_LENGTH and "\0" not in value)
    return str(value)


def _read_kind(value: Any) -> Kind:  # noqa: ANN401
    _require(type(value) is str and value in _KINDS)
    return _KINDS[value]


def _read_key(value: Any) -> str:  # noqa: ANN401
    """Return a key of JAX's, or a possible key of another program's. The manifest as a whole tells which it must be."""
    _require(type(value) is str)
    return value if _FOREIGN_KEY.fullmatch(value) else check_key(value)


def _natural_field(limit: int) -> FieldRule:
    def read(value: Any) -> int:  # noqa: ANN401
        _require(type(value) is int and 0 <= value <= limit)
        return int(value)

    return FieldRule(_unchanged, read, f"a whole number from 0 to {limit}")


def _read_digest(value: Any) -> str:  # noqa: ANN401
    _require(type(value) is str and is_digest(value))
    return str(value)


def _read_bit_set(value: Any) -> str:  # noqa: ANN401
    _require(type(value) is str and _BIT_SET.fullmatch(value))
    return str(value)


def _read_compression(value: Any) -> str:  # noqa: ANN401
    _require(value in ("zstandard", "zlib"))
    return str(value)


def _read_xla_caches(value: Any) -> str:  # noqa: ANN401
    _require(value in ("all", "xla_gpu_kernel_cache_file"))
    return str(value)


def _read_flag(value: Any) -> bool:  # noqa: ANN401
    _require(type(value) is bool)
    return bool(value)


def _read_seconds(value: Any) -> float:  # noqa: ANN401
    _require(type(value) is float and 0 <= value <= _MAX_SECONDS)
    return float(value)


def _to_seconds(value: float) -> float:
    return min(max(float(value), 0.0), _MAX_SECONDS) + 0.0 if math.isfinite(value) else 0.0


def _read_codec(value: Any) -> str:  # noqa: ANN401
    _require(value in ("zstd", "zlib"))
    return str(value)


def _read_neighbour_path(value: Any) -> str:  # noqa: ANN401
    """Return a path below XLA's names that leads nowhere else."""
    path = _read_text(value)
    parts = path.split("/")
    _require(parts[0] in (AUTOTUNE_NAME, KERNELS_NAME) and len(parts) <= _MAX_DEPTH)
    _require(all(part not in {"", ".", ".."} and len(part.encode()) <= NAME_LIMIT for part in parts))
    return path


def _list_field(field: FieldRule) -> FieldRule:
    """Return a field for tuples of another field's values."""

    def write(values: Iterable[Any]) -> list[Any]:
        return [field.write(value) for value in values]

    def read(values: Any) -> tuple[Any, ...]:  # noqa: ANN401
        _require(type(values) is list and len(values) <= _MAX_LIST_LENGTH)
        return tuple(map(field.read, values))

    return FieldRule(write, read, f"a list of at most {_MAX_LIST_LENGTH}, each {field.expected}")


def _read_pair(value: Any) -> tuple[str, str]:  # noqa: ANN401
    _require(type(value) is list and len(value) == 2)
    return _read_text(value[0]), _read_text(value[1])


def optional(field: FieldRule) -> FieldRule:
    """Return a field for another field's values or None."""
    return FieldRule(
        lambda value: None if value is None else field.write(value),
        lambda value: None if value is None else field.read(value),
        f"null, or {field.expected}",
    )


TEXT: Final = FieldRule(_to_text, _read_text, f"a printable text of at most {_MAX_TEXT_LENGTH} characters")
TEXTS: Final = _list_field(TEXT)
PATH: Final = FieldRule(_to_path_text, _read_path_text, f"the text of a path, of at most {_MAX_TEXT_LENGTH} characters")
FLAG: Final = FieldRule(_unchanged, _read_flag, "true or false")
PAIRS: Final = _list_field(
    FieldRule(lambda pair: [_to_text(text) for text in pair], _read_pair, "a pair of printable texts")
)
_TIME: Final = _natural_field(LATEST_NS)._replace(write=lambda time_ns: min(max(time_ns, 0), LATEST_NS))
_BYTES: Final = _natural_field(MAX_ENTRY_BYTES)
_DIGEST_FIELD: Final = FieldRule(_unchanged, _read_digest, "blake3: and 64 hexadecimal digits")
_BITS: Final = FieldRule(_unchanged, _read_bit_set, "a bit set of at most 1,024 hexadecimal digits")
_KEY: Final = FieldRule(_unchanged, _read_key, "a key: a name that files can have, a dash and 64 hexadecimal digits")

ITEM: Final = {
    "kind": FieldRule(str, _read_kind, f"one of {', '.join(_KINDS)}"), "key": _KEY, "bytes": _BYTES,
    "digest": _DIGEST_FIELD, "created_ns": _TIME, "recency_ns": _TIME, "sidecar": FLAG, "pinned": FLAG,
    "seconds": FieldRule(_to_seconds, _read_seconds, f"a number with a point from 0.0 to {_MAX_SECONDS:.1f}"),
    "origin": TEXT, "parents": _list_field(_KEY), "codec": FieldRule(_unchanged, _read_codec, "zstd or zlib"),
    "portable": FLAG, "maker": _natural_field(1 << 20),
}  # fmt: skip
MAKER: Final = {
    "platform": TEXT, "jaxlib": TEXT, "cpu_name": TEXT, "cpu_features": TEXTS, "compute_capability": TEXT,
    "abi_version": PAIRS, "cache_path": PATH,
    "xla_caches": FieldRule(_unchanged, _read_xla_caches, "all or xla_gpu_kernel_cache_file"),
    "xla_options": _BITS, "compression": FieldRule(_unchanged, _read_compression, "zstandard or zlib"),
}  # fmt: skip
NEIGHBOUR: Final = {
    "path": FieldRule(_unchanged, _read_neighbour_path, f"a path below {AUTOTUNE_NAME} or {KERNELS_NAME}"),
    "bytes": _BYTES, "digest": _DIGEST_FIELD,
}  # fmt: skip

LONGEST_LINE: Final = 1 << 18  # characters


def _read_line(value: Any) -> str:  # noqa: ANN401
    _require(type(value) is str and len(value) <= LONGEST_LINE and value.isprintable())
    return str(value)


WORLD: Final = {"line": FieldRule(_unchanged, _read_line, f"a printable line of at most {LONGEST_LINE} characters")}


def read_value(name: str, field: FieldRule, value: Any) -> Any:  # noqa: ANN401
    """Return the value of a field; raise Malformed if it is not as expected."""
    try:
        return field.read(value)
    except ValueError:
        raise _unexpected_value(name, field, value) from None


def _unexpected_value(name: str, field: FieldRule, value: Any) -> Malformed:  # noqa: ANN401
    return Malformed(f"its '{name}' is {json_excerpt(value)}, and should be {field.expected}")


def json_excerpt(value: Any) -> str:  # noqa: ANN401
    """Return a value as JSON for a sentence, cut if it is long."""
    if isinstance(value, (dict, list)):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    text = json.dumps(value) if not isinstance(value, int) or abs(value) < 10**40 else "a huge number"
    return text if len(text) <= _MAX_EXCERPT else f"{text[:_MAX_EXCERPT]}…"


class Row(NamedTuple):
    """The schema of a line's object.

    Attributes:
        fields: fields by name.
        defaults: values of the optional fields, which must be left out where they have these values.
    """

    fields: dict[str, FieldRule]
    defaults: dict[str, Any]

    def write(self, values: tuple[Any, ...]) -> str:
        """Return the object of values in the fields' order; raise ValueError or TypeError if `read` refuses it."""
        record, defaults = {}, self.defaults
        for (name, field), value in zip(self.fields.items(), values, strict=True):
            if name not in defaults or value != defaults[name]:
                record[name] = written = field.write(value)
                try:
                    field.read(written)
                except ValueError:
                    raise _unexpected_value(name, field, written) from None
        return dumps(record)

    def read(self, text: str) -> dict[str, Any]:
        """Return the values of an object; raise ValueError or RecursionError."""
        record, _ = _loads(text)
        if type(record) is not dict or dumps(record) != text:  # duplicate keys, blanks, escapes, trailing data
            raise Malformed("it is not one object in canonical JSON")
        try:
            return self._values(record)
        except Malformed as error:
            raise Malformed(f"{self._name(record)}{error}") from None

    def _name(self, record: dict[str, Any]) -> str:
        """Return the beginning of a sentence that names the entry; an empty text if its name is wrong."""
        for name in {"key", "path"} & self.fields.keys() & record.keys():
            with suppress(ValueError):
                return f"{json_excerpt(self.fields[name].read(record[name]))}: "
        return ""

    def _values(self, record: dict[str, Any]) -> dict[str, Any]:
        values, defaults = {}, self.defaults
        for name, value in record.items():
            field = self.fields.get(name)
            if field is None:
                raise Malformed(f"it has a field {json_excerpt(name)}, which is unknown")
            try:
                values[name] = read = field.read(value)
            except ValueError:
                raise _unexpected_value(name, field, value) from None
            if name in defaults and read == defaults[name]:
                raise Malformed(f"its '{name}' has its default value, and should be left out")
        for name in self.fields if len(values) < len(self.fields) else ():
            if name not in values and name not in self.defaults:
                raise Malformed(f"it lacks the field '{name}'")
        return values
