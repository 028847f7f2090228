"""`jcache ls`: list entries."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Annotated, Any, Final

import typer

from jcache import clock
from jcache.admin.facts import FactBook
from jcache.admin.fields import FIELDS, Facts, Field, FieldSource, parse_fields
from jcache.admin.filters import OPERATORS, parse_filter, parse_sort
from jcache.admin.selection import Selection, select, with_seconds
from jcache.cli import output
from jcache.cli.options import (
    GenerationsOption,
    JsonOption,
    KindsOption,
    RootOrStoreOption,
    is_remote,
    kinds_of,
    open_store,
    refuse_options,
)
from jcache.cli.progress import progress
from jcache.cli.reports import entry_table
from jcache.entry import Entry
from jcache.layout import Kind
from jcache.store.entries import EntrySequence, batches
from jcache.store.store import Store
from jcache.units import format_size, whole_number

_AT_ONCE: Final = 2000  # entries whose facts are read together
_VALUES: Final = {"kind": tuple(Kind), "pinned": ("yes", "no"), "platform": ("cpu", "cuda", "rocm")}


def complete_filters(incomplete: str) -> list[str]:
    """Return the fields that begin with a text; once only one does, add its operators, and values that it can have."""
    fields = [field for field in FIELDS if field.startswith(incomplete)]
    if len(fields) > 1:
        return fields
    for name, values in _VALUES.items():
        for sign in ("=", "!="):
            if incomplete.startswith(name + sign):
                return [text for value in values if (text := f"{name}{sign}{value}").startswith(incomplete)]
    some = [field.name + sign for field in FIELDS.values() for sign in OPERATORS if sign in field.type.operators]
    return [text for text in some if text.startswith(incomplete)]


def complete_sorts(incomplete: str) -> list[str]:
    """Return the fields, and the fields with a direction, that begin with a text."""
    some = [*FIELDS, *(f"{field}:{way}" for field in FIELDS for way in ("asc", "desc"))]
    return [text for text in some if text.startswith(incomplete)]


def complete_columns(incomplete: str) -> list[str]:
    """Return lists of fields whose last name is completed."""
    before, comma, last = incomplete.rpartition(",")
    given = before.split(",")
    return [f"{before}{comma}{field}" for field in FIELDS if field.startswith(last) and field not in given]


FilterOption = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="FILTER",
        help="Only entries that match: a field, an operator and a value, such as 'size>100MB' or 'used>30d', or a "
        f"word that is a part of the name; may be repeated. Fields: {', '.join(FIELDS)}.",
        autocompletion=complete_filters,
    ),
]
SortOption = Annotated[
    str | None,
    typer.Option(
        "--sort",
        metavar="FIELD[:asc|desc]",
        help="Sort by this field; by default, used.",
        autocompletion=complete_sorts,
    ),
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="FIELD,...",
        help="Print these fields, such as key,size,device; with --json, add them.",
        autocompletion=complete_columns,
    ),
]
LimitOption = Annotated[str | None, typer.Option("--limit", metavar="N", help="List at most N entries.")]
LegacyOption = Annotated[bool, typer.Option("--legacy", help="Also list entries that only jax ≤ 0.4.30 reads.")]
FiltersArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FILTER]...",
        help="Only entries that match, as with --filter; a word, such as train, is a part of the name.",
        autocompletion=complete_filters,
    ),
]


def ls(
    filters: FiltersArgument = None,
    root: RootOrStoreOption = None,
    kind: KindsOption = None,
    filter: FilterOption = None,  # noqa: A002
    sort: SortOption = None,
    columns: ColumnsOption = None,
    limit: LimitOption = None,
    legacy: LegacyOption = False,
    generations: GenerationsOption = False,
    json: JsonOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print full keys only, one per line.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print full keys in the table.")] = False,
) -> None:
    """List entries with their size, last use and build time; with --generations, what `push --as` has stored.

    Example: jcache ls train --filter 'size>100MB' --sort size --limit 20
    """
    if generations:
        from jcache.cli.commands import remote_generations

        given = {"filter": filters or filter, "kind": kind, "sort": sort, "columns": columns, "limit": limit}
        url = remote_generations.store_url(root, **given, legacy=legacy)
        remote_generations.ls(url, json=json, quiet=quiet)
        return
    selection = Selection(
        kinds=kinds_of(kind),
        filters=tuple(parse_filter(text) for text in [*(filters or ()), *(filter or ())]),
        sort=parse_sort(sort or "used"),
        limit=whole_number("--limit", limit),
        legacy=legacy,
    )
    shown = () if columns is None else parse_fields(columns)
    if is_remote(root):
        from jcache.cli.commands import remote_root

        refuse_options(root, legacy=legacy)
        remote_root.ls(str(root), selection, shown, json=json, quiet=quiet, verbose=verbose)
        return
    with open_store(root) as store:
        facts = FactBook(store, _reading)
        timed = not json and any(field.source is FieldSource.HEADER for field in shown or entry_table.DEFAULT)
        entries = select(store, selection, seconds=timed and not quiet, progress=_reading, facts=facts)
        if json:
            more = entry_table.more_json(selection, shown)
            output.as_json_list(
                {"root": str(store.root.path)}, "entries", _as_json(store, entries, facts, more), version=2
            )
        elif quiet:
            for entry in entries:
                output.data(entry.key)
        else:
            facts.learn(entries, shown)
            _render(entries, shown, facts, verbose)
            _add_notes(store, selection, entries)


def _as_json(
    store: Store, entries: EntrySequence, facts: FactBook, fields: Sequence[Field]
) -> Iterator[dict[str, Any]]:
    make, (numbers, known) = entry_table.json_maker(fields), facts.on_record(entries)
    if any(one.seconds is None for one in known):
        entries = with_seconds(store, entries, _reading)
    content = [field for field in fields if field.source is FieldSource.CONTENT]
    told = map(known.__getitem__, numbers)
    for few in batches(entries, _AT_ONCE):
        about: Sequence[Facts] = list(islice(told, len(few)))
        if content:
            facts.learn(few, content)
            inside = map(facts.of, few)
            about = [
                one._replace(platform=read.platform, device=read.device)
                for one, read in zip(about, inside, strict=True)
            ]
        yield from map(make, few, about)


def _reading(entries: Sequence[Entry]) -> Iterable[Entry]:
    return progress(entries, "reading entries")


def _add_notes(store: Store, selection: Selection, entries: Sequence[Entry]) -> None:
    """Print why last uses are unknown, and how many entries are not listed because no current JAX reads them."""
    if unknown := [entry.kind for entry in entries if entry.unknown]:
        output.message(f"* last use unknown, counted from writing: {store.catalog.why_unknown(unknown)}")
    if not entries and (hidden := sum(len(store.listing(kind).legacy) for kind in selection.kinds)):
        entries_are = output.count(hidden, "entry is", "entries are")
        output.message(f"{entries_are} for jax <= 0.4.30 only: --legacy lists them.")


def _render(entries: Sequence[Entry], columns: Sequence[Field], facts: FactBook, verbose: bool) -> None:
    if not entries:
        output.message("No entries.")
        return
    output.rich(entry_table.table(entries, columns, facts, clock.now_ns(), whole=verbose), whole=verbose)
    total = format_size(sum(entry.bytes for entry in entries))
    output.message(f"{output.count(len(entries), 'entry', 'entries')}, {total}")
