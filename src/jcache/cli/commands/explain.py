"""`jcache explain`: why programs missed the cache, what it cost, and what to do."""

import os
from typing import Annotated, Any, Final

import typer

from jcache.cli import output
from jcache.cli.options import JsonOption, RootOption, VerboseOption, complete_keys, open_store
from jcache.cli.reports import explain_report as report
from jcache.errors import InvalidValue, UnknownKey
from jcache.explain.baseline import History
from jcache.explain.comparison import Comparison, compare_keys
from jcache.explain.diagnosis import diagnose
from jcache.explain.programs import Programs
from jcache.explain.ranks import agreements
from jcache.explain.root_evidence import RootEvidence
from jcache.explain.sealed_entries import compare_sealed, find_sealed
from jcache.explain.target import LAST, Target, find_target
from jcache.layout import Kind, Root
from jcache.runs.record import record_from
from jcache.runs.stored_reports import read_reports, totals
from jcache.store.run_records import read_module, read_records
from jcache.store.store import Store
from jcache.text import command

_LATEST_RUNS: Final = 200  # records that are read at first, in about a second
WhatArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[RUN|KEY|FUNCTION]", help="What to explain; by default the last run.", autocompletion=complete_keys
    ),
]
OtherArgument = Annotated[
    str | None,
    typer.Argument(metavar="[B]", help="A second run or key, to compare with the first.", autocompletion=complete_keys),
]


