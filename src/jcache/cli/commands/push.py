"""`jcache push`: store entries in an object store or behind HTTP."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from jcache.cli import output
from jcache.cli.commands.export import SignOption, signer_of
from jcache.cli.commands.ls import FilterOption
from jcache.cli.commands.remote_common import (
    RunOption,
    UsedSinceOption,
    WordsArgument,
    filters_of,
    named,
    request_of,
    telling_progress,
)
from jcache.cli.options import DryRunOption, JsonOption, KindsOption, QuietOption, RootOption, VerboseOption, open_store
from jcache.cli.progress import Bar
from jcache.cli.reports.push_report import as_json, exit_code, render
from jcache.remote.client import Remote, open_remote
from jcache.shipping.exporter.selection import ExportRequest
from jcache.shipping.sync.generations import push_generation
from jcache.shipping.sync.push import STORED, PushPlan, PushResult, execute_push, plan_push
from jcache.shipping.sync.runs import push_runs
from jcache.store.store import Store
from jcache.text import command as hint
from jcache.units import format_size

Sign = Callable[[bytes], bytes]

AsOption = Annotated[
    str | None,
    typer.Option(
        "--as", metavar="NAME", help="Store one archive under this name, which stays, instead of single entries."
    ),
]


def push(
    words: WordsArgument = None,
    root: RootOption = None,
    kind: KindsOption = None,
    filter: FilterOption = None,  # noqa: A002
    run: RunOption = None,
    used_since: UsedSinceOption = None,
    generation: AsOption = None,
    sign: SignOption = None,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Upload the entries that a store lacks: an object store, a directory or an HTTP server. Damaged entries stay here.

    Example: jcache push s3://bucket/prefix --run last
    """
    store_name, keys = named(words)
    request = request_of(keys, kind, filters_of(filter, used_since), run)
    with open_remote(store_name) as remote, open_store(root) as store:
        signing = None if sign is None else signer_of(Path(os.path.expanduser(sign)))
        if generation is not None:
            summary = _push_generation(store, remote, request, generation, signing, dry_run=dry_run)
            if json:
                output.as_json(summary)
            elif not quiet:
                _tell_generation(summary)
            return 3 if summary["damaged"] else 0
        plan, result = push_entries(store, remote, request, signing, dry_run=dry_run)
        if json:
            output.as_json(as_json(store, remote, plan, result, dry_run=dry_run, signed=sign is not None))
        elif not quiet:
            render(store, remote, result, dry_run=dry_run, verbose=verbose)
        return exit_code(result)


def push_entries(
    store: Store, remote: Remote, request: ExportRequest, sign: Sign | None, *, dry_run: bool
) -> tuple[PushPlan, PushResult]:
    """Push the requested entries, unless it is a dry run; return the plan and what was done, or would be."""
    plan, result = plan_push(store, remote, request, signs=sign is not None), PushResult()
    if dry_run:
        with Bar("checking") as bar:
            execute_push(plan, remote, result, dry_run=True, progress=bar.show)
        return plan, result
    with Bar("pushing") as bar, telling_progress("pushed", lambda: result.count(*STORED), "push"):
        execute_push(plan, remote, result, sign=sign, progress=bar.show)
        push_runs(store.root, remote)
    return plan, result


def _push_generation(
    store: Store, remote: Remote, request: ExportRequest, name: str, sign: Sign | None, *, dry_run: bool
) -> dict[str, Any]:
    with Bar("checking") as bar:
        done = push_generation(store, remote, request, name, sign, dry_run=dry_run, progress=bar.show)
    return {
        "root": str(store.root.path),
        "remote": str(remote),
        "generation": name,
        "dry_run": dry_run,
        "signed": sign is not None,
        "entries": done.entries,
        "bytes": done.bytes,
        "archive_bytes": done.archive_bytes,
        "damaged": [
            {"kind": finding.kind, "key": finding.key, "damage": finding.damage} for finding in done.findings
        ],
    }  # fmt: skip


def _tell_generation(summary: dict[str, Any]) -> None:
    verb = "Would push" if summary["dry_run"] else "Pushed"
    number = output.count(summary["entries"], "entry", "entries")
    size = format_size(summary["bytes"])
    output.prose(f"{verb} {number}, {size}, to {summary['remote']} as {summary['generation']}")
    if summary["damaged"]:
        number = output.count(len(summary["damaged"]), "damaged entry", "damaged entries")
        output.error(f"{number} not pushed: `{hint('verify --repair', summary['root'])}`.")
