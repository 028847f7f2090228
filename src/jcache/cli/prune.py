"""`jcache prune`: removes what a policy asks for, and never asks back."""

import shutil
import time
from typing import Annotated

import typer

from jcache.cli.options import (
    DryRunOption,
    JsonOption,
    KindsOption,
    QuietOption,
    RootOption,
    VerboseOption,
    XlaOption,
    kinds_of,
    open_store,
    whole_number,
)
from jcache.cli.removal_report import carry_out
from jcache.errors import InvalidValue
from jcache.eviction import Order, Policy, plan
from jcache.selection import with_seconds
from jcache.units import parse_age, parse_size


def complete_orders(incomplete: str) -> list[str]:
    """Orders of eviction."""
    return [order for order in Order if order.startswith(incomplete)]


def prune(
    root: RootOption = None,
    max_size: Annotated[
        str | None, typer.Option("--max-size", metavar="SIZE", help="Bound of all bytes, such as 20GiB.")
    ] = None,
    max_entries: Annotated[
        str | None, typer.Option("--max-entries", metavar="N", help="Bound of the number of entries.")
    ] = None,
    min_free: Annotated[
        str | None, typer.Option("--min-free", metavar="SIZE", help="How much of the disk to have free.")
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="AGE", help="Remove what was not used for longer, such as 30d."),
    ] = None,
    keep_last: Annotated[
        str | None,
        typer.Option(
            "--keep-last", metavar="N", help="Keep the N most recently used in any case; alone, remove all others."
        ),
    ] = None,
    legacy: Annotated[bool, typer.Option("--legacy", help="Remove entries that only jax ≤ 0.4.30 reads.")] = False,
    order: Annotated[
        str,
        typer.Option(
            "--order",
            metavar="ORDER",
            help="Who goes first over a bound: lru, the least recently used, or cost, the cheapest to build per byte.",
            autocompletion=complete_orders,
        ),
    ] = Order.LRU.value,
    kind: KindsOption = None,
    xla: XlaOption = False,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Remove entries by size, number, free space, age or format; pinned ones stay. Never prompts.

    Example: jcache prune --max-size 20GiB --older-than 30d --dry-run
    """
    policy = Policy(
        max_bytes=None if max_size is None else parse_size(max_size),
        max_entries=whole_number("--max-entries", max_entries),
        min_free_bytes=None if min_free is None else parse_size(min_free),
        max_age_ns=None if older_than is None else parse_age(older_than),
        keep_last=whole_number("--keep-last", keep_last),
        legacy=legacy,
        order=_parse_order(order),
    )
    if policy.empty and not xla:
        raise InvalidValue(
            "prune needs to know what to remove: name --max-size, --max-entries, --min-free, --older-than, "
            "--keep-last, --legacy or --xla; `jcache clear` removes everything."
        )
    with open_store(root) as store:
        entries = store.entries(kinds_of(kind), legacy=True)
        if policy.order is Order.COST:
            entries = with_seconds(store, entries)
        free = shutil.disk_usage(store.root.path).free
        decided = plan(entries, policy, now_ns=time.time_ns(), free_bytes=free)
        return carry_out(store, decided, xla=xla, dry_run=dry_run, json=json, quiet=quiet, verbose=verbose)


def _parse_order(text: str) -> Order:
    try:
        return Order(text)
    except ValueError:
        raise InvalidValue(f"'{text}' is not an order: choose from {', '.join(Order)}.") from None
