"""Read the reports of runs in the ledger, and add them up. They are untrusted input: a malformed report is ignored."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, Final

from jcache.runs import graph_report, trace_report
from jcache.runs.call_reports import add_up

COUNTS: Final = ("hits", "stored", "not_stored", "bypassed")
SECONDS: Final = ("trace_seconds", "lower_seconds", "compile_seconds", "retrieve_seconds", "saved_seconds")


def read_reports(texts: Iterable[str]) -> list[dict[str, Any]]:
    """Return the well-formed reports among some texts, whole or shortened.

    Args:
        texts: JSON texts of `jcache.runs.report.RunReport.to_json`.
    """
    found = []
    for text in texts:
        try:
            report = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(report, dict) and _is_report(report):
            found.append(report)
    return found


def totals(reports: Sequence[Mapping[str, Any]], graphs: float = 0.0) -> dict[str, Any]:
    """Return the sums of the numbers of several reports; reports of older versions have no traces or graphs.

    Args:
        reports: the reports, as `read_reports` returns them.
        graphs: seconds of building graphs that were saved, from the root's ledger. They include programs without a
            report. Savings that both the ledger and the reports have count once.
    """
    traces = add_up([one.get("traces") or {} for one in reports], trace_report.COUNTS, trace_report.SECONDS)
    built = add_up([one.get("graphs") or {} for one in reports], graph_report.COUNTS, graph_report.SECONDS)
    built["saved_seconds"] = max(built["saved_seconds"], graphs) if graphs else built["saved_seconds"]
    numbers = add_up(reports, COUNTS, SECONDS)
    saved = numbers["saved_seconds"] + traces["saved_seconds"] + built["saved_seconds"]
    return {"runs": len(reports), **numbers, "total_saved_seconds": saved, "traces": traces, "graphs": built}


def _is_report(report: Mapping[str, Any]) -> bool:
    return (
        isinstance(report.get("id"), str)
        and _are_texts(report.get("command", []))
        and _are_texts(report.get("notices", []))
        and all(_is_count(report.get(name)) for name in COUNTS)
        and all(_is_number(report.get(name)) for name in SECONDS)
        and _are_reasons(report.get("reasons"))
        and _are_programs(report.get("programs", []))
        and _is_of_calls(report.get("traces") or {}, trace_report.COUNTS, trace_report.SECONDS)
        and _is_of_calls(report.get("graphs") or {}, graph_report.COUNTS, graph_report.SECONDS)
    )


def _is_of_calls(calls: object, counts: Iterable[str], seconds: Iterable[str]) -> bool:
    return (
        isinstance(calls, dict)
        and all(_is_count(calls.get(name, 0)) for name in counts)
        and all(_is_number(calls.get(name, 0.0)) for name in seconds)
        and _are_reasons(calls.get("reasons", {}))
    )


def _are_programs(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(program, dict)
        and isinstance(program.get("outcome"), str)
        and isinstance(program.get("key"), str | None)
        for program in value
    )


def _are_reasons(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(counts, dict) and all(map(_is_count, counts.values())) for counts in value.values()
    )


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and 0 <= value < 2**63


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and abs(value) < 1e15 and isfinite(value)
