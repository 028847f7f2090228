"""Print the totals of recorded runs in Prometheus' text format."""

from collections.abc import Iterator
from typing import Final

from jcache.cli.reports.stats_report import Statistics, graphs_json

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


def prometheus_lines(found: Statistics) -> Iterator[str]:
    """Yield the totals in Prometheus' text format."""
    sums, of_graphs = found.sums, graphs_json(found.graphs)["totals"]
    metrics = [(name, text, sums[name]) for name, text in _HELP.items()]
    metrics += [(f"traces_{name}", text, sums["traces"][name]) for name, text in _TRACES_HELP.items()]
    metrics += [(f"graph_{name}", text, of_graphs[name]) for name, text in _GRAPHS_HELP.items()]
    metrics += [(f"graphs_{name}", text, sums["graphs"][name]) for name, text in _GRAPH_CALLS_HELP.items()]
    for name, text, value in metrics:
        metric = f"jcache_{name}_total"
        yield f"# HELP {metric} {text}\n# TYPE {metric} counter\n{metric} {value}"
    saved = "jcache_time_saved_seconds"  # a gauge, since it falls when a graph takes longer to load than to build
    text = "Seconds saved in all: of compilation, of tracing and of building graphs."
    yield f"# HELP {saved} {text}\n# TYPE {saved} gauge\n{saved} {sums['total_saved_seconds']}"
