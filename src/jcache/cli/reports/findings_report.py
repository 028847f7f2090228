"""Report of `jcache verify`, as text and as JSON."""

from collections import Counter
from typing import Any

from jcache.cli import output
from jcache.errors import LedgerUnavailable
from jcache.findings import Damage, Finding, Remedy
from jcache.layout import Kind, short_key
from jcache.store.store import Store
from jcache.text import command
from jcache.units import format_seconds, format_size
from jcache.verify.load_check import LoadCheck, LoadOutcome
from jcache.verify.repair import RepairOutcome, RepairResult
from jcache.verify.result import Verification

_ROWS = 40
_MAX_WHERE_WIDTH = 32


def as_json(
    store: Store, verification: Verification, repaired: list[RepairResult] | None, loads: LoadCheck | None
) -> dict[str, Any]:
    """Return the result as JSON values."""
    outcomes = {id(one.finding): one for one in repaired or ()}
    return {
        "root": str(store.root.path),
        "clean": all(one.mended for one in repaired) if repaired is not None else not verification.findings,
        "entries": verification.entries,
        "bytes": verification.bytes,
        "checked_entries": verification.checked,
        "checked_bytes": verification.checked_bytes,
        "unchanged_entries": verification.unchanged,
        "rewritten_entries": verification.rewritten,
        "being_written": verification.being_written,
        "not_checked_inside": verification.opaque.total(),
        "seconds": round(verification.seconds, 3),
        "findings": [_finding(finding, outcomes.get(id(finding))) for finding in verification.findings],
        "notes": [_finding(finding, None) for finding in verification.notes],
        "loads": None if loads is None else _loads(loads),
        "repaired": None if repaired is None else dict(Counter(one.outcome.replace(" ", "_") for one in repaired)),
    }


def _finding(finding: Finding, repaired: RepairResult | None) -> dict[str, Any]:
    outcome: dict[str, Any] = {}
    if repaired is not None:
        outcome = {
            "outcome": repaired.outcome.replace(" ", "_"),
            "reason": repaired.reason,
            "quarantine_id": repaired.record and repaired.record.id,
        }
    return {
        "damage": finding.damage,
        "kind": finding.kind,
        "key": finding.key,
        "path": str(finding.path),
        "evidence": finding.evidence,
        "remedy": finding.remedy.replace(" ", "_"),
        "advice": finding.advice,
        "digest": finding.digest,
        "expected_digest": finding.expected,
    } | outcome


def _loads(loads: LoadCheck) -> dict[str, Any]:
    counts = {str(loading): loads.count(loading) for loading in LoadOutcome}
    entries = [
        {"key": key, "loading": loaded.outcome, "evidence": loaded.evidence or None}
        for key, loaded in loads.results.items()
    ]
    return counts | {"entries": entries}


def render(
    store: Store,
    verification: Verification,
    repaired: list[RepairResult] | None,
    loads: LoadCheck | None,
    *,
    quiet: bool,
    verbose: bool,
) -> None:
    """Print a table of the findings, a summary and the next command."""
    findings = verification.findings
    if not quiet:
        _table(store, findings, repaired, verbose=verbose)
    output.prose(_summary(verification))
    if quiet:
        return
    for note in verification.notes if verbose else ():
        if note.damage is Damage.DANGLING:
            output.prose(f"  {_where(store, note, verbose=True)}: {note.evidence}")
    if loads is not None:
        _render_loads(loads, verbose=verbose)
    for line in _next_steps(store, verification, repaired):
        output.prose(line)


def _table(store: Store, findings: list[Finding], repaired: list[RepairResult] | None, *, verbose: bool) -> None:
    if not findings:
        return
    outcomes = {id(one.finding): one for one in repaired or ()}
    shown = findings if verbose else findings[:_ROWS]
    rows = []
    for finding in shown:
        one = outcomes.get(id(finding))
        where = _where(store, finding, verbose=verbose)
        done = finding.remedy if one is None else one.outcome
        rows.append((finding.damage.replace("_", " "), where, finding.evidence, done))
    heading = "remedy" if repaired is None else "done"
    columns = [("damage", "left"), ("where", "left"), ("evidence", "wrap"), (heading, "left")]
    output.rich(output.table(columns, rows))
    if len(shown) < len(findings):
        output.prose(f"… and {len(findings) - len(shown):,} more: -v shows all")


def _where(store: Store, finding: Finding, *, verbose: bool) -> str:
    """Return the key or path of a finding, shortened unless verbose."""
    if finding.key is not None:
        kind = "" if finding.kind in (None, Kind.EXECUTABLES) else f"{finding.kind}/"
        text = kind + (finding.key if verbose else short_key(finding.key))
    else:
        beneath = finding.path.is_relative_to(store.root.path) and finding.path != store.root.path
        text = str(finding.path.relative_to(store.root.path) if beneath else finding.path)
    if verbose or len(text) <= _MAX_WHERE_WIDTH:
        return text
    return f"{text[: _MAX_WHERE_WIDTH - 16]}…{text[-15:]}"


