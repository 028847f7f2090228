"""`jcache pull`: take entries from an object store or from HTTP into a root."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from jcache.cli import output
from jcache.cli.commands.import_ import (
    AllowedSignersOption,
    LinkOption,
    LoadOption,
    RecompileOption,
    RequireSignatureOption,
    take_archive,
)
from jcache.cli.commands.import_common import (
    ImportOptions,
    ImportTarget,
    ReplaceOption,
    SkipOption,
    complete_import,
    damage_of_kept_in,
    exit_code,
)
from jcache.cli.commands.ls import FilterOption
from jcache.cli.commands.remote_common import (
    RunOption,
    UsedSinceOption,
    WordsArgument,
    filters_of,
    named,
    telling_progress,
)
from jcache.cli.options import DryRunOption, JsonOption, KindsOption, QuietOption, RootOption, VerboseOption, kinds_of
from jcache.cli.progress import Bar
from jcache.cli.reports.import_report import ImportReport
from jcache.cli.stores import remote_signers, store_of
from jcache.errors import BadArchive, InvalidValue
from jcache.remote.client import Remote, open_existing
from jcache.shipping.archive import ArchiveReader, open_archive
from jcache.shipping.forecast.verdict import Hit
from jcache.shipping.importer.archive_import import Trust, execute_plan, plan_import
from jcache.shipping.importer.outcome import WRITTEN, ImportResult
from jcache.shipping.importer.target_root import future_root, layout_by_keys, with_layout
from jcache.shipping.sync.generations import has_generation, open_generation
from jcache.shipping.sync.manifests import SignatureRule
from jcache.shipping.sync.pull import Pull, spaces_here
from jcache.shipping.sync.survey import Available, PullRequest, survey_store, with_digests
from jcache.store.roots import choose_path, make_root, open_root, wants_plain


def pull(
    words: WordsArgument = None,
    root: RootOption = None,
    kind: KindsOption = None,
    filter: FilterOption = None,  # noqa: A002
    run: RunOption = None,
    used_since: UsedSinceOption = None,
    dry_run: DryRunOption = False,
    replace: ReplaceOption = False,
    skip_incompatible: SkipOption = False,
    require_signature: RequireSignatureOption = False,
    allowed_signers: AllowedSignersOption = None,
    link: LinkOption = False,
    check_load: LoadOption = False,
    recompile: RecompileOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Download entries from a store into a cache directory, and say first which will hit here.

    A name that `push --as` has given takes that whole archive.

    Example: jcache pull s3://bucket/prefix --skip-incompatible --dry-run
    """
    url, keys = named(words)
    options = ImportOptions(
        dry_run=dry_run,
        replace=replace,
        skip_incompatible=skip_incompatible,
        link=link,
        check_load=check_load,
        recompile=recompile,
        require_signature=require_signature,
        allowed_signers=remote_signers(allowed_signers, required=require_signature),
    )
    with open_existing(url) as remote:
        if len(keys) == 1 and has_generation(remote, keys[0]):
            _check_whole(keys[0], {"kind": kind, "filter": filter, "used-since": used_since, "run": run})
            report, code = _pull_generation(remote, keys[0], target_of(root, options), is_named=root is not None)
        else:
            request = pull_request(keys, kind, filter, used_since, run, root, options)
            report, code = pull_entries(remote, request, target_of(root, options), is_told=not (quiet or json))
    if json:
        output.as_json(report.as_json())
    else:
        report.render(quiet=quiet, verbose=verbose)
    return code


def target_of(root: str | None, options: ImportOptions) -> ImportTarget:
    """Return the root of a pull, which need not exist, with its options."""
    path = choose_path(root, os.environ)
    return ImportTarget(with_layout(future_root(path, plain=wants_plain(root, os.environ)), None), options)


def pull_request(
    keys: Sequence[str],
    kind: list[str] | None,
    filters: list[str] | None,
    used_since: str | None,
    run: str | None,
    root: str | None,
    options: ImportOptions,
) -> PullRequest:
    """Return which entries a command line asks for.

    Raises:
        UnknownKey: the run is not recorded in the root.
        NoCacheHere: a run is named, and there is no root that could have recorded it.
    """
    names = None
    if run is not None:
        from jcache.shipping.exporter.selection import keys_of_run

        with store_of(open_root(choose_path(root, os.environ))) as store:
            names = keys_of_run(store, run)
    rule = SignatureRule(options.require_signature, options.allowed_signers)
    return PullRequest(kinds_of(kind), filters_of(filters, used_since), tuple(keys), names, rule)


