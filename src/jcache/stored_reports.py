"""The reports of runs that the ledger keeps, read as input: what is no report is passed over."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any, Final

from jcache.trace_reports import COUNTS, SECONDS

_COUNTS: Final = ("hits", "stored", "not_stored", "bypassed")
_SECONDS: Final = ("trace_seconds", "lower_seconds", "compile_seconds", "retrieve_seconds", "saved_seconds")


def read_reports(texts: Iterable[str]) -> list[dict[str, Any]]:
    """The reports among some texts, as `jcache.run_reports.RunReport.to_json` makes them; shortened ones too."""
    found = []
    for text in texts:
        try:
            report = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(report, dict) and _is_report(report):
            found.append(report)
    return found


def _is_report(report: Mapping[str, Any]) -> bool:
    return (
        isinstance(report.get("id"), str)
        and _are_texts(report.get("command", []))
        and _are_texts(report.get("notices", []))
        and all(_is_count(report.get(name)) for name in _COUNTS)
        and all(_is_number(report.get(name)) for name in _SECONDS)
        and _are_reasons(report.get("reasons"))
        and _are_programs(report.get("programs", []))
        and _is_of_traces(report.get("traces") or {})
    )


def _is_of_traces(traces: object) -> bool:
    return (
        isinstance(traces, dict)
        and all(_is_count(traces.get(name, 0)) for name in COUNTS)
        and all(_is_number(traces.get(name, 0.0)) for name in SECONDS)
        and _are_reasons(traces.get("reasons", {}))
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
