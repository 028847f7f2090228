"""Common parts of the reports on executables, traces and graphs: reasons, sums, JSON and lines of text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from jcache.frozen import Frozen
from jcache.units import format_seconds

_MAX_REASON_CHARS: Final = 240
_MAX_REASONS_SHOWN: Final = 8
_DIGEST: Final = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{16}(?:[0-9a-f]{40})?\b")


def count_reasons(calls: Iterable[tuple[str, str, int]]) -> Mapping[str, Mapping[str, int]]:
    """Count the reasons of each outcome.

    Args:
        calls: the outcome, the reason and the number of calls with both.

    Returns:
        For each outcome, the number of calls by reason, the most frequent reason first.
    """
    counts: dict[str, Counter[str]] = {}
    for outcome, reason, number in calls:
        counts.setdefault(outcome, Counter())[reason] += number
    frozen = {outcome: Frozen(dict(counter.most_common())) for outcome, counter in counts.items()}
    return Frozen(frozen)


def as_json(value: Any) -> Any:  # noqa: ANN401
    """Return a report, or a part of one, as data for ``json.dumps``."""
    if isinstance(value, Mapping):
        return {name: as_json(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return as_json(value._asdict()) if hasattr(value, "_asdict") else [as_json(part) for part in value]
    return value


def add_up(reports: Sequence[Mapping[str, Any]], counts: Iterable[str], seconds: Iterable[str]) -> dict[str, Any]:
    """Return the sums of the numbers and reasons of several reports, where an older report may lack some.

    Args:
        reports: the reports, as data for ``json.dumps``.
        counts: names of the fields that count.
        seconds: names of the fields that are seconds.
    """
    reasons: dict[str, Counter[str]] = {}
    for report in reports:
        for outcome, number in report.get("reasons", {}).items():
            reasons.setdefault(outcome, Counter()).update(number)
    return {
        **{name: sum(report.get(name, 0) for report in reports) for name in counts},
        **{name: sum(report.get(name, 0.0) for report in reports) for name in seconds},
        "reasons": {outcome: dict(numbers.most_common()) for outcome, numbers in reasons.items()},
    }


def counts_line(subject: str, report: Mapping[str, Any], bypassed_words: str) -> str:
    """Return a line such as ``traces: 1 hit, 2 misses (stored), 0 not stored, 0 left to jax.jit``."""
    hits, stored = report["hits"], report["stored"]
    line = f"{subject}: {hits:,} {'hit' if hits == 1 else 'hits'}, {stored:,} {'miss' if stored == 1 else 'misses'} "
    return f"{line}(stored), {report['not_stored']:,} not stored, {report['bypassed']:,} {bypassed_words}"


def reason_lines(report: Mapping[str, Any], words: Mapping[str, str]) -> list[str]:
    """Return lines with the most frequent reasons of each outcome."""
    lines = []
    for outcome, counts in report["reasons"].items():
        shown = list(counts.items())[:_MAX_REASONS_SHOWN]
        lines += [f"  {number:,} {words.get(outcome, outcome)}: {_shorten(reason)}" for reason, number in shown]
        if len(counts) > len(shown):
            more = len(counts) - len(shown)
            lines.append(f"  and {more:,} more {'reason' if more == 1 else 'reasons'} (--json lists them)")
    return lines


def _shorten(reason: str) -> str:
    """Shorten the digests in a reason, and the reason itself if it is very long."""
    text = _DIGEST.sub(r"\1…", reason)
    return text if len(text) <= _MAX_REASON_CHARS else f"{text[:_MAX_REASON_CHARS]}…"


def saved_text(compiling: float, tracing: float | None, building: float | None) -> str:
    """Return the total time saved, with its parts if there are several.

    Args:
        compiling: seconds of compilation that hits saved.
        tracing: seconds of tracing; None if there were no traces.
        building: seconds of building graphs; None if there were no graphs.
    """
    parts = {"compiling": compiling, "tracing": tracing, "building graphs": building}
    known = {name: seconds for name, seconds in parts.items() if seconds is not None}
    each = ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in known.items())
    return f"saved {format_seconds(sum(known.values()))}" + (f" ({each})" if len(known) > 1 else "")
