"""`jcache prune`: remove the entries that a policy selects, without a prompt."""

import os
from typing import Annotated

import typer

from jcache.admin.filters import parse_filter
from jcache.admin.limits import with_configured
from jcache.admin.removal import PruneLimits, plan_prune
from jcache.cli import output
from jcache.cli.commands.ls import FilterOption
from jcache.cli.options import (
    DryRunOption,
    JsonOption,
    KindsOption,
    QuietOption,
    RootOrStoreOption,
    VerboseOption,
    XlaOption,
    is_remote,
    kinds_of,
    open_store,
    refuse_options,
)
from jcache.cli.reports.removal_report import remove
from jcache.errors import InvalidValue
from jcache.store.order import Order
from jcache.store.removal import xla_size
from jcache.units import format_size


def complete_orders(incomplete: str) -> list[str]:
    """Return the orders of eviction that begin with a text."""
    return [order for order in Order if order.startswith(incomplete)]


MaxSizeOption = Annotated[
    str | None, typer.Option("--max-size", metavar="SIZE", help="Largest total size to keep, such as 20GiB.")
]
MaxEntriesOption = Annotated[
    str | None, typer.Option("--max-entries", metavar="N", help="Largest number of entries to keep.")
]
MinFreeOption = Annotated[
    str | None, typer.Option("--min-free", metavar="SIZE", help="Free space to keep on the disk, such as 50GiB.")
]
OlderThanOption = Annotated[
    str | None,
    typer.Option("--older-than", metavar="AGE", help="Remove entries that were not used for this long, such as 30d."),
]
KeepLastOption = Annotated[
    str | None,
    typer.Option(
        "--keep-last",
        metavar="N",
        help="Always keep the N most recently used; without another limit, remove all others.",
    ),
]
LegacyOption = Annotated[bool, typer.Option("--legacy", help="Remove entries that only jax ≤ 0.4.30 reads.")]
GraceOption = Annotated[
    str | None,
    typer.Option(
        "--grace", metavar="AGE", help="In a store: keep entries that were stored less than this ago; by default 1h."
    ),
]
OrderOption = Annotated[
    str | None,
    typer.Option(
        "--order",
        metavar="ORDER",
        help="Which entries to remove first: the least recently used (lru), or those that cost the least time to "
        "build per byte (cost); by default as configured, else lru.",
        autocompletion=complete_orders,
    ),
]


def prune(
    root: RootOrStoreOption = None,
    max_size: MaxSizeOption = None,
    max_entries: MaxEntriesOption = None,
    min_free: MinFreeOption = None,
    older_than: OlderThanOption = None,
    keep_last: KeepLastOption = None,
    legacy: LegacyOption = False,
    order: OrderOption = None,
    kind: KindsOption = None,
    filter: FilterOption = None,  # noqa: A002
    xla: XlaOption = False,
    grace: GraceOption = None,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Remove entries by size, number, free space, age or format, without a prompt. Pinned entries stay.

    Without any limit here, the limits that `jcache config` shows hold.

    Example: jcache prune --max-size 20GiB --older-than 30d --dry-run
    """
    asked = PruneLimits(max_size, max_entries, min_free, older_than, keep_last, legacy, order).policy()
    filters = [parse_filter(text) for text in filter or ()]
    if is_remote(root):
        from jcache.cli.commands import remote_root

        refuse_options(root, xla=xla)
        return remote_root.prune(
            str(root), asked, kinds_of(kind), filters, grace=grace, dry_run=dry_run, json=json, quiet=quiet,
            verbose=verbose,
        )  # fmt: skip
    if grace is not None:
        raise InvalidValue(
            "--grace works on a store: in a directory, entries that are being written stay anyway; leave it out."
        )
    with open_store(root) as store:
        policy, limits = with_configured(asked, store, root, os.environ, xla=xla)
        if limits and not quiet:
            output.message(limits)
        decided = plan_prune(store, policy, kinds_of(kind), filters=filters, xla=xla)
        code = remove(store, decided, xla=xla, dry_run=dry_run, json=json, quiet=quiet, verbose=verbose)
        if policy.max_bytes is not None and not xla and (beside := xla_size(store.root)):
            output.message(f"XLA's sub-caches are not counted: {format_size(beside)}, which --xla removes.")
        return code
