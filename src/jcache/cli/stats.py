"""`jcache stats`: what runs did with the cache that `jcache run` recorded, or that count themselves; and graphs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from jcache.cli import output
from jcache.cli.options import JsonOption, RootOption, open_store
from jcache.economics import Economics, in_all
from jcache.errors import InvalidValue
from jcache.layout import Kind
from jcache.run_reports import report_named
from jcache.stored_reports import read_reports
from jcache.trace_reports import trace_lines, traces_in_all
from jcache.units import format_seconds, whole_number

_COUNTS: Final = ("hits", "stored", "not_stored", "bypassed")
_SECONDS: Final = ("trace_seconds", "lower_seconds", "compile_seconds", "retrieve_seconds", "saved_seconds")
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
        str | None, typer.Option("--run", metavar="ID", help="Only this run, or the last one: 'last'.")
    ] = None,
    limit: Annotated[str, typer.Option("--limit", metavar="N", help="Show so many of the last runs.")] = "10",
    plot: Annotated[bool, typer.Option("--plot", help="Draw the share of hits of the last runs.")] = False,
    prometheus: Annotated[bool, typer.Option("--prometheus", help="Print totals in Prometheus' text format.")] = False,
    zero: Annotated[bool, typer.Option("--zero", help="Forget all runs, and begin to count anew.")] = False,
    json: JsonOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the totals only.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print whole commands and every run.")] = False,
) -> None:
    """Show hits, misses and why, and the time saved: of each run, and in all.

    Runs are those of `jcache run`, and of programs that call `jcache.enable()`; traces those of `jcache.jit`, graphs
    those of `jcache.GraphCache`.

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
            reports = [report_named(reports, run)]
        totals = _totals(reports)
        graphs = store.ledger.economics(Kind.GRAPHS) if run is None else {}
        if json:
            runs = reports[-count:] if count else []
            output.as_json({"root": str(store.root.path), "totals": totals, "runs": runs, "graphs": _as_json(graphs)})
        elif prometheus:
            _prometheus(totals, graphs)
        else:
            for notice in reports[0].get("notices", ()) if run is not None else ():
                output.warning(notice)
            shown = [] if quiet else reports if verbose else reports[-count:] if count else []
            if totals["runs"] or not graphs:
                _render(shown, totals, plot=plot, verbose=verbose)
            _render_graphs(graphs, shown=not quiet)


def _totals(reports: Sequence[Report]) -> dict[str, Any]:
    reasons: dict[str, Counter[str]] = {}
    for report in reports:
        for outcome, counts in report["reasons"].items():
            reasons.setdefault(outcome, Counter()).update(counts)
    return {
        "runs": len(reports),
        **{name: sum(report[name] for report in reports) for name in (*_COUNTS, *_SECONDS)},
        "reasons": {outcome: dict(counts.most_common()) for outcome, counts in reasons.items()},
        "traces": traces_in_all(reports),
    }


def _as_json(graphs: Mapping[str, Economics]) -> dict[str, Any]:
    """What building and loading graphs took, by function and in all."""

    def fields(economics: Economics) -> dict[str, Any]:
        return {**economics._asdict(), "saved_seconds": economics.saved_seconds}

    functions = [{"name": name, **fields(each), "slower": each.is_slower} for name, each in graphs.items()]
    return {"totals": fields(in_all(graphs)), "functions": functions}


def _prometheus(totals: dict[str, Any], graphs: Mapping[str, Economics]) -> None:
    of_graphs, of_traces = _as_json(graphs)["totals"], totals["traces"]
    metrics = [(name, text, totals[name]) for name, text in _HELP.items()]
    metrics += [(f"traces_{name}", text, of_traces[name]) for name, text in _TRACES_HELP.items()]
    metrics += [(f"graph_{name}", text, of_graphs[name]) for name, text in _GRAPHS_HELP.items()]
    for name, text, value in metrics:
        metric = f"jcache_{name}_total"
        output.data(f"# HELP {metric} {text}\n# TYPE {metric} counter\n{metric} {value}")


def _render(shown: Sequence[Report], totals: dict[str, Any], *, plot: bool, verbose: bool) -> None:
    if not totals["runs"]:
        output.message("No runs recorded yet: `jcache run -- CMD` records one.")
        return
    names = ("hits", "stored", "not", "bypassed", "saved")
    rows = [
        (
            output.plain(report["id"]),
            output.plain(" ".join(report["command"])[: None if verbose else 40]),
            *(str(report[name]) for name in _COUNTS),
            format_seconds(report["saved_seconds"]),
        )
        for report in shown
    ]
    if rows:
        output.rich(output.table([("run", "left"), ("command", "fold"), *((n, "right") for n in names)], rows), "")
    if plot:
        _plot(shown)
    total = f"{output.count(totals['runs'], 'run', 'runs')}: {output.count(totals['hits'], 'hit', 'hits')}, "
    total += f"{output.count(totals['stored'], 'miss', 'misses')} (stored), {totals['not_stored']} not stored, "
    total += f"{totals['bypassed']} bypassed"
    output.data(total)
    for outcome, counts in totals["reasons"].items():
        for reason, number in counts.items():
            output.data(f"  {number} {outcome.replace('_', ' ')}: {reason}")
    spent = ", ".join(f"{name[:-8]} {format_seconds(totals[name])}" for name in _SECONDS[:-1])
    output.data(f"  {spent}; saved {format_seconds(totals['saved_seconds'])}")
    for line in trace_lines(totals["traces"]):
        output.data(f"  {line}")


def _render_graphs(graphs: Mapping[str, Economics], *, shown: bool) -> None:
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
    output.data(f"{built}, {loaded}; saved {format_seconds(total.saved_seconds)}")
    for name, each in graphs.items():
        if verdict := each.verdict(output.plain(name)):
            output.data(f"  {verdict}")


def _plot(reports: Sequence[Report]) -> None:
    width = 40
    for report in reports:
        asked = sum(report[name] for name in _COUNTS)
        share = report["hits"] / asked if asked else 0.0
        filled = round(share * width)
        output.data(f"{report['id']}  {'█' * filled}{'·' * (width - filled)} {share:4.0%} hits")
    output.data("")
