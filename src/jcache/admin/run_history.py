"""Group the reports of recorded runs by run, day or function, and say how much the cache has saved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple

from jcache.errors import InvalidValue
from jcache.layout import Kind, name_of
from jcache.runs.calls import HIT
from jcache.runs.stored_reports import totals
from jcache.store.store import Store
from jcache.units import NANOSECONDS, parse_age

Report = Mapping[str, Any]

_LOOKED_UP: Final = ("hits", "stored", "not_stored")
_SPENT: Final = ("trace_seconds", "lower_seconds", "compile_seconds", "retrieve_seconds")


class By(StrEnum):
    """What the rows of `jcache stats` stand for."""

    RUN = "run"
    DAY = "day"
    FUNCTION = "function"
    CAUSE = "cause"


class Lookups(NamedTuple):
    """Look-ups in a cache.

    Attributes:
        hits: number of look-ups that found an entry.
        requests: number of look-ups.
    """

    hits: int = 0
    requests: int = 0

    def plus(self, other: Lookups) -> Lookups:
        return Lookups(self.hits + other.hits, self.requests + other.requests)


class Usage(NamedTuple):
    """How a run, the runs of a day, or the runs of a function have used the cache.

    Attributes:
        name: id of the run, date in local time, or name of the function.
        runs: number of runs.
        started_ns: start of the latest run, in nanoseconds since 1970; None if it is unknown.
        command: command of the run; empty for a day or a function.
        executables, traces, graphs: look-ups of each kind.
        saved_seconds: seconds that hits have saved.
        spent_seconds: seconds that compiling, and tracing, building or loading, have taken all the same.
    """

    name: str
    runs: int
    started_ns: int | None
    command: str
    executables: Lookups
    traces: Lookups
    graphs: Lookups
    saved_seconds: float
    spent_seconds: float

    @property
    def lookups(self) -> Lookups:
        """The look-ups of all kinds."""
        return self.executables.plus(self.traces).plus(self.graphs)

    @property
    def count_rate(self) -> float | None:
        """The share of look-ups that hit; None without a look-up."""
        hits, requests = self.lookups
        return hits / requests if requests else None

    @property
    def seconds_rate(self) -> float | None:
        """The share of all seconds, saved and spent, that hits have saved; None if nothing took any time."""
        whole = max(self.saved_seconds, 0.0) + self.spent_seconds
        return max(self.saved_seconds, 0.0) / whole if whole > 0 else None


def parse_since(text: str, now_ns: int) -> int:
    """Return the time that an age such as ``7d``, a date or a date with a time means, in nanoseconds since 1970.

    Args:
        text: an age before now; or a date, at its beginning, or a time, as ISO 8601 has them, in local time unless it
            has an offset.
        now_ns: the time of now, in nanoseconds since 1970.

    Raises:
        InvalidValue: the text is neither.
    """
    text = text.strip()
    if text[:4].isdigit() and "-" in text:
        try:
            return int(datetime.fromisoformat(text).timestamp() * NANOSECONDS)
        except (ValueError, OverflowError, OSError):
            raise InvalidValue(f"'{text}' is not a date: write one such as 2026-11-24, or an age such as 7d.") from None
    return now_ns - parse_age(text)


def started_ns(report: Report) -> int | None:
    """Return when a run started, in nanoseconds since 1970; None if its report does not say it."""
    try:
        return int(datetime.fromisoformat(report["started"]).timestamp() * NANOSECONDS)
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return None


def started_since(reports: Iterable[dict[str, Any]], time_ns: int) -> list[dict[str, Any]]:
    """Return the reports of the runs that started at a time or later."""
    return [report for report in reports if (started := started_ns(report)) is not None and started >= time_ns]


def usage_of(name: str, reports: Sequence[Report], sums: Mapping[str, Any] | None = None) -> Usage:
    """Return the usage of some runs together.

    Args:
        name: name of the result.
        reports: reports of the runs.
        sums: sums of the reports, as `totals` returns them; None to make them.
    """
    summed = totals(reports) if sums is None else sums
    started = [time_ns for time_ns in map(started_ns, reports) if time_ns is not None]
    graphs = summed["graphs"]
    return Usage(
        name=name,
        runs=len(reports),
        started_ns=max(started, default=None),
        command=" ".join(reports[0]["command"]) if len(reports) == 1 else "",
        executables=_lookups(summed),
        traces=_lookups(summed["traces"]),
        graphs=_lookups(graphs),
        saved_seconds=summed["total_saved_seconds"],
        spent_seconds=sum(summed[part] for part in _SPENT) + graphs["build_seconds"] + graphs["load_seconds"],
    )


def _lookups(counts: Mapping[str, Any]) -> Lookups:
    return Lookups(counts["hits"], sum(counts[name] for name in _LOOKED_UP))


def by_run(reports: Sequence[Report]) -> list[Usage]:
    """Return the usage of each run, the latest first."""
    return [usage_of(report["id"], [report]) for report in reversed(reports)]


def by_day(reports: Sequence[Report]) -> list[Usage]:
    """Return the usage of each day in local time, the latest first; runs without a time come last, as ``unknown``."""
    days: dict[str, list[Report]] = {}
    for report in reports:
        days.setdefault(day_of(started_ns(report)), []).append(report)
    order = sorted(days, key=lambda day: (day != "unknown", day), reverse=True)
    return [usage_of(day, days[day])._replace(command="") for day in order]


def day_of(time_ns: int | None) -> str:
    """Return the date of a time in local time; ``unknown`` without one."""
    try:
        return "unknown" if time_ns is None else datetime.fromtimestamp(time_ns / NANOSECONDS).date().isoformat()
    except (OverflowError, ValueError, OSError):
        return "unknown"


class _Call(NamedTuple):
    """One line of a report: an executable, or calls for a trace or a graph."""

    kind: Kind
    hits: int
    requests: int
    saved: float
    spent: float


def by_function(reports: Sequence[Report], store: Store) -> list[Usage]:
    """Return the usage of each function, the one that saved most first.

    Old runs are kept without the lists of their executables and calls, and count for no function.

    Args:
        reports: reports of the runs.
        store: store of the root, whose ledger knows how long executables took to build.
    """
    keys = sorted({one["key"] for report in reports for one in report.get("programs", ()) if one.get("key")})
    known = store.queue.attempt(lambda: store.ledger.facts(Kind.EXECUTABLES, ("seconds",), keys)) or {}

    def build_seconds(key: str | None) -> float | None:
        return known[key][0] if key is not None and key in known else None

    found: dict[str, list[tuple[Report, _Call]]] = {}
    for report in reports:
        for name, call in _calls_of(report, build_seconds):
            found.setdefault(name, []).append((report, call))
    rows = [_function(name, calls) for name, calls in found.items()]
    return sorted(rows, key=lambda row: (-row.saved_seconds, -row.spent_seconds, row.name))


def _function(name: str, calls: Sequence[tuple[Report, _Call]]) -> Usage:
    lookups = dict.fromkeys(Kind, Lookups())
    for _, call in calls:
        lookups[call.kind] = lookups[call.kind].plus(Lookups(call.hits, call.requests))
    started = [time_ns for report, _ in calls if (time_ns := started_ns(report)) is not None]
    return Usage(
        name=name,
        runs=len({report["id"] for report, _ in calls}),
        started_ns=max(started, default=None),
        command="",
        executables=lookups[Kind.EXECUTABLES],
        traces=lookups[Kind.TRACES],
        graphs=lookups[Kind.GRAPHS],
        saved_seconds=sum(call.saved for _, call in calls),
        spent_seconds=sum(call.spent for _, call in calls),
    )


def _calls_of(report: Report, build_seconds: Callable[[str | None], float | None]) -> Iterable[tuple[str, _Call]]:
    """Yield the function and the counts of each executable and call of a run; a report is untrusted input."""
    for one in report.get("programs", ()):
        key, seconds = one.get("key"), _number(one.get("seconds"))
        built = build_seconds(key)
        saved = max(0.0, (_number(one.get("jax_build_seconds")) if built is None else built) - seconds)
        yield _name(key, one.get("name")), _call(Kind.EXECUTABLES, one, 1, saved, seconds)
    for kind, name in ((Kind.TRACES, "traces"), (Kind.GRAPHS, "graphs")):
        for one in (report.get(name) or {}).get("calls", ()):
            if isinstance(one, dict):
                times = one.get("times", 1)
                times = times if isinstance(times, int) and 0 <= times < 2**63 else 1
                seconds = _number(one.get("seconds"))
                saved = max(0.0, _number(one.get("spared_seconds")) - seconds)
                yield _name(one.get("key"), one.get("name")), _call(kind, one, times, saved, seconds)


def _call(kind: Kind, one: Mapping[str, Any], times: int, saved: float, seconds: float) -> _Call:
    is_hit, is_asked = one.get("outcome") == HIT, one.get("outcome") in (HIT, "stored", "not_stored")
    return _Call(kind, times * is_hit, times * is_asked, saved if is_hit else 0.0, seconds)


def _name(key: object, name: object) -> str:
    """Return the name of a function: of the key's, which has ``jit_`` before it, or as the report has it."""
    text = name_of(key) if isinstance(key, str) and "-" in key else str(name or "unknown")
    return text.removeprefix("jit_")


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and abs(value) < 1e15 else 0.0
