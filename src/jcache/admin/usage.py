"""Sum the entries of a root by function, kind, device, jaxlib or run, for `jcache du`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from jcache.admin.facts import device_of
from jcache.admin.selection import with_seconds
from jcache.entry import Entry
from jcache.layout import Kind
from jcache.runs.calls import HIT, STORED
from jcache.runs.stored_reports import read_reports
from jcache.store.progress import Progress
from jcache.store.store import Store

UNKNOWN: Final = "unknown"


class Grouping(StrEnum):
    """What the groups of `jcache du` stand for."""

    FUNCTION = "function"
    KIND = "kind"
    DEVICE = "device"
    JAXLIB = "jaxlib"
    RUN = "run"


class UsageOrder(StrEnum):
    """The number by which groups are sorted, the largest first; names are sorted from A to Z."""

    BYTES = "bytes"
    ENTRIES = "entries"
    SECONDS = "seconds"
    RUNS = "runs"
    NAME = "name"


@dataclass(slots=True)
class UsageGroup:
    """A group of entries.

    Attributes:
        name: name of the group.
        entries: number of entries.
        bytes: size of their files without sidecars.
        seconds: time that building them took, as far as it is known; None if it is known of none.
        runs: number of recorded runs that have hit or stored one of them.
    """

    name: str
    entries: int = 0
    bytes: int = 0
    seconds: float | None = None
    runs: int = 0


def sum_up(
    store: Store, by: Grouping, kinds: Iterable[Kind], *, read_seconds: bool = False, progress: Progress[Entry] = iter
) -> list[UsageGroup]:
    """Return the groups of the entries of some kinds, in no order.

    Args:
        store: store of the root.
        by: what the groups stand for.
        kinds: kinds of the entries.
        read_seconds: whether to read build seconds from the entries, if they are not on record.
        progress: receives the entries to read and yields them.

    Raises:
        CannotWrite: a directory of the root cannot be read.
    """
    entries: Sequence[Entry] = store.entries(kinds, legacy=True)
    if read_seconds:
        entries = with_seconds(store, entries, progress)
    name_of = _namer(store, by)
    used = _used_by_runs(store)
    runs: dict[str, set[int]] = {}
    groups: dict[str, UsageGroup] = {}
    for entry in progress(entries) if by is Grouping.DEVICE else entries:
        name = name_of(entry)
        group = groups.get(name)
        if group is None:
            group = groups[name] = UsageGroup(name)
        group.entries += 1
        group.bytes += entry.bytes
        if entry.seconds is not None:
            group.seconds = (group.seconds or 0.0) + entry.seconds
        if not entry.legacy and (numbers := used.get((entry.kind, entry.key))):
            runs.setdefault(name, set()).update(numbers)
    for name, found in runs.items():
        groups[name].runs = len(found)
    return list(groups.values())


def ordered(groups: Iterable[UsageGroup], order: UsageOrder) -> list[UsageGroup]:
    """Return groups in an order; groups that are equal in it are ordered by size and name."""
    first: dict[UsageOrder, Callable[[UsageGroup], Any]] = {
        UsageOrder.BYTES: lambda group: -group.bytes,
        UsageOrder.ENTRIES: lambda group: -group.entries,
        UsageOrder.SECONDS: lambda group: -(group.seconds or 0.0),
        UsageOrder.RUNS: lambda group: -group.runs,
        UsageOrder.NAME: lambda group: group.name,
    }
    return sorted(groups, key=lambda group: (first[order](group), -group.bytes, group.name))


def _namer(store: Store, by: Grouping) -> Callable[[Entry], str]:
    if by is Grouping.FUNCTION:
        return lambda entry: entry.name or UNKNOWN
    if by is Grouping.KIND:
        return lambda entry: entry.kind.value
    if by is Grouping.DEVICE:
        return lambda entry: device_of(store, entry)[1] or UNKNOWN
    known = {kind: _on_record(store, kind, by) for kind in Kind}
    return lambda entry: (not entry.legacy and known[entry.kind].get(entry.key)) or UNKNOWN


def _on_record(store: Store, kind: Kind, by: Grouping) -> Mapping[str, str]:
    found = store.queue.attempt(lambda: store.ledger.facts(kind, (by.value,))) or {}
    return {key: values[0] for key, values in found.items() if values[0]}


def _used_by_runs(store: Store) -> Mapping[tuple[Kind, str], set[int]]:
    """Return the numbers of the recorded runs that have hit or stored an entry, by kind and key."""
    used: dict[tuple[Kind, str], set[int]] = {}
    for number, report in enumerate(read_reports(store.queue.attempt(store.ledger.runs) or ())):
        for kind, calls in (
            (Kind.EXECUTABLES, report.get("programs", ())),
            (Kind.TRACES, (report.get("traces") or {}).get("calls", ())),
            (Kind.GRAPHS, (report.get("graphs") or {}).get("calls", ())),
        ):
            for call in calls if isinstance(calls, list) else ():
                if isinstance(call, dict) and call.get("outcome") in (HIT, STORED) and isinstance(call.get("key"), str):
                    used.setdefault((kind, call["key"]), set()).add(number)
    return used
