"""The lines of `jcache run -v`: one for each executable, trace and graph. This module does not need Typer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from jcache.layout import short_key
from jcache.runs.report import RunReport
from jcache.units import format_seconds


class _Row(NamedTuple):
    """An executable, trace or graph, as text."""

    outcome: str
    name: str
    seconds: str
    reason: str


def run_lines(report: RunReport) -> list[str]:
    """Return one line for each executable, trace and graph: its outcome, short key, seconds, and the reason if any."""
    rows = [*_executables(report), *_calls(report)]
    first = max((len(row.outcome) for row in rows), default=0)
    second = max((len(row.name) for row in rows), default=0)
    third = max((len(row.seconds) for row in rows), default=0)
    return [
        f"  {row.outcome:<{first}}  {row.name:<{second}}  {row.seconds:>{third}}  {row.reason}".rstrip() for row in rows
    ]


def _executables(report: RunReport) -> Iterator[_Row]:
    for program in report.programs:
        seconds = "" if program.seconds is None else format_seconds(program.seconds)
        yield _Row(
            program.outcome.replace("_", " "), _name(program.key, program.name), seconds, _in_brackets(program.reason)
        )


def _calls(report: RunReport) -> Iterator[_Row]:
    for call in report.traces.calls:
        outcome = f"trace {call.outcome.replace('_', ' ')}"
        yield _Row(outcome, _name(call.key, call.name), format_seconds(call.seconds), _in_brackets(call.reason))
    for graph in report.graphs.calls:
        times = "" if graph.times == 1 else f", {graph.times:,} times"
        outcome = f"graph {graph.outcome.replace('_', ' ')}"
        yield _Row(
            outcome, _name(graph.key, graph.name), f"{format_seconds(graph.seconds)}{times}", _in_brackets(graph.reason)
        )


def _name(key: str | None, name: str | None) -> str:
    return short_key(key) if key else name or "unknown"


def _in_brackets(reason: str | None) -> str:
    return f"({reason})" if reason else ""
