"""`jcache merge`: local roots brought together in one."""

import os
from typing import Annotated

import typer

from jcache.cli import output
from jcache.cli.commands.import_common import (
    Options,
    Outlook,
    PickleOption,
    ReplaceOption,
    SkipOption,
    exit_code,
    found_here,
    found_in,
    told,
)
from jcache.cli.options import DryRunOption, JsonOption, QuietOption, RootOption, VerboseOption, store_of
from jcache.cli.progress import Bar
from jcache.cli.reports.import_report import Report, over_the_cap
from jcache.cli.reports.removal_report import PARTLY
from jcache.errors import InvalidValue
from jcache.layout import Root
from jcache.shipping.forecast import provenance
from jcache.shipping.importer.archive_import import future_root, laid_out
from jcache.shipping.importer.outcome import Imported, Name
from jcache.shipping.merge import behind, merge as merge_root, plan_merge
from jcache.store.roots import choose_path, make_root, open_root, wants_plain


def merge(
    sources: Annotated[list[str], typer.Argument(metavar="ROOT...", help="Roots, or JAX cache directories, to bring.")],
    root: RootOption = None,
    dry_run: DryRunOption = False,
    replace: ReplaceOption = False,
    skip_incompatible: SkipOption = False,
    allow_pickle: PickleOption = False,
    xla: Annotated[bool, typer.Option("--xla", help="XLA's own sub-caches (autotune, kernels) as well.")] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Bring local roots together in one, which is made if need be; the sources stay as they are.

    Example: jcache merge ~/old-cache /scratch/jax-cache --root ~/cache
    """
    target = future_root(choose_path(root, os.environ), plain=wants_plain(root, os.environ))
    origins = [open_root(choose_path(source, {}, source="ROOT"), "ROOT") for source in sources]
    for origin in origins:
        if _same(origin, target):
            raise InvalidValue(f"{origin.path} is where the others are to go: name it by --root alone.")
        target = laid_out(target, origin.adapter)
    options = Options(
        dry_run=dry_run, replace=replace, skip_incompatible=skip_incompatible, xla=xla, allow_code=allow_pickle
    )
    reports: list[Report] = []
    said: list[str] = []
    code = 0
    brought: dict[Name | str, str] = {}
    for origin in origins:
        report, left = _merge_one(origin, target, options, brought)
        reports.append(report)
        code = max(code, exit_code(report), PARTLY if left else 0)
        if not json:
            said += report.render(quiet=quiet, verbose=verbose, said=said)
    if json:
        output.as_json({"root": str(target.path), "merged": [report.as_json() for report in reports]})
    return code


def _same(one: Root, other: Root) -> bool:
    return os.path.realpath(one.path) == os.path.realpath(other.path)


def _merge_one(origin: Root, target: Root, options: Options, brought: dict[Name | str, str]) -> tuple[Report, int]:
    """Brings one root, or says what that would do where others were brought before; gives how many entries it kept."""
    outlook = Outlook(target, options)
    with store_of(origin) as source:
        with Bar("checking") as bar:
            merging = plan_merge(
                source,
                target,
                outlook.judge,
                replace=options.replace,
                skip_incompatible=options.skip_incompatible,
                allow_code=options.allow_code,
                xla=options.xla,
                progress=bar.show,
            )
        plan, findings, young = merging.plan, merging.prepared.findings, merging.prepared.in_the_making
        if options.dry_run:
            plan = behind(plan, brought)
        report = Report(
            root=target,
            source=str(origin.path),
            dry_run=options.dry_run,
            fates=plan.fates,
            neighbours=plan.neighbours,
            bytes=plan.bytes,
            forecast=plan.forecast,
            is_merge=True,
            more={
                "source": str(origin.path),
                "damaged": [finding.key for finding in findings],
                "being_written": [{"kind": kind, "key": key} for kind, key in young],
            },
        )
        report.notes += [f"Damaged, and not brought: {finding.key}: {finding.evidence}" for finding in findings]
        report.notes += [f"Being written just now, and not brought: {key}" for _, key in young]
        if options.dry_run:
            report.found = found_in(target, plan.fates)
            outlook.settle(report, plan.manifest)
        else:
            imported = Imported()
            with store_of(make_root(target)) as store:
                with Bar("merging") as bar, told(imported, "merge"):
                    merge_root(merging, store, imported, progress=bar.show)
                report.fates, report.neighbours = imported.fates, imported.neighbours
                report.bytes, report.refused = imported.bytes, imported.refused
                report.found = found_here(store, report.fates)
                provenance.remember_imported(store, outlook.settle(report, plan.manifest))
                report.notes += over_the_cap(store)
    return report, len(findings) + len(young)
