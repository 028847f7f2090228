"""`jcache sync`: push, then pull. It removes nothing."""

import os

from jcache.cli import output
from jcache.cli.commands.import_ import AllowedSignersOption, RequireSignatureOption
from jcache.cli.commands.import_common import ImportOptions, SkipOption
from jcache.cli.commands.ls import FilterOption
from jcache.cli.commands.pull import pull_entries, pull_request, target_of
from jcache.cli.commands.push import push_entries
from jcache.cli.commands.remote_common import (
    RunOption,
    UrlArgument,
    UsedSinceOption,
    filters_of,
    named,
    request_of,
)
from jcache.cli.options import DryRunOption, JsonOption, KindsOption, QuietOption, RootOption, VerboseOption
from jcache.cli.reports.push_report import as_json, exit_code, render
from jcache.cli.stores import remote_signers, store_of
from jcache.remote.client import open_existing, open_remote
from jcache.store.roots import choose_path, is_vacant, open_root


def sync(
    url: UrlArgument = None,
    root: RootOption = None,
    kind: KindsOption = None,
    filter: FilterOption = None,  # noqa: A002
    run: RunOption = None,
    used_since: UsedSinceOption = None,
    dry_run: DryRunOption = False,
    skip_incompatible: SkipOption = False,
    require_signature: RequireSignatureOption = False,
    allowed_signers: AllowedSignersOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Push what the store lacks, then pull what the cache directory lacks. It removes nothing on either side.

    Example: jcache sync s3://bucket/prefix
    """
    store_name = named(None if url is None else [url]).url
    options = ImportOptions(
        dry_run=dry_run,
        skip_incompatible=skip_incompatible,
        require_signature=require_signature,
        allowed_signers=remote_signers(allowed_signers, required=require_signature),
    )
    pushed, first = None, 0
    path = choose_path(root, os.environ)
    opened = open_existing if is_vacant(path) else open_remote
    with opened(store_name) as remote:
        remote.check_can_list()
        if not is_vacant(path):
            with store_of(open_root(path)) as store:
                request = request_of((), kind, filters_of(filter, used_since), run)
                plan, result = push_entries(store, remote, request, None, dry_run=dry_run)
                pushed, first = (
                    as_json(store, remote, plan, result, dry_run=dry_run, signed=False),
                    exit_code(result),
                )
                if not json and not quiet:
                    render(store, remote, result, dry_run=dry_run, verbose=verbose)
        wanted = pull_request((), kind, filter, used_since, run, root, options)
        report, code = pull_entries(remote, wanted, target_of(root, options), is_told=not (quiet or json))
    if json:
        output.as_json({"push": pushed, "pull": report.as_json()})
    else:
        report.render(quiet=quiet, verbose=verbose)
    return code or first
