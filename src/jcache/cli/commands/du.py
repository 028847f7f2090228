"""`jcache du`: bytes of entries, grouped by function, kind, device, jaxlib or run."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from jcache.admin.usage import Grouping, UsageGroup, UsageOrder, ordered, sum_up
from jcache.cli import output
from jcache.cli.options import JsonOption, KindsOption, QuietOption, RootOrStoreOption, is_remote, kinds_of, open_store
from jcache.cli.progress import progress
from jcache.text import masked
from jcache.units import format_seconds, format_size, parse_choice, whole_number

_SCHEMA_VERSION = 2  # groups have `build_seconds` and `runs`


def complete_groupings(incomplete: str) -> list[str]:
    """Return the groupings that begin with a text."""
    return [name for name in Grouping if name.startswith(incomplete)]


def complete_orders(incomplete: str) -> list[str]:
    """Return the orders that begin with a text."""
    return [name for name in UsageOrder if name.startswith(incomplete)]


ByOption = Annotated[
    str,
    typer.Option("--by", metavar="WHAT", help=f"Group by {', '.join(Grouping)}.", autocompletion=complete_groupings),
]
SortOption = Annotated[
    str,
    typer.Option("--sort", metavar="ORDER", help=f"Sort by {', '.join(UsageOrder)}.", autocompletion=complete_orders),
]
LimitOption = Annotated[str | None, typer.Option("--limit", metavar="N", help="Show at most N groups.")]


def du(
    root: RootOrStoreOption = None,
    by: ByOption = Grouping.FUNCTION.value,
    sort: SortOption = UsageOrder.BYTES.value,
    limit: LimitOption = None,
    kind: KindsOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print exact bytes, and whole names.")] = False,
) -> None:
    """Show the bytes of entries by function, kind, device, jaxlib or run; `unknown` if an entry does not name one.

    Also the time that building them took, as far as it is on record (--sort seconds
    reads it from the entries), and in how many recorded runs they were used.

    Example: jcache du --by device
    """
    grouping, order = (
        parse_choice(Grouping, by, "is no group of du"),
        parse_choice(UsageOrder, sort, "is no order of du"),
    )
    count = whole_number("--limit", limit)
    if is_remote(root):
        from jcache.cli.commands import remote_root

        groups = remote_root.groups(str(root), grouping, kinds_of(kind))
        _print(str(root), grouping, ordered(groups, order), order, count, json=json, quiet=quiet, verbose=verbose)
        return
    with open_store(root) as store:
        groups = sum_up(
            store,
            grouping,
            kinds_of(kind),
            read_seconds=order is UsageOrder.SECONDS,
            progress=lambda entries: progress(entries, "reading entries"),
        )
        path = str(store.root.path)
    _print(path, grouping, ordered(groups, order), order, count, json=json, quiet=quiet, verbose=verbose)


def _print(
    root: str,
    by: Grouping,
    groups: Sequence[UsageGroup],
    order: UsageOrder,
    count: int | None,
    *,
    json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Print the first groups of a root or store, and the sums of all."""
    shown = groups if count is None else groups[:count]
    total = sum(group.bytes for group in groups)
    if json:
        listed = [_as_json(group) for group in shown]
        value = {"root": masked(root), "by": by, "groups": listed, "total_bytes": total}
        output.as_json(value, version=_SCHEMA_VERSION)
        return
    if not quiet:
        output.rich(_table(by, shown, total, verbose=verbose), whole=verbose)
        output.rich("")
        if len(shown) < len(groups):
            output.data(f"first {len(shown):,} of {len(groups):,} by {order}")
    entries = sum(group.entries for group in groups)
    output.data(f"{format_size(total)} in {output.count(entries, 'entry', 'entries')}")


def _as_json(group: UsageGroup) -> dict[str, object]:
    return {
        "name": group.name,
        "entries": group.entries,
        "bytes": group.bytes,
        "build_seconds": group.seconds,
        "runs": group.runs,
    }


def _table(by: Grouping, groups: Sequence[UsageGroup], total: int, *, verbose: bool) -> Any:  # noqa: ANN401
    numbers = ("entries", "bytes", "share", "built in", "runs")
    rows = [
        (
            output.plain(group.name),
            f"{group.entries:,}",
            f"{group.bytes:,}" if verbose else format_size(group.bytes),
            f"{group.bytes / total:.0%}" if total else "–",
            "–" if group.seconds is None else format_seconds(group.seconds),
            f"{group.runs:,}" if group.runs else "–",
        )
        for group in groups
    ]
    return output.table([(by, "fold"), *((name, "right") for name in numbers)], rows, whole=verbose)
