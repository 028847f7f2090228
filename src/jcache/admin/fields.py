"""The fields of entries: one table of what `ls` shows and sorts by, what filters compare, and what JSON calls it.

Completion, help, messages and the reference take names and explanations from `FIELDS`; nothing else spells them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, Final, NamedTuple

from jcache.entry import Entry
from jcache.errors import InvalidValue
from jcache.text import unknown_choice

_NUMERIC: Final = ("=", "!=", ">", "<", ">=", "<=")


class FieldSource(IntEnum):
    """Where the value of a field is read, the cheapest place first."""

    LISTING = 0
    LEDGER = 1
    HEADER = 2
    CONTENT = 3


class Type(Enum):
    """What the values of a field are."""

    SIZE = "size"
    AGE = "age"
    SECONDS = "seconds"
    COUNT = "count"
    VERSION = "version"
    TEXT = "text"
    KIND = "kind"
    FLAG = "flag"

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators that can compare such values."""
        match self:
            case Type.TEXT | Type.KIND:
                return "=", "!=", "~"
            case Type.FLAG:
                return "=", "!="
            case Type.VERSION:
                return *_NUMERIC, "~"
        return _NUMERIC


NUMBERS: Final = frozenset({Type.SIZE, Type.AGE, Type.SECONDS, Type.COUNT, Type.FLAG})


class Facts(NamedTuple):
    """What is known of an entry beside its files; None where it is not known.

    Attributes:
        hits: how often recorded runs have hit it.
        jaxlib: the versions of jaxlib that built it, separated by commas.
        run: the recorded run that stored it.
        platform: what an executable was compiled for: ``cpu``, ``cuda`` or ``rocm``.
        device: the platform and the model of the processor.
        seconds: time that building it took, in seconds, where it is on record.
    """

    hits: int | None = None
    jaxlib: str | None = None
    run: str | None = None
    platform: str | None = None
    device: str | None = None
    seconds: float | None = None


NO_FACTS: Final = Facts()


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of entries.

    Attributes:
        name: its name in columns, orders, filters and completion.
        json: its name in JSON, which the command line takes as well.
        also: other names that the command line takes.
        type: what its values are.
        source: where they are read.
        read: returns the value of an entry; of an age, the time since which it counts, nanoseconds since 1970.
        help: what it is, for the reference.
        example: a filter.
        descending: whether the largest values come first unless told otherwise.
    """

    name: str
    type: Type
    read: Callable[[Entry, Facts], Any]
    help: str
    example: str
    json: str = ""
    also: tuple[str, ...] = ()
    source: FieldSource = FieldSource.LISTING
    descending: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """All names that the command line takes."""
        return tuple(dict.fromkeys((self.name, self.json or self.name, *self.also)))

    @property
    def json_name(self) -> str:
        return self.json or self.name


_ALL: Final = (
    Field(
        name="size", json="bytes", type=Type.SIZE, descending=True, example="size>100MB",
        read=lambda entry, _: entry.bytes, help="bytes of the entry's file",
    ),
    Field(
        name="age", json="created", type=Type.AGE, example="age<=2h",
        read=lambda entry, _: entry.created_ns, help="time since it was written",
    ),
    Field(
        name="used", json="recency", type=Type.AGE, example="used>30d",
        read=lambda entry, _: entry.recency_ns, help="time since its last use",
    ),
    Field(
        name="name", type=Type.TEXT, also=("function",), example="name~^jit_step",
        read=lambda entry, _: entry.name, help="name of the function",
    ),
    Field(
        name="kind", type=Type.KIND, example="kind!=graphs",
        read=lambda entry, _: str(entry.kind), help="`executables`, `traces` or `graphs`",
    ),
    Field(
        name="seconds", json="build_seconds", type=Type.SECONDS, source=FieldSource.HEADER, descending=True,
        example="seconds>=1.5", read=lambda entry, facts: facts.seconds if entry.seconds is None else entry.seconds,
        help="time that building it took, in seconds",
    ),
    Field(
        name="hits", type=Type.COUNT, source=FieldSource.LEDGER, descending=True, example="hits=0",
        read=lambda _, facts: facts.hits, help="how often recorded runs have hit it",
    ),
    Field(
        name="pinned", type=Type.FLAG, descending=True, example="pinned=yes",
        read=lambda entry, _: entry.pinned, help="whether it is pinned: `yes` or `no`",
    ),
    Field(
        name="jaxlib", type=Type.VERSION, source=FieldSource.LEDGER, example="jaxlib<0.10",
        read=lambda _, facts: facts.jaxlib, help="version of the jaxlib that built it, if it is on record",
    ),
    Field(
        name="run", type=Type.TEXT, source=FieldSource.LEDGER, example="run~^202611",
        read=lambda _, facts: facts.run, help="id of the recorded run that stored it",
    ),
    Field(
        name="platform", type=Type.TEXT, source=FieldSource.CONTENT, example="platform=cuda",
        read=lambda _, facts: facts.platform, help="`cpu`, `cuda` or `rocm`, read from the executable itself",
    ),
    Field(
        name="device", type=Type.TEXT, source=FieldSource.CONTENT, example="device~9.0",
        read=lambda _, facts: facts.device, help="platform and model, such as `cuda 9.0`, read from the executable",
    ),
    Field(
        name="key", type=Type.TEXT, example="key~^jit_step-60",
        read=lambda entry, _: entry.key, help="the key, a name and 64 digits",
    ),
)  # fmt: skip

FIELDS: Final = {field.name: field for field in _ALL}
_BY_NAME: Final = {name: field for field in _ALL for name in field.names}
_SYNONYMS: Final = {
    "time": "used", "last_used": "used", "recent": "used", "mtime": "age", "date": "age", "atime": "used",
    "type": "kind", "func": "name", "fn": "name", "version": "jaxlib", "jax": "jaxlib", "gpu": "device",
    "backend": "platform", "build": "seconds", "duration": "seconds", "hash": "key", "id": "key", "count": "hits",
    "pin": "pinned",
}  # fmt: skip


def field_named(name: str, fault: str) -> Field:
    """Return the field of a name.

    Args:
        name: one of the field's names.
        fault: what the message says about another text, such as ``is not a field to filter by``.

    Raises:
        InvalidValue: there is no such field; the message names near ones and lists all.
    """
    found = _BY_NAME.get(name)
    if found is None:
        all_fields = ", ".join(FIELDS)
        raise InvalidValue(unknown_choice(name, fault, _BY_NAME, synonyms=_SYNONYMS, others=all_fields))
    return found


def parse_fields(text: str) -> tuple[Field, ...]:
    """Return the fields that a list of names, separated by commas, stands for, each once.

    Raises:
        InvalidValue: one of the names is no field's.
    """
    names = (name.strip() for name in text.split(","))
    return tuple(dict.fromkeys(field_named(name, "is not a column") for name in names))
