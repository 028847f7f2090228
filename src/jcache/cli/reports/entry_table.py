"""Entries as rows of a table and as JSON: the columns and fields of `jcache.admin.fields`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from jcache.admin.fields import FIELDS, NO_FACTS, Facts, Field, FieldSource, Type
from jcache.admin.selection import Selection
from jcache.cli import output
from jcache.entry import Entry
from jcache.layout import short_key
from jcache.units import format_age, format_seconds, format_size, rfc3339

_NUMBERS: Final = (Type.SIZE, Type.AGE, Type.SECONDS, Type.COUNT)
_UNKNOWN: Final = "–"
_TO_JSON: Final[Mapping[Type, Callable[[Any], Any]]] = {Type.AGE: rfc3339, Type.SECONDS: float}
DEFAULT: Final = tuple(FIELDS[name] for name in ("key", "kind", "size", "used", "seconds"))
IN_JSON: Final = tuple(field for field in FIELDS.values() if field.source is not FieldSource.CONTENT)


class HasFacts(Protocol):
    """What tells facts about entries: a `FactBook`, or what a store's namespaces tell."""

    def of(self, entry: Entry) -> Facts: ...


def as_json(entry: Entry, facts: Facts = NO_FACTS, fields: Sequence[Field] = ()) -> dict[str, Any]:
    """Return an entry as the JSON object that commands print.

    Args:
        entry: which.
        facts: what is known of it, as far as the fields ask for it.
        fields: fields of the content of executables to add.
    """
    return json_maker(fields)(entry, facts)


def json_maker(fields: Sequence[Field] = ()) -> Callable[[Entry, Facts], dict[str, Any]]:
    """Return a function that returns an entry as `as_json` does.

    Args:
        fields: fields of the content of executables to add.
    """
    shown = dict.fromkeys([FIELDS["key"], FIELDS["kind"], FIELDS["name"], *IN_JSON, *fields])
    names, reads = [field.json_name for field in shown], [field.read for field in shown]
    converted = [(at, convert) for at, field in enumerate(shown) if (convert := _TO_JSON.get(field.type))]

    def make(entry: Entry, facts: Facts) -> dict[str, Any]:
        values = [read(entry, facts) for read in reads]
        for at, convert in converted:
            if values[at] is not None:
                values[at] = convert(values[at])
        return dict(zip(names, values, strict=True), use_unknown=entry.unknown, legacy=entry.legacy)

    return make


def more_json(selection: Selection, columns: Sequence[Field]) -> list[Field]:
    """Return the fields of content that JSON has because a column, a filter or the order asks for them."""
    asked = [*columns, selection.sort.field, *(one.field for one in selection.filters)]
    return [field for field in dict.fromkeys(asked) if field not in IN_JSON]


def table(entries: Sequence[Entry], fields: Sequence[Field], facts: HasFacts, now_ns: int, *, whole: bool) -> Any:  # noqa: ANN401
    """Return a table of entries for `output.rich`.

    Args:
        entries: the rows.
        fields: the columns; empty for those that are shown by default, where they tell entries apart.
        facts: what is known of the entries.
        now_ns: the present, nanoseconds since 1970.
        whole: whether to print whole keys, however narrow the terminal is.
    """
    columns = {
        (field.name, _layout(field)): [cell(field, entry, facts.of(entry), now_ns, whole=whole) for entry in entries]
        for field in fields or DEFAULT
    }
    if not fields:
        columns["", "left"] = ["pinned" if entry.pinned else "legacy" if entry.legacy else "" for entry in entries]
        columns = {column: cells for column, cells in columns.items() if column[0] != "kind" or len(set(cells)) > 1}
        columns = {column: cells for column, cells in columns.items() if any(cells)}
    return output.table(list(columns), zip(*columns.values(), strict=True), whole=whole)


def _layout(field: Field) -> str:
    if field.type in _NUMBERS:
        return "right"
    return "key" if field.name == "key" else "fold" if field.type is Type.TEXT else "left"


def cell(field: Field, entry: Entry, facts: Facts, now_ns: int, *, whole: bool = True) -> str:
    """Return the value of a field as text."""
    value = field.read(entry, facts)
    match field.type:
        case Type.SECONDS:
            return seconds_text(value)
        case _ if value is None:
            return _UNKNOWN
        case Type.SIZE:
            return format_size(value)
        case Type.AGE:
            return format_age(now_ns - value) + "*" * (entry.unknown and field.name == "used")
        case Type.COUNT:
            return f"{value:,}"
        case Type.FLAG:
            return "yes" if value else "no"
    return short_key(value) if field.name == "key" and not whole else str(value)


def seconds_text(seconds: float | None) -> str:
    """Return build seconds as text; JAX writes whole seconds, so 0 is printed as less than a second."""
    if seconds is None:
        return _UNKNOWN
    return "< 1 s" if seconds == 0 else format_seconds(seconds)
