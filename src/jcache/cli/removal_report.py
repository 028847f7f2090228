"""Carrying out, or only showing, a plan of removal: the second half of `prune` and `clear`."""

from collections.abc import Iterable, Sequence
from typing import Any

from jcache.cli import output
from jcache.entry import Entry
from jcache.eviction import Plan, Reason, Share, Verdict, reasons
from jcache.files import RECENCY_BYTES, tree_size
from jcache.layout import XLA_NAMES, Kind
from jcache.removal import Removal
from jcache.store import Store
from jcache.units import format_size

PARTLY = 3
_ROWS = 20


def carry_out(store: Store, plan: Plan, *, xla: bool, dry_run: bool, json: bool, quiet: bool, verbose: bool) -> int:
    """Executes a plan, or not, and says what goes, what stays and why.

    Returns:
        The exit code: 0, 1 if nothing could be removed, 3 if not everything.
    """
    if dry_run and plan.victims:
        store.ledger.pins()  # which a real run could not do without, either
    removal = _foresee(plan) if dry_run else store.execute(plan, progress=_progress)
    xla_bytes = (_xla_size(store) if dry_run else store.remove_xla()) if xla else 0
    gone = {(entry.kind, entry.key) for entry in removal.removed}
    victims = [verdict for verdict in plan.victims if (verdict.entry.kind, verdict.entry.key) in gone]
    kept = [*plan.kept, *removal.kept]
    if json:
        output.as_json(_as_json(store, victims, kept, removal, xla_bytes, dry_run))
    elif not quiet:
        _render(victims, kept, removal, xla_bytes, dry_run=dry_run, verbose=verbose)
    for failure in removal.failures:
        output.error(f"Cannot remove {store.path(failure.entry)}: {failure.reason}.")
    return 0 if not removal.failures else PARTLY if removal.removed else 1


def _progress(victims: Sequence[Verdict]) -> Iterable[Verdict]:
    return output.progress(victims, "removing")


def _foresee(plan: Plan) -> Removal:
    entries = [verdict.entry for verdict in plan.victims]
    return Removal(removed=entries, bytes=sum(entry.bytes + RECENCY_BYTES * entry.sidecar for entry in entries))


def _xla_size(store: Store) -> int:
    directory = store.root.directory(Kind.EXECUTABLES)
    return sum(tree_size(directory / name)[1] for name in XLA_NAMES if not (directory / name).is_symlink())


def _as_json(
    store: Store, victims: Sequence[Verdict], kept: Sequence[Verdict], removal: Removal, xla_bytes: int, dry_run: bool
) -> dict[str, Any]:
    return {
        "root": str(store.root.path),
        "dry_run": dry_run,
        "removed": [{"key": e.key, "kind": e.kind, "bytes": e.bytes, "reason": _slug(reason)} for e, reason in victims],
        "removed_entries": len(victims),
        "freed_bytes": removal.bytes + xla_bytes,
        "xla_bytes": xla_bytes,
        "kept": {_slug(reason): {"entries": n, "bytes": size} for reason, (n, size) in reasons(kept).items()},
        "kept_entries": len(kept),
        "failed": [{"key": f.entry.key, "kind": f.entry.kind, "reason": f.reason} for f in removal.failures],
        "sidecars_made": removal.adopted,
    }


def _slug(reason: Reason) -> str:
    return reason.name.lower()


def _render(
    victims: Sequence[Verdict],
    kept: Sequence[Verdict],
    removal: Removal,
    xla_bytes: int,
    *,
    dry_run: bool,
    verbose: bool,
) -> None:
    if victims and (dry_run or verbose):
        shown = victims if verbose else victims[:_ROWS]
        output.rich(
            output.table(
                [("key", "fold"), ("kind", "left"), ("bytes", "right"), ("why", "left")],
                [(output.plain(_key(e, verbose)), e.kind, format_size(e.bytes), reason) for e, reason in shown],
            )
        )
        if len(victims) > len(shown):
            output.data(f"… and {len(victims) - len(shown):,} more (-v lists them all)")
        output.data("")
    verb = "Would remove" if dry_run else "Removed"
    output.data(f"{verb} {_count(len(victims), removal.bytes)}{_why(victims)}")
    if xla_bytes:
        output.data(f"{verb} XLA's sub-caches, {format_size(xla_bytes)} ({xla_bytes:,} bytes)")
    output.data(f"{'Would keep' if dry_run else 'Kept'} {_count(len(kept), sum(e.bytes for e, _ in kept))}{_why(kept)}")
    if removal.adopted:
        output.message(f"Made {removal.adopted:,} missing -atime files, which a bounded jax <= 0.11.1 needs.")


def _key(entry: Entry, verbose: bool) -> str:
    from jcache.cli.ls import short_key

    return entry.key if verbose else short_key(entry.key)


def _count(entries: int, size: int) -> str:
    return f"{output.count(entries, 'entry', 'entries')}, {format_size(size)} ({size:,} bytes)"


def _why(verdicts: Sequence[Verdict]) -> str:
    shares: dict[Reason, Share] = reasons(verdicts)
    return ": " + ", ".join(f"{share.entries:,} {reason}" for reason, share in shares.items()) if shares else ""
