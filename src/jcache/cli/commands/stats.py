"""`jcache stats`: hits, misses and time saved of recorded runs, and of graphs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from jcache.cli import output
from jcache.cli.options import JsonOption, RootOption, open_store
from jcache.errors import InvalidValue
from jcache.layout import Kind
from jcache.runs.call_reports import saved_text
from jcache.runs.graph_report import COUNTS as GRAPH_COUNTS, graph_lines
from jcache.runs.report import report_named
from jcache.runs.stored_reports import COUNTS, SECONDS, read_reports, totals
from jcache.runs.trace_report import COUNTS as TRACE_COUNTS, trace_lines
from jcache.store.economics import Economics, in_all
from jcache.text import command
from jcache.units import format_seconds, whole_number

_HELP: Final = {
    "runs": "Recorded runs.",
    "hits": "Executables found in the cache.",
    "stored": "Executables looked up, compiled and written.",
    "not_stored": "Executables looked up, compiled and not written.",
    "bypassed": "Executables compiled without a look-up.",
    "trace_seconds": "Seconds spent tracing.",
    "lower_seconds": "Seconds spent lowering.",
    "compile_seconds": "Seconds spent compiling.",
    "retrieve_seconds": "Seconds spent retrieving entries.",
    "saved_seconds": "Seconds of compilation that hits saved, less their retrieval.",
}
_GRAPHS_HELP: Final = {
    "builds": "Graphs built.",
    "loads": "Graphs loaded.",
    "build_seconds": "Seconds spent building graphs.",
    "load_seconds": "Seconds spent loading graphs.",
    "spared_seconds": "Seconds that building the graphs loaded had taken.",
}
_GRAPH_CALLS_HELP: Final = {
    "hits": "Calls for graphs that were served and not built.",
    "stored": "Calls for graphs that were looked up, built, and their graphs stored.",
    "not_stored": "Calls for graphs that were looked up and not found, and stored nothing.",
    "bypassed": "Calls for graphs that were built without a look-up.",
}
_TRACES_HELP: Final = {
    "hits": "Calls of jcache.jit functions that were not traced.",
    "stored": "Calls that were looked up, traced, and their traces stored.",
    "not_stored": "Calls that were looked up and traced only.",
    "bypassed": "Calls that were left to jax.jit.",
    "compared": "Traces that would have been served, and were traced to compare.",
    "differing": "Of these, traces that gave another program.",
    "seconds": "Seconds spent looking traces up.",
    "saved_seconds": "Seconds of tracing that hits saved, less looking them up.",
}

Report = dict[str, Any]


def stats(
    root: RootOption = None,
    run: Annotated[
        str | None, typer.Option("--run", metavar="ID", help="Show only this run; 'last' is the last one.")
    ] = None,
    limit: Annotated[str, typer.Option("--limit", metavar="N", help="Show the last N runs.")] = "10",
    plot: Annotated[bool, typer.Option("--plot", help="Draw the hit rate of each of the last runs.")] = False,
    prometheus: Annotated[bool, typer.Option("--prometheus", help="Print totals in Prometheus' text format.")] = False,
    zero: Annotated[bool, typer.Option("--zero", help="Delete all recorded runs, and count from zero.")] = False,
    json: JsonOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the totals only.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print full commands and all runs.")] = False,
) -> None:
    """Show hits, misses with their reasons, and the time saved, for each run and in total.

    `jcache run` and programs that call `jcache.enable()` record runs; traces come from `jcache.jit`, graphs from
    `jcache.GraphCache`.

    Example: jcache stats --run last
    """
    if (json and (plot or prometheus)) or (plot and prometheus):
        raise InvalidValue("stats prints one form at a time: choose --json, --plot or --prometheus.")
    count = whole_number("--limit", limit) or 0
    with open_store(root) as store:
        if zero:
            output.message(f"Forgot {store.ledger.forget_runs()} runs.")
            return
        reports: list[Report] = read_reports(store.ledger.runs())
        if run is not None:
            reports = [report_named(reports, run, store.root.path)]
        graphs = store.ledger.economics(Kind.GRAPHS) if run is None else {}
        summed = totals(reports, in_all(graphs).saved_seconds)
        if json:
            runs = reports[-count:] if count else []
            output.as_json({"root": str(store.root.path), "totals": summed, "runs": runs, "graphs": _as_json(graphs)})
        elif prometheus:
            _prometheus(summed, graphs)
        else:
            for notice in reports[0].get("notices", ()) if run is not None else ():
                output.warning(notice)
            shown = [] if quiet else reports if verbose else reports[-count:] if count else []
            if reports or not graphs:
                _render(store.root.path, shown, summed, plot=plot, verbose=verbose)
            _render_graphs(graphs, shown=not quiet, alone=not reports)


def _as_json(graphs: Mapping[str, Economics]) -> dict[str, Any]:
    """Return the seconds of building and loading graphs, by function and in total."""

    def fields(economics: Economics) -> dict[str, Any]:
        return {**economics._asdict(), "saved_seconds": economics.saved_seconds}

    functions = [{"name": name, **fields(each), "slower": each.is_slower} for name, each in graphs.items()]
    return {"totals": fields(in_all(graphs)), "functions": functions}


def _prometheus(summed: dict[str, Any], graphs: Mapping[str, Economics]) -> None:
    of_graphs, of_traces = _as_json(graphs)["totals"], summed["traces"]
    metrics = [(name, text, summed[name]) for name, text in _HELP.items()]
    metrics += [(f"traces_{name}", text, of_traces[name]) for name, text in _TRACES_HELP.items()]
    metrics += [(f"graph_{name}", text, of_graphs[name]) for name, text in _GRAPHS_HELP.items()]
    metrics += [(f"graphs_{name}", text, summed["graphs"][name]) for name, text in _GRAPH_CALLS_HELP.items()]
    for name, text, value in metrics:
        metric = f"jcache_{name}_total"
        output.data(f"# HELP {metric} {text}\n# TYPE {metric} counter\n{metric} {value}")
    saved = "jcache_time_saved_seconds"  # a gauge, since it falls when a graph takes longer to load than to build
    text = "Seconds saved in all: of compilation, of tracing and of building graphs."
    output.data(f"# HELP {saved} {text}\n# TYPE {saved} gauge\n{saved} {summed['total_saved_seconds']}")


def _render(root: Path, shown: Sequence[Report], summed: dict[str, Any], *, plot: bool, verbose: bool) -> None:
    if not summed["runs"]:
        output.message(f"No runs recorded yet: `{command('run', root, '-- CMD')}` records one.")
        return
    kinds = [kind for kind in ("traces", "graphs") if any(_count_calls(report.get(kind) or {}) for report in shown)]
    names = ("hits", "stored", "not", "bypassed", *kinds, "saved")
    rows = [
        (
            output.plain(report["id"]),
            output.plain(" ".join(report["command"])[: None if verbose else 40]),
            *(str(report[name]) for name in COUNTS),
            *(_share(report.get(kind) or {}) for kind in kinds),
            format_seconds(totals([report])["total_saved_seconds"]),
        )
        for report in shown
    ]
    if rows:
        output.rich(output.table([("run", "left"), ("command", "fold"), *((n, "right") for n in names)], rows), "")
    if plot:
        _plot(shown)
    total = f"{output.count(summed['runs'], 'run', 'runs')}: {output.count(summed['hits'], 'hit', 'hits')}, "
    total += f"{output.count(summed['stored'], 'miss', 'misses')} (stored), {summed['not_stored']} not stored, "
    total += f"{summed['bypassed']} bypassed"
    output.data(total)
    for outcome, counts in summed["reasons"].items():
        for reason, number in counts.items():
            output.data(f"  {number} {outcome.replace('_', ' ')}: {reason}")
    traces, graphs = summed["traces"], summed["graphs"]
    tracing = traces["saved_seconds"] if any(traces[name] for name in TRACE_COUNTS) else None
    building = graphs["saved_seconds"] if graphs["saved_seconds"] or any(graphs[n] for n in GRAPH_COUNTS) else None
    spent = ", ".join(f"{name[:-8]} {format_seconds(summed[name])}" for name in SECONDS[:-1])
    output.data(f"  {spent}; {saved_text(summed['saved_seconds'], tracing, building)}")
    for line in (*trace_lines(traces), *graph_lines(graphs)):
        output.data(f"  {line}")


def _count_calls(calls: Mapping[str, Any]) -> int:
    """Return the number of executables, or of calls for traces or graphs."""
    return sum(calls.get(name, 0) for name in COUNTS)


def _share(calls: Mapping[str, Any]) -> str:
    """Return how many of the calls for traces or graphs were hits, as text."""
    return f"{calls.get('hits', 0):,} of {asked:,}" if (asked := _count_calls(calls)) else "–"


def _render_graphs(graphs: Mapping[str, Economics], *, shown: bool, alone: bool) -> None:
    if not graphs:
        return
    if shown:
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
        numbers = ("built", "in", "loaded", "in", "saved")
        output.rich(output.table([("graphs of", "fold"), *((n, "right") for n in numbers)], rows), "")
    total = in_all(graphs)
    built = f"{output.count(total.builds, 'graph', 'graphs')} built in {format_seconds(total.build_seconds)}"
    loaded = f"{total.loads:,} loaded in {format_seconds(total.load_seconds)}"
    saved = f"; saved {format_seconds(total.saved_seconds)}" if alone else ""  # with runs, their total includes it
    output.data(f"{built}, {loaded}{saved}")
    for name, each in graphs.items():
        if verdict := each.verdict(output.plain(name)):
            output.data(f"  {verdict}")


def _plot(reports: Sequence[Report]) -> None:
    width = 40
    for report in reports:
        parts = (report, report.get("traces") or {}, report.get("graphs") or {})
        asked = sum(map(_count_calls, parts))
        share = sum(part.get("hits", 0) for part in parts) / asked if asked else 0.0
        filled = round(share * width)
        output.data(f"{report['id']}  {'█' * filled}{'·' * (width - filled)} {share:4.0%} hits")
    output.data("")
