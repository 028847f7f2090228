"""Report of `jcache push`, as text and as JSON."""

from __future__ import annotations

from typing import Any, Final

from jcache.cli import output
from jcache.layout import short_key
from jcache.remote.client import Remote
from jcache.shipping.sync.push import STORED, PushOutcome, PushPlan, PushResult
from jcache.store.store import Store
from jcache.text import command
from jcache.units import format_size

_ROWS: Final = 20
_TEXTS: Final = {
    PushOutcome.NEW: "new",
    PushOutcome.PRESENT: "there already",
    PushOutcome.DIFFERENT: "there already, from another build",
    PushOutcome.REPLACED: "replaced, since the store's were damaged or had no digest",
    PushOutcome.OMITTED: "changed or removed meanwhile",
}
PARTLY: Final = 3


def exit_code(result: PushResult) -> int:
    """Return 0 if the store has all selected entries, 3 if some could not go."""
    left_out = result.findings or result.being_written or result.count(PushOutcome.OMITTED)
    return PARTLY if left_out else 0


def as_json(
    store: Store, remote: Remote, plan: PushPlan, result: PushResult, *, dry_run: bool, signed: bool
) -> dict[str, Any]:
    """Return the result of a push as JSON values."""
    return {
        "root": str(store.root.path),
        "remote": str(remote),
        "dry_run": dry_run,
        "signed": signed,
        "entries": {outcome.value: result.count(outcome) for outcome in PushOutcome},
        "bytes": result.bytes,
        "damaged": [
            {"kind": finding.kind, "key": finding.key, "damage": finding.damage, "evidence": finding.evidence}
            for finding in result.findings
        ],
        "omitted": [{"kind": kind, "key": key} for (kind, key), one in result.outcomes.items()
                    if one is PushOutcome.OMITTED],
        "being_written": [{"kind": kind, "key": key} for kind, key in result.being_written],
        "legacy": plan.legacy,
    }  # fmt: skip


def render(store: Store, remote: Remote, result: PushResult, *, dry_run: bool, verbose: bool) -> None:
    """Print the result of a push as text."""
    verb = "Would push" if dry_run else "Pushed"
    parts = [f"{count:,} {_TEXTS[one]}" for one in PushOutcome if (count := result.count(one))]
    number = output.count(result.count(*STORED), "entry", "entries")
    rest = f": {', '.join(parts)}" if parts else ""
    output.prose(f"{verb} {number}, {format_size(result.bytes)}, from {store.root.path} to {remote}{rest}")
    if verbose:
        for (_, key), outcome in sorted(result.outcomes.items()):
            output.data(f"  {key} {_TEXTS[outcome]}")
    tell_left_out(store, result, verbose=verbose)


def tell_left_out(store: Store, result: PushResult, *, verbose: bool) -> None:
    """Print each entry that could not go, and the next command."""
    lines = [f"Damaged: {short_key(finding.key or '')}: {finding.evidence}" for finding in result.findings]
    lines += [f"Being written: {key}" for _, key in result.being_written]
    for line in lines if verbose else lines[:_ROWS]:
        output.message(line.replace("\n", "\\n"))
    if len(lines) > _ROWS and not verbose:
        output.message(f"… and {len(lines) - _ROWS:,} more: -v shows all")
    if result.findings:
        number = output.count(len(result.findings), "damaged entry", "damaged entries")
        output.error(f"{number} not pushed: `{command('verify --repair', store.root.path)}` moves them to quarantine.")
    if result.being_written:
        number = output.count(len(result.being_written), "entry", "entries")
        output.error(f"{number} not pushed, since a program is writing them: push again for the rest.")
