"""The report that is made of the recordings of a run, without JAX."""

import json
from pathlib import Path
from typing import Any

import pytest

from jcache.runs.report import NO_PROGRAM_SEEN, RunReport, summary
from tests.helpers.reports import collect

CACHE, COMPILE = "/jax/compilation_cache/", "/jax/core/compile/"
START = {"e": "start", "t": 0.0, "pid": 1, "jax": "0.10.2", "jaxlib": "0.10.1", "cache": ""}
HIT = "Persistent compilation cache hit for '%s' with key %r"
MISS = "PERSISTENT COMPILATION CACHE MISS for '%s' with key %r"
TOOK = "'%s' took at least %.2f seconds to compile (%.2fs)"
WRITING = "Writing %s to persistent compilation cache with key %r"


def event(t: float, name: str, th: int = 1) -> dict[str, Any]:
    return {"e": "event", "t": t, "th": th, "name": CACHE + name}


def log(t: float, message: str, *arguments: object, th: int = 1, **extra: object) -> dict[str, Any]:
    return {"e": "log", "t": t, "th": th, "m": message, "a": list(arguments), **extra}


def refused(t: float, key: str, reason: str, th: int = 1) -> dict[str, Any]:
    return {"e": "not_stored", "t": t, "th": th, "key": key, "reason": reason}


def damaged(t: float, key: str, evidence: str, th: int = 1) -> dict[str, Any]:
    return {"e": "damaged", "t": t, "th": th, "key": key, "reason": evidence}


def spent(t: float, name: str, seconds: float, th: int = 1) -> dict[str, Any]:
    return {"e": "time", "t": t, "th": th, "name": name, "s": seconds}


def end(t: float, seconds: float, th: int = 1) -> dict[str, Any]:
    return {**spent(t, COMPILE + "backend_compile_duration", seconds, th), "fun": "jit(f)", "platform": "cpu"}


def hit(t: float, key: str, whole: int, retrieval: float) -> list[dict[str, Any]]:
    return [
        event(t, "compile_requests_use_cache"),
        log(t, HIT, key[:-2], key),
        event(t, "cache_hits"),
        spent(t, CACHE + "compile_time_saved_sec", whole - retrieval),
        spent(t, CACHE + "cache_retrieval_time_sec", retrieval),
        end(t, retrieval + 0.5),
    ]


def stored(t: float, key: str, seconds: float, th: int = 1) -> list[dict[str, Any]]:
    return [
        event(t, "compile_requests_use_cache", th),
        log(t, MISS, key[:-2], key, th=th),
        log(t + seconds, TOOK, key[:-2], 0.0, seconds, th=th),
        log(t + seconds, WRITING, key[:-2], key, th=th),
        event(t + seconds, "cache_misses", th),
        end(t + seconds + 0.1, seconds + 0.1, th),
    ]


def report(log_dir: Path, *lines: dict[str, Any], tail: bytes = b"", **options: Any) -> RunReport:
    text = "".join(json.dumps(line) + "\n" for line in [START, *lines])
    (log_dir / "1-00.jsonl").write_bytes(text.encode() + tail)
    return collect(log_dir, run_id="r", command=["a", "b"], started_ns=0, seconds=2.0, exit_code=0, **options)


def counts(found: RunReport) -> tuple[int, int, int, int]:
    assert found.requests == found.hits + found.stored + found.not_stored
    return found.hits, found.stored, found.not_stored, found.bypassed


def test_saved_seconds_are_never_negative(tmp_path: Path) -> None:
    """The time saved is the build time less the retrieval; the recorded build time counts before JAX's whole
    seconds.
    """
    lines = [*hit(1, "known-1", 0, 0.25), *hit(2, "old-1", 7, 0.5), *hit(3, "quick-1", 0, 0.5)]
    found = report(tmp_path, *lines, build_seconds={"known-1": 0.75}.get)
    assert counts(found) == (3, 0, 0, 0)
    assert found.saved_seconds == pytest.approx(0.5 + 6.5)
    assert found.retrieve_seconds == pytest.approx(1.25)


def test_copy_that_is_not_stored(tmp_path: Path) -> None:
    """A hit stays one if jcache's cache could not copy the entry from another root."""
    lines = hit(1, "f-1", 3, 0.5)
    found = report(tmp_path, lines[0], refused(1, "f-1", "full"), *lines[1:])
    assert counts(found) == (1, 0, 0, 0)
    assert found.reasons == {}


def test_damaged_entry_that_is_replaced(tmp_path: Path) -> None:
    """A program that replaces a damaged entry says so; a hit of a copy in another root needs no reason."""
    first, second = stored(1, "f-1", 1), hit(5, "g-1", 3, 0.5)
    damage = damaged(1, "f-1", "digest"), damaged(5, "g-1", "digest")
    found = report(tmp_path, first[0], damage[0], *first[1:], second[0], damage[1], *second[1:])
    assert counts(found) == (1, 1, 0, 0)
    assert found.reasons == {"stored": {"the entry was damaged: digest": 1}}


def test_report_as_json(tmp_path: Path) -> None:
    """The report is plain JSON with a schema version and an RFC 3339 time."""
    found = report(tmp_path, *hit(1, "f-1", 3, 0.5), *stored(2, "g-1", 1), end(9, 1), signal=15)
    data = json.loads(json.dumps(found.to_json()))
    assert (data["schema_version"], data["started"], data["signal"]) == (1, "1970-01-01T00:00:00.000000Z", 15)
    assert (data["requests"], data["hits"], data["stored"], data["bypassed"]) == (2, 1, 1, 1)
    assert (data["jax_version"], data["jaxlib_version"], data["platforms"]) == ("0.10.2", "0.10.1", ["cpu"])
    assert data["programs"][0]["key"] == "f-1"
    assert data["command"] == ["a", "b"]
    assert data["notices"] == []


def test_report_cannot_be_changed(tmp_path: Path) -> None:
    """A report is immutable at any depth, and counts programs that were looked up and compiled as misses."""
    found = report(tmp_path, *stored(1, "f-1", 1), *stored(3, "g-1", 1)[:2], end(9, 1))
    assert (found.misses, found.requests) == (2, 2)
    with pytest.raises(TypeError):
        found.reasons["hit"] = {}  # type: ignore[index]
    with pytest.raises(TypeError):
        found.reasons["not_stored"]["none"] = 1  # type: ignore[index]


def test_summary(tmp_path: Path) -> None:
    """The summary names all four outcomes, the reasons and the times."""
    found = report(tmp_path, *hit(1, "f-1", 663, 0.5), *stored(2, "g-1", 1), end(9, 1))
    assert summary(found).splitlines() == [
        "jcache: 1 hit, 1 miss (stored), 0 not stored, 1 bypassed",
        "  1 bypassed: this backend cannot serialize executables",
        "  trace 0.00 s, lower 0.00 s, compile 2.60 s, retrieve 0.50 s; saved 11 min 02 s",
    ]


def test_program_without_jax(tmp_path: Path) -> None:
    """A run in which no process imports JAX is reported in one line."""
    found = collect(tmp_path, run_id="r", command=["ls"], started_ns=0, seconds=0.0, exit_code=0)
    assert (counts(found), found.processes, found.jax_version) == ((0, 0, 0, 0), 0, None)
    assert summary(found) == f"jcache: {NO_PROGRAM_SEEN}."
