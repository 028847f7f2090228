"""`jcache clear`: remove all entries of a kind, or of all kinds."""

from typing import Annotated

import typer

from jcache.admin.removal import plan_clear
from jcache.cli.options import (
    DryRunOption,
    JsonOption,
    QuietOption,
    RootOption,
    VerboseOption,
    XlaOption,
    YesOption,
    complete_kinds,
    kinds_of,
    open_store,
)
from jcache.cli.reports.removal_report import confirmed, remove


def clear(
    kinds: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KIND]...",
            help="executables, traces or graphs; by default, all.",
            autocompletion=complete_kinds,
        ),
    ] = None,
    root: RootOption = None,
    yes: YesOption = False,
    legacy: Annotated[bool, typer.Option("--legacy", help="Also remove entries that only jax ≤ 0.4.30 reads.")] = False,
    xla: XlaOption = False,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Remove all entries of a kind, or of all kinds; pinned entries stay. It asks on a terminal; elsewhere, give --yes.

    Example: jcache clear executables --yes
    """
    chosen = kinds_of(kinds)
    with open_store(root) as store:
        decided = plan_clear(store, chosen, legacy=legacy)
        if not (yes or dry_run) and (decided.victims or xla) and not confirmed("clear", store, decided):
            return 1
        return remove(store, decided, xla=xla, dry_run=dry_run, json=json, quiet=quiet, verbose=verbose)