def pull_entries(
    remote: Remote, request: PullRequest, target: ImportTarget, *, is_told: bool
) -> tuple[ImportReport, int]:
    """Pull the requested entries, unless it is a dry run; return the report and the exit code.

    If `is_told`, the forecast is printed before the first entry is asked for.
    """
    machine = target.machine
    capabilities = tuple(gpu.compute_capability for gpu in machine.gpus if gpu.compute_capability)
    spaces = spaces_here(machine.jaxlib, machine.platforms, capabilities)
    available = survey_store(remote, request, spaces)
    target.root = layout_by_keys(target.root, available.manifest)
    manifest = with_digests(available, remote, target.root).manifest
    trust = Trust(signed=request.rule.applies, signer=available.signer)
    options = target.options
    plan = plan_import(manifest, target.root, target.judge(manifest), trust=trust, replace=options.replace,
                       skip_incompatible=options.skip_incompatible)  # fmt: skip
    report = ImportReport(
        root=target.root, source=str(remote), dry_run=options.dry_run, outcomes=plan.outcomes, neighbours={},
        bytes=plan.bytes, forecast=plan.forecast, archive_fields={"remote": _remote_json(remote, available, trust)},
        notes=_notes(remote, available, plan.forecast.count(Hit.CANNOT), options), is_pull=True,
    )  # fmt: skip
    if options.dry_run:
        report.kept_damage = damage_of_kept_in(target.root, plan.outcomes)
        target.add_forecast(report, manifest)
        return report, exit_code(report)
    if plan.written and is_told:
        report.told = tuple(plan.forecast.sentences)
        for sentence in report.told:
            output.prose(sentence)
        sys.stdout.flush()
    imported = ImportResult()
    with store_of(make_root(target.root)) as store:
        with (
            Bar("pulling") as bar,
            telling_progress("stored", lambda: imported.count(*WRITTEN), "pull"),
            Pull(remote, available, plan, store.root, imported) as pulling,
        ):
            execute_plan(plan, pulling.members(), store, imported, omitted=lambda: pulling.omitted, progress=bar.show)
        return complete_import(report, imported, store, target, manifest, trust)


def _remote_json(remote: Remote, available: Available, trust: Trust) -> dict[str, Any]:
    items = available.manifest.items
    return {
        "url": str(remote),
        "entries": len(items),
        "bytes": sum(item.bytes for item in items),
        "unsigned": available.unsigned,
        "signer": trust.signer,
    }


def _notes(remote: Remote, available: Available, hopeless: int, options: ImportOptions) -> list[str]:
    notes = []
    if available.signer is not None:
        notes.append(f"Signed by {available.signer}")
    if available.unsigned:
        number = output.count(available.unsigned, "entry", "entries")
        notes.append(f"{number} left out: no manifest that an allowed signer has signed lists them")
    if available.damaged:
        number = output.count(len(available.damaged), "damaged manifest", "damaged manifests")
        notes.append(f"Skipped {number} of {remote}")
    if hopeless and not options.skip_incompatible:
        notes.append(f"--skip-incompatible leaves out the {hopeless:,} executables that cannot be hit here")
    return notes


def _check_whole(name: str, options: Mapping[str, object]) -> None:
    """Raise InvalidValue if one of some options, by their names, selects entries of a generation."""
    if wrong := [f"--{option}" for option, value in options.items() if value]:
        raise InvalidValue(f"{name} is a generation, which is taken whole: leave out {wrong[0]}, or the name.")


def _pull_generation(remote: Remote, name: str, target: ImportTarget, *, is_named: bool) -> tuple[ImportReport, int]:
    """Import the archive of a generation; return the report and the exit code."""
    reader = open_archive(open_generation(remote, name), name=f"{name} of {remote}")
    if not isinstance(reader, ArchiveReader):
        raise BadArchive(f"{name} of {remote} is no archive of jcache: choose a name that push --as has stored.")
    report, code = take_archive(reader, target, is_named=is_named)
    report.source = reader.name  # not the root that it was made from, which is another host's
    return report, code
