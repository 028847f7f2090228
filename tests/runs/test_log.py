"""A recording is made of the recorder's lines: compilations, threads and spans of time."""

from pathlib import Path

import pytest

from tests.runs.test_report import COMPILE, counts, report, spent, stored


def test_torn_and_foreign_lines_are_passed_over(tmp_path: Path) -> None:
    """A line torn by SIGKILL, and anything that is not the recorder's, costs that line only."""
    (tmp_path / "2-00.jsonl").write_bytes(b"")
    found = report(tmp_path, *stored(1, "f-1", 0.5), tail=b'\n[1]\n\xff\n{"e":"event"}\n{"e":"log","t":1,"th":')
    assert counts(found) == (0, 1, 0, 0)


def test_killed_while_compiling(tmp_path: Path) -> None:
    """A program that ended in the middle of a compilation leaves it as not stored."""
    found = report(tmp_path, *stored(1, "f-1", 0.5)[:2])
    assert counts(found) == (0, 0, 1, 0)
    assert found.reasons == {"not_stored": {"its compilation failed, or the program ended meanwhile": 1}}


def test_nested_compilations_and_threads_stay_apart(tmp_path: Path) -> None:
    """A compilation inside another one, or beside it on another thread, takes nothing from it."""
    outer = stored(1, "outer-1", 5.0)
    lines = [*outer[:2], *stored(2, "inner-1", 1.0), *stored(2, "other-1", 1.0, th=2), *outer[2:]]
    found = report(tmp_path, *lines)
    assert counts(found) == (0, 3, 0, 0)
    assert {program.key: program.seconds for program in found.programs} == {"outer-1": 5, "inner-1": 1, "other-1": 1}
    assert found.compile_seconds == pytest.approx(5.1 + 1.1)


def test_nested_spans_are_not_counted_twice(tmp_path: Path) -> None:
    """A trace inside a trace, and a compilation inside it, count once each."""
    trace = COMPILE + "jaxpr_trace_duration"
    lines = [spent(2.0, trace, 1.0), *stored(3.0, "f-1", 0.5), spent(5.0, trace, 4.5), spent(6.0, trace, 0.75)]
    found = report(tmp_path, *lines)
    assert found.trace_seconds == pytest.approx(4.5 - 0.6 + 0.75)
    assert found.compile_seconds == pytest.approx(0.6)


def test_any_number_of_nested_spans(tmp_path: Path) -> None:
    """A trace counts once, however many traces are in it."""
    trace = COMPILE + "jaxpr_trace_duration"
    inside = [spent(1 + n / 1000, trace, 0.0005) for n in range(50_000)]
    found = report(tmp_path, spent(0.5, trace, 0.25), *inside, spent(60, trace, 59.25), spent(61, trace, 0.5))
    assert found.trace_seconds == pytest.approx(0.25 + 59.25 + 0.5)