def _summary(verification: Verification) -> str:
    checked = output.count(verification.checked, "entry", "entries")
    of = "" if verification.checked == verification.entries else f" of {verification.entries:,}"
    size, seconds = format_size(verification.checked_bytes), format_seconds(verification.seconds)
    found = output.count(len(verification.findings), "finding", "findings") if verification.findings else "no findings"
    parts = [f"Checked {checked}{of}, {size}, in {seconds}: {found}"]
    if verification.rewritten:
        parts.append(f"{verification.rewritten:,} written again since they were recorded")
    if verification.being_written:
        parts.append(f"{verification.being_written:,} being written")
    notes = Counter(note.damage for note in verification.notes)
    if missing := notes[Damage.MISSING_SIDECAR]:
        parts.append(f"{missing:,} without an -atime file, which only a bounded JAX needs (--repair makes them)")
    if legacy := notes[Damage.LEGACY]:
        parts.append(f"{legacy:,} legacy, which no JAX after 0.4.30 reads")
    if dangling := notes[Damage.DANGLING]:
        parts.append(f"{dangling:,} dangling: linked to missing entries (-v lists them)")
    return "; ".join(parts)


def _render_loads(loads: LoadCheck, *, verbose: bool) -> None:
    texts = {
        LoadOutcome.LOADS: "load here",
        LoadOutcome.ELSEWHERE: "not loadable here",
        LoadOutcome.REFUSED: "refused by the jaxlib that wrote them",
        LoadOutcome.CRASHED: "crash jaxlib",
        LoadOutcome.TIMED_OUT: "do not finish loading",
    }
    parts = [f"{count:,} {text}" for loading, text in texts.items() if (count := loads.count(loading))]
    output.prose(f"Loaded: {', '.join(parts) or 'nothing to load'}")
    elsewhere = {key: loaded for key, loaded in loads.results.items() if loaded.outcome is LoadOutcome.ELSEWHERE}
    if verbose:
        for key, loaded in elsewhere.items():
            output.prose(f"  {key}: {loaded.evidence}")
    else:
        for reason, count in Counter(loaded.evidence for loaded in elsewhere.values()).most_common(3):
            output.prose(f"  {count:,} not loadable here: {reason}")


def _next_steps(store: Store, verification: Verification, repaired: list[RepairResult] | None) -> list[str]:
    """Return what to do next, one per line, with complete commands."""
    lines = []
    root = store.root.path
    mend, look = command("verify --repair", root), command("quarantine list", root)
    if repaired is None:
        if any(finding.remedy is not Remedy.BY_HAND for finding in verification.findings):
            lines.append(f"Next: `{mend}` moves damaged entries to quarantine and repairs the rest")
        lines += [f"By hand: {advice}" for advice in _advice(verification.findings)]
    else:
        left = [
            one for one in repaired if one.outcome is RepairOutcome.LEFT and one.finding.remedy is not Remedy.BY_HAND
        ]
        lines += [f"Left alone: {number:,} {reason}" for reason, number in Counter(one.reason for one in left).items()]
        lines += [
            f"Cannot repair {one.finding.path}: {one.reason}" for one in repaired if one.outcome is RepairOutcome.FAILED
        ]
        lines += [f"By hand: {advice}" for advice in _advice([one.finding for one in repaired if not one.mended])]
        if any(one.outcome is RepairOutcome.QUARANTINED for one in repaired):
            lines.append(f"Next: `{look}` lists these entries; programs make them again when needed")
        if any(one.outcome is RepairOutcome.BEGUN_ANEW for one in repaired):
            lines.append(_pins_sentence(store))
    if verification.checked < verification.entries and not verification.being_written:
        rest = verification.entries - verification.checked
        lines.append(
            f"Not checked: {rest:,} entries; repeat the command, which begins with the entries verified longest ago"
        )
    lines += [f"Content not checked: {count:,} entries. {why}" for why, count in sorted(verification.opaque.items())]
    if any(note.damage is Damage.LEGACY for note in verification.notes):
        lines.append(f"Legacy entries: `{command('prune --legacy', root)}` removes them")
    return [line.replace("\n", "\\n") for line in lines]


def _advice(findings: list[Finding]) -> list[str]:
    return list(dict.fromkeys(finding.advice for finding in findings if finding.advice))


def _pins_sentence(store: Store) -> str:
    """Return whether the pins are still known after a damaged ledger was set aside."""
    try:
        store.pins.known()
    except LedgerUnavailable as error:
        return str(error).removesuffix(".")
    return "The damaged ledger was set aside; pinned entries stay pinned"
