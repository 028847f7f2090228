"""`jcache ls`: list entries."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

import typer

from jcache import clock
from jcache.admin.filters import FIELDS, OPERATORS, parse_filter, parse_sort
from jcache.admin.selection import Selection, select
from jcache.cli import output
from jcache.cli.options import JsonOption, KindsOption, RootOption, kinds_of, open_store
from jcache.cli.progress import progress
from jcache.entry import Entry
from jcache.errors import InvalidValue
from jcache.layout import Kind
from jcache.units import format_age, format_seconds, format_size, rfc3339, whole_number


def complete_filters(incomplete: str) -> list[str]:
    """Return the fields that begin with a text; once only one does, add its operators, and the values of ``kind``."""
    fields = [field for field in FIELDS if field.startswith(incomplete)]
    if len(fields) > 1:
        return fields
    for sign in ("=", "!="):
        if incomplete.startswith(f"kind{sign}"):
            return [text for kind in Kind if (text := f"kind{sign}{kind}").startswith(incomplete)]
    some = [field + sign for field in FIELDS for sign in OPERATORS if _comparable(field, sign)]
    return [text for text in some if text.startswith(incomplete)]


def _comparable(field: str, sign: str) -> bool:
    for value in ("1", "1d", Kind.GRAPHS):
        with suppress(InvalidValue):
            parse_filter(field + sign + value)
            return True
    return False


def complete_sorts(incomplete: str) -> list[str]:
    """Return the fields, and the fields with a direction, that begin with a text."""
    some = [*FIELDS, *(f"{field}:{way}" for field in FIELDS for way in ("asc", "desc"))]
    return [text for text in some if text.startswith(incomplete)]


FilterOption = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="FILTER",
        help=f"Only entries that match a field ({', '.join(FIELDS)}), an operator ({' '.join(OPERATORS)}) and a "
        "value, such as 'size>100MB' or 'used>30d'; may be repeated.",
        autocompletion=complete_filters,
    ),
]


def ls(
    root: RootOption = None,
    kind: KindsOption = None,
    filter: FilterOption = None,  # noqa: A002
    sort: Annotated[
        str | None,
        typer.Option(
            "--sort",
            metavar="FIELD[:asc|desc]",
            help="Sort by this field; by default, used.",
            autocompletion=complete_sorts,
        ),
    ] = None,
    limit: Annotated[str | None, typer.Option("--limit", metavar="N", help="List at most N entries.")] = None,
    legacy: Annotated[bool, typer.Option("--legacy", help="Also list entries that only jax ≤ 0.4.30 reads.")] = False,
    json: JsonOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print full keys only, one per line.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print full keys in the table.")] = False,
) -> None:
    """List entries.

    Example: jcache ls --filter 'size>100MB' --filter 'used>30d' --sort size --limit 20
    """
    selection = Selection(
        kinds=kinds_of(kind),
        filters=tuple(parse_filter(text) for text in filter or ()),
        sort=parse_sort(sort or "used"),
        limit=whole_number("--limit", limit),
        legacy=legacy,
    )
    with open_store(root) as store:
        entries = select(store, selection, seconds=not quiet, progress=lambda some: progress(some, "reading headers"))
        if json:
            output.as_json({"root": str(store.root.path), "entries": [as_json(entry) for entry in entries]})
        elif quiet:
            for entry in entries:
                output.data(entry.key)
        else:
            _render(entries, verbose)
            if unknown := [entry.kind for entry in entries if entry.unknown]:
                output.message(f"* last use unknown, counted from writing: {store.catalog.why_unknown(unknown)}")
            if not entries and (hidden := sum(len(store.listing(kind).legacy) for kind in selection.kinds)):
                output.message(f"There are {hidden:,} that only jax <= 0.4.30 reads: --legacy lists them.")


def as_json(entry: Entry) -> dict[str, Any]:
    """Return an entry as the JSON object that commands print."""
    return {
        "key": entry.key,
        "kind": entry.kind,
        "name": entry.name,
        "bytes": entry.bytes,
        "created": rfc3339(entry.created_ns),
        "recency": rfc3339(entry.recency_ns),
        "use_unknown": entry.unknown,
        "build_seconds": None if entry.seconds is None else float(entry.seconds),
        "pinned": entry.pinned,
        "legacy": entry.legacy,
    }


def seconds_text(seconds: float | None) -> str:
    """Return build seconds as text; JAX writes whole seconds, so 0 is printed as less than a second."""
    if seconds is None:
        return "–"
    return "< 1 s" if seconds == 0 else format_seconds(seconds)


def short_key(key: str) -> str:
    """Return a prefix of a key that fits a table and, in most roots, belongs to only one key."""
    name, dash, digits = key.rpartition("-")
    return f"{name}-{digits[:8]}" if dash else key


def _render(entries: Sequence[Entry], verbose: bool) -> None:
    if not entries:
        output.message("No entries.")
        return
    now = clock.now_ns()
    columns = {
        ("key", "fold"): [entry.key if verbose else short_key(entry.key) for entry in entries],
        ("kind", "left"): [entry.kind.value for entry in entries],
        ("bytes", "right"): [format_size(entry.bytes) for entry in entries],
        ("used", "right"): [format_age(now - entry.recency_ns) + "*" * entry.unknown for entry in entries],
        ("built in", "right"): [seconds_text(entry.seconds) for entry in entries],
        ("", "left"): ["pinned" if entry.pinned else "legacy" if entry.legacy else "" for entry in entries],
    }
    told = {column: cells for column, cells in columns.items() if column[0] != "kind" or len(set(cells)) > 1}
    told = {column: cells for column, cells in told.items() if any(cells)}
    output.rich(output.table(list(told), zip(*told.values(), strict=True)))
    total = format_size(sum(entry.bytes for entry in entries))
    output.message(f"{output.count(len(entries), 'entry', 'entries')}, {total}")
