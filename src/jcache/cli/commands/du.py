"""`jcache du`: bytes of entries, grouped by function, kind, device, jaxlib or run."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Annotated, Final

import typer

from jcache.admin.facts import device_of
from jcache.cli import output
from jcache.cli.options import JsonOption, KindsOption, QuietOption, RootOption, kinds_of, open_store
from jcache.cli.progress import progress
from jcache.entry import Entry
from jcache.errors import InvalidValue
from jcache.layout import Kind
from jcache.store.ledger import Known
from jcache.store.store import Store
from jcache.units import format_size

GROUPINGS: Final = ("function", "kind", "device", "jaxlib", "run")
_UNKNOWN: Final = "unknown"


def complete_groupings(incomplete: str) -> list[str]:
    """Return the groupings that begin with a text."""
    return [name for name in GROUPINGS if name.startswith(incomplete)]


def du(
    root: RootOption = None,
    by: Annotated[
        str,
        typer.Option(
            "--by", metavar="WHAT", help=f"Group by {', '.join(GROUPINGS)}.", autocompletion=complete_groupings
        ),
    ] = "function",
    kind: KindsOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print exact bytes.")] = False,
) -> None:
    """Show the bytes of entries by function, kind, device, jaxlib or run; `unknown` if an entry does not name one.

    Example: jcache du --by device
    """
    if by not in GROUPINGS:
        raise InvalidValue(f"Cannot group bytes by '{by}': choose from {', '.join(GROUPINGS)}.")
    with open_store(root) as store:
        entries = store.entries(kinds_of(kind), legacy=True)
        group = _grouping(store, by, entries)
        count: Counter[str] = Counter()
        size: Counter[str] = Counter()
        for entry in progress(entries, "reading entries") if by == "device" else entries:
            name = group(entry)
            count[name] += 1
            size[name] += entry.bytes
        if json:
            groups = [{"name": n, "entries": count[n], "bytes": b} for n, b in size.most_common()]
            output.as_json(
                {"root": str(store.root.path), "by": by, "groups": groups, "total_bytes": sum(size.values())}
            )
        else:
            _render(by, count, size, quiet=quiet, verbose=verbose)


def _grouping(store: Store, by: str, entries: Sequence[Entry]) -> Callable[[Entry], str]:
    if by == "function":
        return lambda entry: entry.name or _UNKNOWN
    if by == "kind":
        return lambda entry: entry.kind
    if by == "device":
        return lambda entry: device_of(store, entry)[1] or _UNKNOWN
    known = {kind: _known(store, kind) for kind in {entry.kind for entry in entries}}

    def from_ledger(entry: Entry) -> str:
        row = known[entry.kind].get(entry.key)
        return (row and (row.jaxlib if by == "jaxlib" else row.run)) or _UNKNOWN

    return from_ledger


def _known(store: Store, kind: Kind) -> dict[str, Known]:
    return store.queue.attempt(lambda: store.ledger.known(kind)) or {}


def _render(by: str, count: Counter[str], size: Counter[str], *, quiet: bool, verbose: bool) -> None:
    total = sum(size.values())
    if not quiet:
        columns = [(by, "fold"), ("entries", "right"), ("bytes", "right"), ("share", "right")]
        rows = [
            (
                output.plain(name),
                f"{count[name]:,}",
                f"{b:,}" if verbose else format_size(b),
                f"{b / total:.0%}" if total else "–",
            )
            for name, b in size.most_common()
        ]
        output.rich(output.table(columns, rows), "")
    output.data(f"{format_size(total)} in {output.count(sum(count.values()), 'entry', 'entries')}")
