"""Report of `jcache export`, on stderr, since stdout may be the archive."""

import os
from pathlib import Path
from typing import Any, Final

from jcache.cli import output
from jcache.findings import Damage
from jcache.layout import Root, short_key
from jcache.shipping.exporter.export import ExportResult, PreparedExport, count_key_directories
from jcache.store.store import Store
from jcache.text import command, shown
from jcache.units import format_size

_MAX_LEFT_OUT_LINES: Final = 40


def summarize(
    root: Root, target: Path | None, prepared: PreparedExport, exported: ExportResult, written: int, *, signed: bool
) -> dict[str, Any]:
    """Return the result of an export as JSON values."""
    return {
        "root": str(root.path),
        "output": None if target is None else str(target),
        "entries": exported.entries,
        "xla_files": exported.neighbours,
        "bytes": exported.bytes,
        "archive_bytes": written,
        "solid": prepared.manifest.solid,
        "signed": signed,
        "keyed_for": count_key_directories(prepared.manifest),
        "damaged": [
            {"kind": finding.kind, "key": finding.key, "damage": finding.damage, "evidence": finding.evidence}
            for finding in prepared.findings
        ],
        "changed": [{"kind": kind, "key": key} for kind, key in exported.omitted],
        "being_written": [{"kind": kind, "key": key} for kind, key in prepared.being_written],
        "legacy": prepared.legacy,
        "excluded": prepared.excluded,
    }


def tell_notes(store: Store, prepared: PreparedExport) -> None:
    """Print that the archive is empty, and which legacy entries are left out."""
    if not prepared.sources:
        why = "No entry was selected" if prepared.excluded or prepared.legacy else "There is no entry"
        output.warning(f"{why}: the archive is empty; `{command('ls', store.root.path)}` lists the entries.")
    if prepared.legacy:
        number = output.count(prepared.legacy, "legacy entry", "legacy entries")
        prune = command("prune --legacy", store.root.path)
        output.message(f"{number} not exported, since no JAX after 0.4.30 reads them: `{prune}` removes them.")


def tell_left_out(store: Store, prepared: PreparedExport, exported: ExportResult, *, verbose: bool) -> None:
    """Print each entry that could not be exported, one per line, and the next command."""
    lines = [
        f"{_word(finding.damage)}: {short_key(finding.key or '')}: {finding.evidence}" for finding in prepared.findings
    ]
    lines += [f"Being written: {key}" for _, key in prepared.being_written]
    lines += [f"Changed while it was exported: {key}" for _, key in exported.omitted]
    shown = lines if verbose else lines[:_MAX_LEFT_OUT_LINES]
    for line in shown:
        output.message(line.replace("\n", "\\n"))
    if len(shown) < len(lines):
        output.message(f"… and {len(lines) - len(shown):,} more: -v shows all")
    root = store.root.path
    unread = sum(finding.damage is Damage.UNREADABLE for finding in prepared.findings)
    if unread:
        number = output.count(unread, "entry", "entries")
        output.error(f"{number} not exported, since reading failed: `{command('verify', root)}` tells what to do.")
    if damaged := len(prepared.findings) - unread:
        number = output.count(damaged, "damaged entry", "damaged entries")
        output.error(f"{number} not exported: `{command('verify --repair', root)}` moves them to quarantine.")
    if prepared.being_written:
        number = output.count(len(prepared.being_written), "entry", "entries")
        output.error(f"{number} not exported, since a program is writing them: run the export again for the rest.")
    if exported.omitted:
        number = output.count(len(exported.omitted), "entry", "entries")
        output.error(f"{number} not exported, since they changed or were removed: run the export again for the rest.")


def render(summary: dict[str, Any], *, verbose: bool) -> None:
    """Print the summary as text."""
    number = output.count(summary["entries"], "entry", "entries")
    if summary["xla_files"]:
        number += f" and {output.count(summary['xla_files'], 'file', 'files')} of XLA's sub-caches"
    how = [word for word in ("solid", "signed") if summary[word]]
    extra = f" ({', '.join(how)})" if how else ""
    if summary["excluded"]:
        extra += f"; {summary['excluded']:,} excluded"
    sizes = format_size(summary["bytes"]), format_size(summary["archive_bytes"])
    if verbose:
        sizes = f"{sizes[0]} ({summary['bytes']:,})", f"{sizes[1]} ({summary['archive_bytes']:,})"
    output.message(f"Exported {number}, {sizes[0]}, in an archive of {sizes[1]}{extra}")
    if summary["keyed_for"]:
        output.message(_key_directories_sentence(summary["keyed_for"]))


def _key_directories_sentence(directories: dict[str, int]) -> str:
    """Return a sentence on entries whose keys contain a directory, so that a copy elsewhere is not hit."""
    number, path, more = sum(directories.values()), next(iter(directories)), len(directories) - 1
    first = shown(path)
    linked = "in another directory, programs hit them only after import --link"
    way = (
        linked
        if os.path.isabs(path)
        else "programs hit them only in a working directory from which this path leads to them"
    )
    where = f"{first} and {output.count(more, 'other directory', 'other directories')}" if more else first
    return (
        f"The keys of {number:,} of them contain {where}, since jax <= 0.10.2 made them: {way}; entries that jcache "
        "run stores hit anywhere"
    )


def _word(damage: Damage) -> str:
    return "Unreadable" if damage is Damage.UNREADABLE else f"Damaged ({damage.replace('_', ' ')})"
