"""Execution and report of a removal plan, for `prune`, `clear` and `rm`."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from jcache.admin.removal import execute
from jcache.cli import output
from jcache.cli.progress import progress
from jcache.entry import Entry
from jcache.errors import InvalidValue
from jcache.layout import short_key
from jcache.store.policy import Plan, Reason, Share, Verdict, reasons
from jcache.store.removal import Removed
from jcache.store.store import Store
from jcache.units import format_size

PARTLY = 3
_ROWS = 20


def remove(
    store: Store,
    plan: Plan,
    *,
    dry_run: bool,
    json: bool,
    quiet: bool,
    verbose: bool,
    xla: bool = False,
    of_named: bool = False,
) -> int:
    """Execute a plan, unless it is a dry run, and print what is removed, what is kept, and why.

    Args:
        store: store of the root.
        plan: what goes and what stays.
        dry_run: change nothing.
        json: print JSON.
        quiet: print nothing but failures.
        verbose: name every entry, by its full key.
        xla: whether XLA's sub-caches go as well.
        of_named: whether the plan is about named entries alone: each is listed, and nothing is said of the others.

    Returns:
        The exit code: 0, 1 if nothing could be removed, 3 if not everything could.
    """
    done = execute(store, plan, xla=xla, dry_run=dry_run, progress=partial(progress, doing="removing"))
    if json:
        output.as_json(as_json(done), version=2)
    elif not quiet:
        render(done, verbose, listed=of_named or dry_run or verbose, of_named=of_named)
    for failure in done.failed:
        output.error(f"Cannot remove {store.path(failure.entry)}: {failure.reason}.")
    return 0 if not done.failed else PARTLY if done.removed else 1


def confirmed(name: str, store: Store, plan: Plan, *, listed: bool = False) -> bool:
    """Ask on the terminal whether a plan is to be executed, and return the answer.

    Args:
        name: name of the command.
        store: store of the root.
        plan: what goes and what stays.
        listed: whether to name the entries that go before.

    Raises:
        InvalidValue: there is no terminal on which to ask.
    """
    victims = plan.victims
    what = f"{output.count(len(victims), 'entry', 'entries')} ({format_size(victims.bytes)})"
    if not output.is_terminal():
        raise InvalidValue(f"{name} would remove {what}: confirm with --yes.")
    if listed:
        for entry, _ in victims[:_ROWS]:
            output.message(f"  {short_key(entry.key)}, {entry.kind}, {format_size(entry.bytes)}")
        if len(victims) > _ROWS:
            output.message(f"  … and {len(victims) - _ROWS:,} more (--dry-run -v lists them all)")
    if output.confirm(f"Remove {what} of {store.root.path}?"):
        return True
    output.message("Nothing was removed.")
    return False


def as_json(done: Removed) -> dict[str, Any]:
    """Return what was removed, or would be, as JSON values."""
    return {
        "root": str(done.root.path),
        "dry_run": done.dry_run,
        "removed": [
            {"key": e.key, "kind": e.kind, "bytes": e.bytes, "reason": _slug(reason), "trace": done.because.get(e.key)}
            for e, reason in done.removed
        ],
        "removed_entries": len(done.removed),
        "freed_bytes": done.freed_bytes,
        "xla_bytes": done.xla_bytes,
        "kept": {_slug(reason): {"entries": n, "bytes": size} for reason, (n, size) in reasons(done.kept).items()},
        "kept_entries": len(done.kept),
        "kept_pinned": [{"key": e.key, "kind": e.kind} for e, reason in done.kept if reason is Reason.PINNED],
        "kept_for_traces": [
            {"key": e.key, "kind": e.kind, "trace": done.because[e.key]} for e, _ in done.kept if e.key in done.because
        ],
        "failed": [{"key": f.entry.key, "kind": f.entry.kind, "reason": f.reason} for f in done.failed],
        "sidecars_made": done.sidecars_made,
    }


def _slug(reason: Reason) -> str:
    return reason.name.lower()


def render(done: Removed, verbose: bool, *, listed: bool, of_named: bool) -> None:
    """Print what was removed, or would be, as text; the arguments are those of `remove`."""
    if done.removed and listed:
        shown = done.removed if verbose else done.removed[:_ROWS]
        rows = [
            (output.plain(_key_text(e.key, verbose)), e.kind, format_size(e.bytes), _reason(done, e, reason, verbose))
            for e, reason in shown
        ]
        columns = [("key", "key"), ("kind", "left"), ("size", "right"), ("why", "left")]
        output.rich(output.table(columns, rows, whole=verbose), whole=verbose)
        if len(done.removed) > len(shown):
            output.prose(f"… and {len(done.removed) - len(shown):,} more (-v lists them all)")
        output.data("")
    verb, staying = ("Would remove", "Would keep") if done.dry_run else ("Removed", "Kept")
    freed = done.freed_bytes - done.xla_bytes
    output.prose(f"{verb} {_count(len(done.removed), freed)}{_why(done.removed)}")
    if done.xla_bytes:
        output.prose(f"{verb} XLA's sub-caches, {format_size(done.xla_bytes)} ({done.xla_bytes:,} bytes)")
    if done.kept or not of_named:
        size = sum(share.bytes for share in reasons(done.kept).values())
        output.prose(f"{staying} {_count(len(done.kept), size)}{_why(done.kept)}")
    if listed:
        _name_kept(done, verbose)
    if done.sidecars_made:
        output.message(f"Made {done.sidecars_made:,} missing -atime files, which a bounded jax <= 0.11.1 needs.")


def _name_kept(done: Removed, verbose: bool) -> None:
    """Print the entries that stay because they are pinned, or because a trace needs them."""
    for wanted in (Reason.PINNED, Reason.NEEDED):
        entries = [entry for entry, reason in done.kept if reason is wanted]
        for entry in entries if verbose else entries[:_ROWS]:
            trace = done.because.get(entry.key)
            if wanted is Reason.PINNED:
                output.prose(f"  {_key_text(entry.key, verbose)} is pinned")
            elif trace is not None:
                output.prose(f"  {_key_text(entry.key, verbose)} is needed by {_key_text(trace, verbose)}, which stays")
        if len(entries) > _ROWS and not verbose:
            output.prose(f"  … and {len(entries) - _ROWS:,} more (-v lists them all)")


def _reason(done: Removed, entry: Entry, reason: Reason, verbose: bool) -> Any:  # noqa: ANN401 - a text of rich's
    if reason is Reason.WITH_TRACE and entry.key in done.because:
        return output.plain(f"goes with {_key_text(done.because[entry.key], verbose)}")
    return reason


def _key_text(key: str, verbose: bool) -> str:
    return key if verbose else short_key(key)


def _count(entries: int, size: int) -> str:
    return f"{output.count(entries, 'entry', 'entries')}, {format_size(size)} ({size:,} bytes)"


def _why(verdicts: Sequence[Verdict]) -> str:
    shares: dict[Reason, Share] = reasons(verdicts)
    return ": " + ", ".join(f"{share.entries:,} {reason}" for reason, share in shares.items()) if shares else ""
