"""The lines of `jcache run -v`."""

from jcache.cli.reports.run_lines import run_lines
from jcache.runs.calls import HIT, NOT_STORED, STORED, GraphCall, TraceCall
from jcache.runs.graph_report import NO_GRAPHS
from jcache.runs.log import Program
from jcache.runs.report import report_of
from jcache.runs.trace_report import NO_TRACES
from tests.helpers.entries import key


def test_each_executable_trace_and_graph_has_one_line() -> None:
    """Keys are short, columns are aligned, and a reason stands in brackets at the end."""
    report = report_of([], run_id="x", command=["train.py"], started_ns=1, seconds=1.0)._replace(
        programs=(
            Program(key(1), "step", HIT, None, 0.25),
            Program(None, "jit_init", NOT_STORED, "compiled in less than 1 s", None),
        ),
        traces=NO_TRACES._replace(calls=(TraceCall("loss", key(2, "loss"), STORED, seconds=1.5),)),
        graphs=NO_GRAPHS._replace(calls=(GraphCall("table", None, HIT, seconds=0.5, times=2000),)),
    )
    short = key(1)[:-56]
    assert run_lines(report) == [
        f"  hit           {short}  {'0.25 s':>19}",
        f"  not stored    {'jit_init':<{len(short)}}  {'':>19}  (compiled in less than 1 s)",
        f"  trace stored  {key(2, 'loss')[:-56]:<{len(short)}}  {'1.50 s':>19}",
        f"  graph hit     {'table':<{len(short)}}  {'0.50 s, 2,000 times':>19}",
    ]


def test_a_run_without_executables_has_no_lines() -> None:
    """A report of nothing has no lines."""
    assert run_lines(report_of([], run_id="x", command=["true"], started_ns=1, seconds=1.0)) == []
