"""Print the statistics of recorded runs: as tables and as JSON."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from jcache import clock
from jcache.admin.run_history import By, Lookups, Usage
from jcache.cli import output
from jcache.runs.call_reports import saved_text
from jcache.runs.graph_report import COUNTS as GRAPH_COUNTS, graph_lines
from jcache.runs.report import short_id
from jcache.runs.stored_reports import SECONDS
from jcache.runs.trace_report import COUNTS as TRACE_COUNTS, trace_lines
from jcache.store.economics import Economics, in_all
from jcache.text import command
from jcache.units import NANOSECONDS, format_seconds, rfc3339

_WIDTH_WITHOUT_KINDS: Final = 48  # columns of a terminal that the table needs with a short command
_WIDTH_OF_KIND: Final = 13


class Statistics(NamedTuple):
    """The statistics of recorded runs.

    Attributes:
        root: path of the root.
        by: what `groups` stand for.
        since_ns: start of the time that was asked for, in nanoseconds since 1970; None for all time.
        reports: reports of the runs, the latest first.
        groups: the usage of each run, day or function.
        total: the usage of all runs together.
        sums: the sums of the reports, as `jcache.runs.stored_reports.totals` returns them.
        graphs: seconds of building and loading graphs, by function, of all time; empty if less was asked for.
    """

    root: Path
    by: By
    since_ns: int | None
    reports: Sequence[Mapping[str, Any]]
    groups: Sequence[Usage]
    total: Usage
    sums: Mapping[str, Any]
    graphs: Mapping[str, Economics]


def sentence(found: Statistics) -> str:
    """Return one line that says how much the cache has saved, and how much was hit."""
    total, since = found.total, "" if found.since_ns is None else f" since {local_time(found.since_ns)}"
    runs = output.count(total.runs, "run", "runs")
    if not total.lookups.requests and not total.saved_seconds:
        return f"{runs}{since}: nothing was looked up"
    whole = total.saved_seconds + total.spent_seconds
    rate = total.seconds_rate
    part = "" if rate is None or total.saved_seconds < 0 else f" of {format_seconds(whole)} ({_percent(rate)})"
    hits, requests = total.lookups
    return (
        f"{runs}{since}: saved {format_seconds(total.saved_seconds)}{part}; "
        f"{hits:,} of {output.count(requests, 'look-up', 'look-ups')} hit{_in_brackets(total.count_rate)}"
    )


def _in_brackets(rate: float | None) -> str:
    return "" if rate is None else f" ({_percent(rate)})"


def _percent(rate: float) -> str:
    """Return a rate in percent, rounded down, so that 100 % means all."""
    return f"{int(rate * 100)} %"


def local_time(time_ns: int | None) -> str:
    """Return a time in local time, to the minute; ``unknown`` if there is none."""
    try:
        moment = None if time_ns is None else datetime.fromtimestamp(time_ns / NANOSECONDS)
    except (OverflowError, ValueError, OSError):
        moment = None
    return "unknown" if moment is None else moment.strftime("%Y-%m-%d %H:%M")


def as_json(found: Statistics, count: int) -> dict[str, Any]:
    """Return the statistics as data for JSON, with at most `count` runs and groups."""
    return {
        "root": str(found.root),
        "since": None if found.since_ns is None else rfc3339(found.since_ns),
        "totals": {**found.sums, "hit_rate": _rates(found.total)},
        "runs": list(found.reports[:count]),
        "by": found.by,
        "groups": [_usage_json(usage) for usage in found.groups[:count]],
        "graphs": graphs_json(found.graphs),
    }


def _rates(usage: Usage) -> dict[str, float | None]:
    return {"count": usage.count_rate, "seconds": usage.seconds_rate}


def _usage_json(usage: Usage) -> dict[str, Any]:
    kinds = {name: getattr(usage, name)._asdict() for name in ("executables", "traces", "graphs")}
    seconds = {"saved_seconds": usage.saved_seconds, "spent_seconds": usage.spent_seconds}
    started = None if usage.started_ns is None else rfc3339(usage.started_ns)
    about = {"name": usage.name, "runs": usage.runs, "started": started, "command": usage.command}
    return about | kinds | seconds | {"hit_rate": _rates(usage)}


def graphs_json(graphs: Mapping[str, Economics]) -> dict[str, Any]:
    """Return the seconds of building and loading graphs, by function and in total."""

    def fields(economics: Economics) -> dict[str, Any]:
        return {**economics._asdict(), "saved_seconds": economics.saved_seconds}

    functions = [{"name": name, **fields(each), "slower": each.is_slower} for name, each in graphs.items()]
    return {"totals": fields(in_all(graphs)), "functions": functions}


def render(found: Statistics, count: int, *, plot: bool, verbose: bool) -> None:
    """Print the statistics for people.

    Args:
        found: the statistics.
        count: number of lines of the table.
        plot: whether to draw the hit rate of each line.
        verbose: whether to print whole commands.
    """
    if not found.reports and not found.graphs:
        _say_none(found)
        return
    shown = found.groups[:count]
    if shown:
        output.rich(_table(found, shown, verbose=verbose))
        _tell_rest(found, len(shown))
        output.rich("")
    if plot:
        _plot(shown)
    if found.reports:
        _render_details(found.sums)
    _render_graphs(found.graphs)
    output.prose(sentence(found))


def _say_none(found: Statistics) -> None:
    again = command("run", found.root, "-- CMD")
    if found.since_ns is None:
        output.message(f"No runs recorded yet: `{again}` records one.")
    else:
        output.message(f"No run has started since {local_time(found.since_ns)}: `{again}` records one.")


def _table(found: Statistics, shown: Sequence[Usage], *, verbose: bool) -> Any:  # noqa: ANN401
    kinds = [kind for kind in ("executables", "traces", "graphs") if any(getattr(u, kind).requests for u in shown)]
    if found.by is By.RUN:
        columns = [("started", "left"), ("run", "left"), ("command", "fold")]
    else:
        columns = [(found.by, "fold"), ("runs", "right")]
    rows = [
        (
            *_head(found.by, usage, verbose=verbose),
            *(_share(getattr(usage, kind)) for kind in kinds),
            format_seconds(usage.saved_seconds),
            "–" if usage.seconds_rate is None else _percent(usage.seconds_rate),
        )
        for usage in shown
    ]
    columns += [(name, "right") for name in (*kinds, "saved", "of time")]
    narrow = output.console(stderr=False).width < _WIDTH_WITHOUT_KINDS + _WIDTH_OF_KIND * len(kinds)
    if found.by is By.RUN and narrow and not verbose:
        columns, rows = [*columns[:2], *columns[3:]], [(*row[:2], *row[3:]) for row in rows]
    return output.table(columns, rows)


def _head(by: By, usage: Usage, *, verbose: bool) -> tuple[Any, ...]:
    if by is not By.RUN:
        return output.plain(usage.name), f"{usage.runs:,}"
    if verbose:
        return local_time(usage.started_ns), output.plain(usage.name), output.plain(usage.command)
    return _short_time(usage.started_ns), output.plain(short_id(usage.name)), output.plain(usage.command[:40])


def _short_time(time_ns: int | None) -> str:
    """Return a time in local time; without the year if it is this one, and without the hour otherwise."""
    text = local_time(time_ns)
    is_this_year = text[:5] == local_time(clock.now_ns())[:5]
    return text[5:] if is_this_year else text[:10]


def _share(lookups: Lookups) -> str:
    """Return how many look-ups were hits, as text."""
    return f"{lookups.hits:,} of {lookups.requests:,}" if lookups.requests else "–"


def _tell_rest(found: Statistics, shown: int) -> None:
    """Print how many of the lines are shown, if not all are."""
    if (whole := len(found.groups)) > shown:
        first = "first" if found.by is By.FUNCTION else "last"
        output.prose(f"{first} {shown:,} of {whole:,}; -v shows all")
    listed = sum("programs" in report for report in found.reports)
    if found.by is By.FUNCTION and listed < len(found.reports):
        older = output.count(len(found.reports) - listed, "older run is", "older runs are")
        output.prose(f"{older} recorded without functions and not counted above")


def _render_details(sums: Mapping[str, Any]) -> None:
    total = f"{output.count(sums['hits'], 'hit', 'hits')}, "
    total += f"{output.count(sums['stored'], 'miss', 'misses')} (stored), {sums['not_stored']} not stored, "
    output.prose(f"executables: {total}{sums['bypassed']} bypassed")
    for outcome, counts in sums["reasons"].items():
        for reason, number in counts.items():
            output.prose(f"  {number} {outcome.replace('_', ' ')}: {reason}")
    traces, graphs = sums["traces"], sums["graphs"]
    tracing = traces["saved_seconds"] if any(traces[name] for name in TRACE_COUNTS) else None
    building = graphs["saved_seconds"] if graphs["saved_seconds"] or any(graphs[n] for n in GRAPH_COUNTS) else None
    spent = ", ".join(f"{name[:-8]} {format_seconds(sums[name])}" for name in SECONDS[:-1])
    output.prose(f"  {spent}; {saved_text(sums['saved_seconds'], tracing, building)}")
    for line in (*trace_lines(traces), *graph_lines(graphs)):
        output.prose(line)


def _render_graphs(graphs: Mapping[str, Economics]) -> None:
    if not graphs:
        return
    rows = [
        (
            output.plain(name),
            f"{each.builds:,}",
            format_seconds(each.build_seconds),
            f"{each.loads:,}",
            format_seconds(each.load_seconds),
            format_seconds(each.saved_seconds),
        )
        for name, each in graphs.items()
    ]
    numbers = ("builds", "built in", "loads", "loaded in", "saved")
    output.rich(output.table([("graphs of", "fold"), *((n, "right") for n in numbers)], rows), "")
    total = in_all(graphs)
    built = f"{output.count(total.builds, 'graph', 'graphs')} built in {format_seconds(total.build_seconds)}"
    loaded = f"{total.loads:,} loaded in {format_seconds(total.load_seconds)}"
    output.prose(f"{built}, {loaded}")
    for name, each in graphs.items():
        if verdict := each.verdict(output.plain(name)):
            output.prose(f"  {verdict}")


def _plot(shown: Sequence[Usage]) -> None:
    width = 40
    for usage in shown:
        share = usage.count_rate or 0.0
        filled = round(share * width)
        output.data(f"{usage.name}  {'█' * filled}{'·' * (width - filled)} {share:4.0%} hits")
    output.data("")
