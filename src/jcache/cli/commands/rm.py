"""`jcache rm`: remove the entries that keys or filters name."""

from functools import partial
from typing import Annotated

import typer

from jcache.admin.filters import parse_filter
from jcache.admin.named import plan_filters, plan_keys
from jcache.cli.commands.ls import FilterOption
from jcache.cli.options import (
    DryRunOption,
    GenerationsOption,
    JsonOption,
    KeysArgument,
    QuietOption,
    RootOrStoreOption,
    VerboseOption,
    YesOption,
    open_store,
)
from jcache.cli.progress import progress
from jcache.cli.reports.removal_report import confirmed, remove
from jcache.errors import InvalidValue
from jcache.text import command

LegacyOption = Annotated[
    bool, typer.Option("--legacy", help="With --filter: also remove entries that only jax ≤ 0.4.30 reads.")
]


def rm(
    keys: KeysArgument = None,
    root: RootOrStoreOption = None,
    filter: FilterOption = None,  # noqa: A002
    legacy: LegacyOption = False,
    generations: GenerationsOption = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Remove the entries that are named, or that match filters; a trace goes with its programs, pinned entries stay.

    It lists what it would remove and asks on a terminal; elsewhere, give --yes.

    Example: jcache rm --filter 'used>30d' --filter hits=0 --dry-run
    """
    if generations:
        from jcache.cli.commands import remote_generations

        url = remote_generations.store_url(root, filter=filter, legacy=legacy)
        return remote_generations.rm(url, keys or (), yes=yes, dry_run=dry_run, json=json, quiet=quiet)
    if bool(keys) == bool(filter):
        everything = command("clear", root)
        raise InvalidValue(f"rm needs entries: name keys, or give --filter, not both; `{everything}` removes all.")
    if legacy and keys:
        raise InvalidValue("--legacy is an option of --filter: a key names a legacy entry as well.")
    filters = [parse_filter(text) for text in filter or ()]
    with open_store(root) as store:
        reading = partial(progress, doing="reading entries")
        decided = plan_keys(store, keys) if keys else plan_filters(store, filters, legacy=legacy, progress=reading)
        if not (yes or dry_run) and decided.victims and not confirmed("rm", store, decided, listed=not quiet):
            return 1
        return remove(store, decided, dry_run=dry_run, json=json, quiet=quiet, verbose=verbose, of_named=True)
