"""`jcache verify`: check a root, and with --repair, repair it."""

from typing import Annotated, Any

import typer

from jcache.cli import output
from jcache.cli.options import (
    JsonOption,
    KindsOption,
    QuietOption,
    RootOrStoreOption,
    VerboseOption,
    is_remote,
    kinds_of,
    open_store,
    refuse_options,
)
from jcache.cli.progress import Bar, progress
from jcache.cli.reports.findings_report import as_json, render
from jcache.errors import InvalidValue
from jcache.findings import Damage, Finding, Remedy
from jcache.store.store import Store
from jcache.units import NANOSECONDS, parse_age
from jcache.verify.last_verification import record_verification
from jcache.verify.load_check import LoadCheck, check_loading
from jcache.verify.repair import RepairResult, repair
from jcache.verify.result import Verification, VerifyRequest
from jcache.verify.subset import Subset
from jcache.verify.verification import verify as verify_root


def complete_damages(incomplete: str) -> list[str]:
    """Return the kinds of damage that begin with a text."""
    return [damage for damage in Damage if damage.startswith(incomplete)]


SubsetOption = Annotated[
    str | None,
    typer.Option(
        "--subset",
        metavar="PART",
        help="Check only a part, such as 1/7, 5% or 10GiB; the entries verified longest ago come first.",
    ),
]
MaxDurationOption = Annotated[
    str | None,
    typer.Option("--max-duration", metavar="AGE", help="Check no further entry after this time, such as 10min."),
]
QuickOption = Annotated[bool, typer.Option("--quick", help="Do not decompress entries.")]
LoadOption = Annotated[
    bool,
    typer.Option("--load", help="Also load executables with the installed jaxlib, in a separate process."),
]
RepairOption = Annotated[
    bool,
    typer.Option("--repair", help="Move damaged entries to quarantine, make missing -atime files, remove leftovers."),
]
GraceOption = Annotated[
    str,
    typer.Option("--grace", metavar="AGE", help="Leave alone files that were written less than this ago."),
]
IgnoreOption = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore",
        metavar="DAMAGE",
        help="Do not report this damage, such as writable in a cache that a team shares; may be repeated.",
        autocompletion=complete_damages,
    ),
]
NdjsonOption = Annotated[bool, typer.Option("--ndjson", help="Print each finding as a line of JSON.")]


def verify(
    root: RootOrStoreOption = None,
    kind: KindsOption = None,
    subset: SubsetOption = None,
    max_duration: MaxDurationOption = None,
    quick: QuickOption = False,
    load: LoadOption = False,
    mend: RepairOption = False,
    grace: GraceOption = "1min",
    ignore: IgnoreOption = None,
    json: JsonOption = False,
    ndjson: NdjsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Check the format, content, name and digest of every entry, and sidecars, leftover files and permissions.

    Example: jcache verify --subset 1/7 --repair
    """
    if json and ndjson:
        raise InvalidValue("--json and --ndjson exclude each other: choose one of them.")
    request = VerifyRequest(
        kinds=kinds_of(kind),
        subset=None if subset is None else Subset.parse(subset),
        max_seconds=None if max_duration is None else parse_age(max_duration) / NANOSECONDS,
        quick=quick,
        grace_ns=parse_age(grace),
    )
    ignored = frozenset(map(_parse_damage, ignore or ()))
    if is_remote(root):
        from jcache.cli.commands import remote_root

        refuse_options(root, subset=subset, max_duration=max_duration, load=load, ndjson=ndjson)
        return remote_root.verify(
            str(root), request.kinds, ignored, quick=quick, repair=mend, json=json, quiet=quiet, verbose=verbose
        )
    with open_store(root) as store:
        verification, loads = _check(store, request, ignored, load=load)
        repaired = _repair(store, verification, request.grace_ns) if mend else None
        if repaired is not None:
            record_verification(store, verification, [one.finding for one in repaired if not one.mended])
        if json or ndjson:
            _print_json(store, verification, repaired, loads, lines=ndjson)
        else:
            render(store, verification, repaired, loads, quiet=quiet, verbose=verbose)
    if repaired is not None:
        return 0 if all(one.mended for one in repaired) else 1
    return 1 if verification.findings else 0


def _parse_damage(text: str) -> Damage:
    try:
        return Damage(text)
    except ValueError:
        raise InvalidValue(f"'{text}' is not a kind of damage: choose from {', '.join(Damage)}.") from None


def _check(
    store: Store, request: VerifyRequest, ignored: frozenset[Damage], *, load: bool
) -> tuple[Verification, LoadCheck | None]:
    """Check a root, and load its executables if asked to; leave ignored kinds of damage out of the findings."""
    with Bar("verifying") as bar:
        verification = verify_root(store, request, bar.show)
    loads = _load(store, verification) if load else None
    if loads is not None:
        record_verification(store, verification, verification.findings)
    verification.findings = [finding for finding in verification.findings if finding.damage not in ignored]
    return verification, loads


def _load(store: Store, verification: Verification) -> LoadCheck:
    loads = check_loading(store, verification.sound, lambda some: progress(some, "loading"))
    verification.findings += loads.findings
    return loads


def _repair(store: Store, verification: Verification, grace_ns: int) -> list[RepairResult]:
    """Repair the findings, and make the missing sidecars; the latter are removed from the notes."""
    missing = [note for note in verification.notes if note.remedy is Remedy.MAKE_SIDECAR]
    verification.notes = [note for note in verification.notes if note.remedy is not Remedy.MAKE_SIDECAR]
    findings: list[Finding] = [*verification.findings, *missing]
    return repair(store, findings, grace_ns=grace_ns, progress=lambda some: progress(some, "repairing"))


def _print_json(
    store: Store,
    verification: Verification,
    repaired: list[RepairResult] | None,
    loads: LoadCheck | None,
    *,
    lines: bool,
) -> None:
    value: dict[str, Any] = as_json(store, verification, repaired, loads)
    if not lines:
        output.as_json(value)
        return
    for finding in (*value["findings"], *value["notes"]):
        output.ndjson(finding)
