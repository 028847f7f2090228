"""Reports of traces, from the lines of `jcache.jit` in a recording."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jcache.runs.report import RunReport, summary
from tests.helpers.reports import collect

START = {"e": "start", "jax": "0.10.2", "jaxlib": "0.10.2", "cache": "used"}


def told(event: str, **fields: object) -> dict[str, Any]:
    return {"e": event, "th": 1, "t": 1.0, **fields}


def called(outcome: str, name: str, reason: str = "", seconds: float = 1.0, spared: float = 0.0) -> dict[str, Any]:
    times = {"seconds": seconds, "spared_seconds": spared}
    return told("trace", name=name, key=f"{name}-key", outcome=outcome, reason=reason or None, **times)


def compared(same: bool) -> dict[str, Any]:
    return told("compared", name="f", key="f-key", same=same)


def report(directory: Path, lines: Sequence[object]) -> RunReport:
    (directory / "1.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in (START, *lines)))
    return collect(directory, run_id="r", command=["p"], started_ns=0, seconds=1.0, exit_code=0)


def test_calls_are_counted(tmp_path: Path) -> None:
    """Calls are counted by outcome and reason, with the function's name; a hit that took longer than tracing saves no
    time.
    """
    lines = [
        called("hit", "f", spared=4.0),
        called("hit", "g", seconds=2.0, spared=1.0),
        called("stored", "f", "it is new"),
        called("stored", "f", "it is new"),
        called("bypassed", "h", "no key"),
        compared(True),
        compared(False),
    ]
    found = report(tmp_path, lines).traces
    assert (found.hits, found.stored, found.not_stored, found.bypassed) == (2, 2, 0, 1)
    assert (found.seconds, found.saved_seconds, found.compared, found.differing) == (3.0, 3.0, 2, 1)
    assert found.reasons == {"stored": {"f: it is new": 2}, "bypassed": {"h: no key": 1}}
    assert [(call.name, call.key, call.outcome, call.reason) for call in found.calls[:3:2]] == [
        ("f", "f-key", "hit", None),
        ("f", "f-key", "stored", "it is new"),
    ]
    assert json.loads(json.dumps(found.to_json()))["calls"][0]["spared_seconds"] == 4.0


@pytest.mark.parametrize(
    "line",
    [
        told("trace"), called("hit", "f") | {"seconds": "soon"}, called("hit", "f") | {"reason": 3},
        called("lost", "f"), called("hit", "f") | {"outcome": []}, told("compared"),
        told("trace of another day", name="f"),
    ],
)  # fmt: skip
def test_what_another_jcache_says_is_passed_over(tmp_path: Path, line: dict[str, Any]) -> None:
    """A program may have another version of jcache than `jcache run`."""
    found = report(tmp_path, [line, called("hit", "f")]).traces
    assert found.hits == 1 and len(found.calls) == 1


def test_programs_and_traces_do_not_mix(tmp_path: Path) -> None:
    """Events of a trace during the look-up of an executable do not change that look-up."""
    request = {"e": "event", "th": 1, "name": "/jax/compilation_cache/compile_requests_use_cache"}
    found = report(
        tmp_path, [request, called("stored", "f", "new"), {**request, "name": "/jax/compilation_cache/cache_hits"}]
    )
    assert (found.hits, found.traces.stored) == (1, 1)


def test_the_summary(tmp_path: Path) -> None:
    """Reasons are listed up to a number of them, digests by their beginnings; without a call there is no line."""
    lines = [called("stored", "f", f"file {number} was {'0123456789abcdef' * 4}") for number in range(10)]
    text = summary(report(tmp_path, [*lines, called("hit", "f", spared=3.0), compared(True)]))
    assert text.splitlines()[2:5] == [
        "  traces: 1 hit, 10 misses (stored), 0 not stored, 0 left to jax.jit; "
        "1 traced again to compare, none differing",
        "    1 traced anew: f: file 0 was 01234567…",
        "    1 traced anew: f: file 1 was 01234567…",
    ]
    assert text.splitlines()[-1] == "    and 2 more reasons (--json lists them)"
    assert "traces" not in summary(report(tmp_path, []))