def explain(
    what: WhatArgument = None,
    other: OtherArgument = None,
    root: RootOption = None,
    diff: Annotated[
        bool, typer.Option("--diff", help="Show the two modules of the dearest cause side by side.")
    ] = False,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Say why programs missed the cache: for each cause, what it cost and how to avoid it, the dearest first.

    A run is compared with the previous run of the same command. `jcache run`, `jcache warm` and programs that call
    `jcache.enable()` record runs.

    Example: jcache explain
    """
    if json and diff:
        raise InvalidValue("explain prints one form at a time: choose --json or --diff.")
    with open_store(root) as store:
        try:
            history, targets = _found(store, what, other)
        except UnknownKey:
            if not _sealed(store, [text for text in (what, other) if text is not None], json=json, diff=diff):
                raise
            return 0
        if what in (None, LAST) and other is None:
            _warn_unrecorded(store, history)
        with Programs(lambda module: read_module(store.root, module), os.environ) as programs:
            evidence = RootEvidence(store, history.keys)
            if targets[-1].run is None or (len(targets) == 2 and targets[0].key is not None):
                _entries(store.root, history, targets, programs, evidence, json=json, diff=diff)
            else:
                _run(store, history, targets, programs, evidence, given=root, json=json, diff=diff, verbose=verbose)
    return 0


def _sealed(store: Store, texts: list[str], *, json: bool, diff: bool) -> bool:
    """Explain in what a trace or graph differs from another one; return False if the texts are not all keys of such."""
    headers = [header for text in texts if (header := find_sealed(store, text)) is not None]
    if not texts or len(headers) < len(texts):
        return False
    found = compare_sealed(store, headers[-1], headers[0] if len(headers) == 2 else None)
    if json:
        output.as_json({"root": str(store.root.path)} | found.to_json())
    else:
        report.render_sealed(found)
    if diff:
        output.prose("Traces and graphs have no modules to show side by side.")
    return True


def _found(store: Store, what: str | None, other: str | None) -> tuple[History, list[Target]]:
    """Return the recorded runs and what is to be explained: the latest runs, or all where those do not have it."""

    def history(latest: int | None) -> History:
        found = read_records(store.root, latest=latest)
        return History(record for data in found if (record := record_from(data)) is not None)

    recent = history(_LATEST_RUNS)
    try:
        targets = _targets(store, recent, what, other)
        if len(recent.runs) < _LATEST_RUNS or all(target.run is not None for target in targets):
            return recent, targets
    except UnknownKey:
        if len(recent.runs) < _LATEST_RUNS:
            raise
    everything = history(None)
    return everything, _targets(store, everything, what, other)


def _warn_unrecorded(store: Store, history: History) -> None:
    """Print a warning if the last run has a report and no record, so that an older one is explained."""
    texts = store.queue.attempt(store.ledger.runs) or []
    for last in read_reports(texts[-1:]):
        if any(run.id == last["id"] for run in history.runs):
            continue
        why = "compiled nothing"
        if last["stored"] + last["not_stored"]:
            why = "has no record (JCACHE_RECORD was off, or the root could not be written)"
        output.warning(f"The last run, {last['id']}, {why}, so the run before it is explained.")


def _targets(store: Store, history: History, what: str | None, other: str | None) -> list[Target]:
    """Return the one or two things that are to be explained, the later run last."""
    root = store.root.path
    if not history.runs and other is None and what in (None, LAST):
        raise UnknownKey(
            f"No run that compiled anything is recorded in {root}: `{command('run', root, '-- CMD')}` records one."
        )
    entries = store.listing(Kind.EXECUTABLES).columns.keys if what is not None else ()
    targets = [find_target(history, text, entries, root) for text in (what or LAST, other) if text is not None]
    kinds = {(target.key is not None, target.function is not None) for target in targets}
    if len(targets) == 2 and (len(kinds) > 1 or targets[0].function is not None):
        raise InvalidValue("explain compares two runs or two keys: name two of the same sort.")
    if len(targets) == 2 and targets[0].run and targets[1].run and targets[0].key is None:
        targets.sort(key=lambda target: (target.run.started_ns, target.run.id) if target.run else (0, ""))
    return targets


def _run(
    store: Store,
    history: History,
    targets: list[Target],
    programs: Programs,
    evidence: RootEvidence,
    *,
    given: str | None,
    json: bool,
    diff: bool,
    verbose: bool,
) -> None:
    """Explain the misses of a run, all or some of them; ``given`` is the value of ``--root``."""
    target = targets[-1]
    assert target.run is not None  # noqa: S101  `explain` has made sure
    baseline = targets[0].run if len(targets) == 2 else None
    found = diagnose(
        history,
        target.run,
        programs,
        evidence,
        baseline=baseline,
        function=target.function,
        key=target.key,
        root=given,
    )
    is_whole = target == Target(target.run)
    ranks = agreements(history, target.run, programs) if is_whole else []
    calls = _calls(store, target.run.id) if is_whole else {}
    if json:
        more = {"ranks": [report.agreement_json(one) for one in ranks], **calls}
        output.as_json({"root": str(store.root.path)} | found.to_json() | more)
        return
    report.render(found, ranks, verbose=verbose)
    report.render_calls(calls)
    if diff:
        report.render_diff(found, programs)
    for notice in found.notices:
        output.warning(notice)


def _calls(store: Store, run: str) -> dict[str, Any]:
    """Return what the report of a run says of its traces and graphs; nothing if it has no report."""
    texts = [text for text in store.queue.attempt(store.ledger.runs) or [] if run in text]  # reading all takes long
    summed = totals([each for each in read_reports(texts) if each["id"] == run])
    return {kind: summed[kind] for kind in ("traces", "graphs")} if summed["runs"] else {}


def _entries(
    root: Root,
    history: History,
    targets: list[Target],
    programs: Programs,
    evidence: RootEvidence,
    *,
    json: bool,
    diff: bool,
) -> None:
    """Explain an entry that no run has recorded, or the difference of two keys."""
    keys = [target.key or "" for target in targets]
    found: Comparison = compare_keys(history, keys[-1], keys[0] if len(keys) == 2 else None, programs, evidence)
    if json:
        output.as_json({"root": str(root.path)} | found.to_json())
        return
    report.render_comparison(found)
    if diff:
        report.render_modules(programs, found.current_module, found.baseline_module)
    if programs.notice is not None:
        output.warning(programs.notice)
