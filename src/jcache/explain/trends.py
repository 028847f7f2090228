"""Say how a change lies in the runs before: first in this run, or one more size after many others."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import Final

from jcache.explain.baseline import History, identity
from jcache.explain.change import Change, Seen
from jcache.explain.surroundings import flags_in
from jcache.runs.record import Argument, ProcessRecord, RunRecord
from jcache.vocabulary import CauseKind

_SIZES_OF_A_TREND: Final = 3
_SHOWN_SIZES: Final = 6


def trend(history: History, run: RunRecord, miss: Seen, change: Change) -> str:
    """Return how a change lies in the runs before, as text; empty if there is nothing to tell."""
    if change.item is CauseKind.SHAPE:
        return _sizes(history, run, miss, change)
    get = _VALUES.get(change.item)
    if get is None or not (number := _runs_with_other_value(history, run, miss, get)):
        return ""
    before = "the run before was" if number == 1 else f"the {number} runs before were"
    if change.item is CauseKind.XLA_FLAGS and not change.baseline:
        return f"first in this run; {before} without"
    return f"first in this run; {before} different"


def _flags(process: ProcessRecord) -> object:
    return sorted(flags_in(process.variables.get("XLA_FLAGS", "")))


_VALUES: Final[dict[CauseKind, Callable[[ProcessRecord], object]]] = {
    CauseKind.XLA_FLAGS: _flags,
    CauseKind.VERSION: lambda process: (process.jax, process.jaxlib),
    CauseKind.DEVICES: lambda process: process.devices,
}


def _runs_with_other_value(history: History, run: RunRecord, miss: Seen, get: Callable[[ProcessRecord], object]) -> int:
    """Return in how many runs of the same command before, without a break, the value was another one."""
    now = get(miss.process)
    earlier = [one for one in history.before(run) if one.command == run.command and one.processes]
    return sum(1 for _ in takewhile(lambda one: all(get(process) != now for process in one.processes), earlier))


def _sizes(history: History, run: RunRecord, miss: Seen, change: Change) -> str:
    """Return how many sizes an argument has had over the runs, if they are many."""
    start = (run.started_ns, run.id)
    sizes: list[str] = []
    runs: set[str] = set()
    for seen in history.with_name(identity(miss.program)):
        if (seen.run.started_ns, seen.run.id) <= start:
            for argument in seen.program.arguments:
                if argument.name == change.name:
                    runs.add(seen.run.id)
                    sizes.append(_shape(argument))
    seen_sizes = list(dict.fromkeys(sizes))
    if len(seen_sizes) < _SIZES_OF_A_TREND:
        return ""
    columns = list(zip(*(size.split(",") for size in seen_sizes), strict=False))
    varying = [column for column in columns if len(set(column)) > 1]
    if len(varying) != 1 or len({size.count(",") for size in seen_sizes}) != 1:
        return ""
    texts = list(dict.fromkeys(varying[0]))
    dots = "… " if len(texts) > _SHOWN_SIZES else ""
    listed = " ".join(texts[-_SHOWN_SIZES:])
    return f"the {_ordinal(len(seen_sizes))} size in {len(runs)} runs ({dots}{listed})"


def _shape(argument: Argument) -> str:
    return argument.type.partition("[")[2].partition("]")[0]


def _ordinal(number: int) -> str:
    last = number % 10 if number // 10 % 10 != 1 else 0
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th') }"
