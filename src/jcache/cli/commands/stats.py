"""`jcache stats`: hits, misses and time saved of recorded runs, and of graphs."""

from typing import Annotated, Any

import typer

from jcache import clock
from jcache.admin.run_history import By, by_day, by_function, by_run, parse_since, started_since, usage_of
from jcache.cli import output
from jcache.cli.options import JsonOption, RootOption, open_store
from jcache.cli.reports.prometheus import prometheus_lines
from jcache.cli.reports.stats_report import Statistics, as_json, render, sentence
from jcache.errors import InvalidValue
from jcache.layout import Kind
from jcache.runs.report import report_named
from jcache.runs.stored_reports import read_reports, totals
from jcache.store.economics import in_all
from jcache.store.run_records import forget_records
from jcache.store.store import Store
from jcache.units import parse_choice, whole_number

_SCHEMA_VERSION = 2  # the latest run first; `since`, `by`, `groups` and `hit_rate`


def complete_groups(incomplete: str) -> list[str]:
    """Return the groups of `--by` that begin with a text."""
    return [by for by in By if by.startswith(incomplete)]


RunOption = Annotated[
    str | None, typer.Option("--run", metavar="ID", help="Show only this run; 'last' is the last one.")
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", help="Only runs since then: an age such as 7d, or a date such as 2026-11-24."
    ),
]
ByOption = Annotated[
    str,
    typer.Option(
        "--by",
        metavar="WHAT",
        help="Print a line for each run, day, function or cause of misses.",
        autocompletion=complete_groups,
    ),
]
LimitOption = Annotated[str, typer.Option("--limit", metavar="N", help="Show at most N lines.")]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print one line: the time saved, and the share of hits.")
]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Print all lines, with whole commands.")]


def stats(
    root: RootOption = None,
    run: RunOption = None,
    since: SinceOption = None,
    by: ByOption = By.RUN.value,
    limit: LimitOption = "10",
    plot: Annotated[bool, typer.Option("--plot", help="Draw the hit rate of each line.")] = False,
    prometheus: Annotated[bool, typer.Option("--prometheus", help="Print totals in Prometheus' text format.")] = False,
    zero: Annotated[bool, typer.Option("--zero", help="Delete all recorded runs, and count from zero.")] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Show hits, misses with their reasons, and the time saved: for each run, the latest first, and in total.

    `jcache run` and programs that call `jcache.enable()` record runs; traces come from `jcache.jit`, graphs from
    `jcache.GraphCache`.

    Example: jcache stats --since 7d -q
    """
    if (json and (plot or prometheus)) or (plot and prometheus):
        raise InvalidValue("stats prints one form at a time: choose --json, --plot or --prometheus.")
    group, count = parse_choice(By, by, "is no group of stats"), whole_number("--limit", limit) or 0
    since_ns = None if since is None else parse_since(since, clock.now_ns())
    with open_store(root) as store:
        if zero:
            output.message(f"Forgot {store.ledger.forget_runs()} runs.")
            forget_records(store.root)
            return
        if group is By.CAUSE:
            if plot or prometheus or quiet:
                raise InvalidValue("stats --by cause prints a table or --json.")
            _causes(store, _reports(store, run, since_ns), count, json=json, verbose=verbose)
            return
        found = _statistics(store, run, since_ns, group)
        if json:
            output.as_json(as_json(found, count), version=_SCHEMA_VERSION)
        elif prometheus:
            for line in prometheus_lines(found):
                output.data(line)
        elif quiet:
            output.data(sentence(found))
        else:
            for notice in found.reports[0].get("notices", ()) if run is not None else ():
                output.warning(notice)
            render(found, len(found.groups) if verbose else count, plot=plot, verbose=verbose)


def _reports(store: Store, run: str | None, since_ns: int | None) -> list[dict[str, Any]]:
    """Return the reports of the runs that were asked for."""
    reports = read_reports(store.ledger.runs())
    if run is not None:
        reports = [report_named(reports, run, store.root.path)]
    return reports if since_ns is None else started_since(reports, since_ns)


def _causes(store: Store, reports: list[dict[str, Any]], count: int, *, json: bool, verbose: bool) -> None:
    """Print why the programs of runs missed."""
    from jcache.cli.reports.causes_report import find_causes, render_causes

    causes, recorded = find_causes(store, reports)
    if json:
        groups = [cause.to_json() for cause in causes[:count]]
        output.as_json(
            {"root": str(store.root.path), "by": By.CAUSE, "runs": recorded, "groups": groups}, version=_SCHEMA_VERSION
        )
    else:
        render_causes(store, causes, recorded, len(reports), len(causes) if verbose else count)


def _statistics(store: Store, run: str | None, since_ns: int | None, by: By) -> Statistics:
    """Return the statistics of the runs that were asked for."""
    reports = _reports(store, run, since_ns)
    graphs = store.ledger.economics(Kind.GRAPHS) if run is None and since_ns is None else {}
    sums = totals(reports, in_all(graphs).saved_seconds)
    groups = by_function(reports, store) if by is By.FUNCTION else by_day(reports) if by is By.DAY else by_run(reports)
    return Statistics(
        root=store.root.path,
        by=by,
        since_ns=since_ns,
        reports=reports[::-1],
        groups=groups,
        total=usage_of("total", reports, sums),
        sums=sums,
        graphs=graphs,
    )
