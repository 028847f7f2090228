"""Choose the entries of an export: by what `jcache ls` selects, by keys, by a recorded run, without some keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from jcache import clock
from jcache.admin.facts import FactBook
from jcache.admin.selection import Selection, matching, select
from jcache.entry import GRACE_NS, Entry
from jcache.layout import Kind, storable
from jcache.runs.calls import HIT, STORED
from jcache.runs.report import report_named
from jcache.runs.stored_reports import read_reports
from jcache.store.lookup import find_keys
from jcache.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """The entries to export, and how. Every condition narrows the selection.

    Attributes:
        selection: entries as `jcache ls` selects them; legacy entries are never exported.
        keys: only entries with these keys, or unambiguous prefixes of keys; empty for all.
        run: only entries that this recorded run stored or hit; ``last`` for the last run.
        exclude: no entries with these keys.
        xla: whether to export XLA's sub-caches, too.
        solid: whether to recompress across entries.
        config: whether to export the settings that are stored in the root.
        grace_ns: an entry that was written less than this many nanoseconds ago may still be being written.
        processes: number of processes that read at once; None for one for each available core.
    """

    selection: Selection = field(default_factory=Selection)
    keys: tuple[str, ...] = ()
    run: str | None = None
    exclude: frozenset[str] = frozenset()
    xla: bool = False
    solid: bool = False
    config: bool = False
    grace_ns: int = GRACE_NS
    processes: int | None = None


class Chosen(NamedTuple):
    """The entries of an export.

    Attributes:
        entries: the entries, in the manifest's order.
        legacy: number of entries that are left out because only jax <= 0.4.30 reads them.
        excluded: number of entries that are left out on request.
    """

    entries: list[Entry]
    legacy: int
    excluded: int


def choose_entries(store: Store, request: ExportRequest) -> Chosen:
    """Return the requested entries, and how many are left out.

    Raises:
        UnknownKey: a key or a run that was asked for matches no entry or run, or several.
        CannotWrite: a directory of the root cannot be read.
        LedgerUnavailable: a run was asked for, and its record cannot be read.
    """
    found = {(entry.kind, entry.key): entry for entry in _selected(store, request)}
    if request.run is not None:
        of_run = _entries_of_run(store, request.run)
        found = {place: entry for place, entry in found.items() if place in of_run}
    chosen = [entry for entry in found.values() if not entry.legacy]
    kept = [entry for entry in chosen if entry.key not in request.exclude]
    return Chosen(sorted(kept), legacy=len(found) - len(chosen), excluded=len(chosen) - len(kept))


def _selected(store: Store, request: ExportRequest) -> Sequence[Entry]:
    """Return the entries that the selection and the keys of a request ask for; list the root only if that is needed."""
    selection = dataclasses.replace(request.selection, legacy=True)
    if not request.keys:
        return select(store, selection, seconds=False)
    if store.root.layout.follows_jax:
        named = [entry for kind in selection.kinds for entry in store.catalog.named(kind, request.keys)]
        if {entry.key for entry in named} == set(request.keys):
            return matching(store, named, selection.filters, clock.now_ns(), FactBook(store))
    found = select(store, selection, seconds=False)
    exact = {entry.key for entry in found}
    wanted = (exact & set(request.keys)) | find_keys(store, [key for key in request.keys if key not in exact])
    return [entry for entry in found if entry.key in wanted]


def _entries_of_run(store: Store, wanted: str) -> set[tuple[Kind, str]]:
    """Return the entries that a recorded run stored or hit."""
    report = report_named(read_reports(store.ledger.runs()), wanted, store.root.path)
    found = {(known.kind, known.key) for kind in Kind for known in store.ledger.known(kind).values()
             if known.run == report["id"]}  # fmt: skip
    if "programs" not in report:
        store.queue.notice(
            f"Run {report['id']} is old: jcache knows the entries that it stored, but not those that it hit."
        )
    for program in report.get("programs", ()):
        if program["outcome"] in (HIT, STORED) and program["key"]:
            found |= {(Kind.EXECUTABLES, key) for key in (program["key"], storable(program["key"]))}
    return found


def keys_of_run(store: Store, wanted: str) -> frozenset[str]:
    """Return the keys of the entries that a recorded run used, or missed.

    Raises:
        UnknownKey: no run, or more than one, has such an id.
        LedgerUnavailable: its record cannot be read.
    """
    report = report_named(read_reports(store.ledger.runs()), wanted, store.root.path)
    keys = {program["key"] for program in report.get("programs", ()) if program["key"]}
    return frozenset(keys | {storable(key) for key in keys} | {key for _, key in _entries_of_run(store, wanted)})
