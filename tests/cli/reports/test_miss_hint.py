"""The last line of `jcache run`: the dearest cause of what missed although it had been compiled before."""

from pathlib import Path

import pytest

from jcache.cli.reports.miss_hint import miss_hint
from jcache.runs.calls import HIT
from jcache.runs.record import Argument, ProgramRecord
from jcache.store.roots import create_root
from jcache.store.run_records import add_record
from jcache.store.store import Store
from tests.helpers.records import process, program, run

FLAG = "--xla_cpu_enable_fast_math=true"


def hint(path: Path, before: list[ProgramRecord], now: list[ProgramRecord], flags: str = "") -> str | None:
    """Return the line after a run of these programs in a root that has the record of a run before."""
    root = create_root(path / "root")
    latest = run(2, process(*now, flags=flags))
    for one in (run(1, process(*before)), latest):
        add_record(root, one.id, one.to_json(), {})
    return miss_hint(Store(root), latest.id)


def test_a_setting_that_changed(tmp_path: Path) -> None:
    """The line has the number of misses, the cause and the command that says more."""
    usual = [program("init"), program("step")]
    flagged = [program(name, flags=FLAG) for name in ("init", "step")]
    expected = f"2 of 2 misses: XLA_FLAGS changed; `jcache explain --root {tmp_path / 'root'}` says more"
    assert hint(tmp_path, usual, flagged, FLAG) == expected


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (program("step", "wider", arguments=(Argument("batch", "f32[61,128]"),)), "shape of batch in step changed"),
        (program("step", "another"), "the program of step changed"),
        (program("step"), "1 of 1 miss: evicted"),
    ],
    ids=["shape", "program", "same key"],
)
def test_a_function_that_changed(tmp_path: Path, changed: ProgramRecord, words: str) -> None:
    """The cause names the function, and the argument where one changed; an entry that is gone has neither."""
    found = hint(tmp_path, [program("step")], [changed])
    assert found is not None
    assert words in found


@pytest.mark.parametrize("now", [[program("step", outcome=HIT)], [program("new")]], ids=["hit", "first time"])
def test_nothing_is_said_of_what_had_to_be_compiled(tmp_path: Path, now: list[ProgramRecord]) -> None:
    """There is no cause without a miss, and none to name in a function that no run has had before."""
    assert hint(tmp_path, [program("step")], now) is None


def test_nothing_is_said_of_a_run_without_a_record(tmp_path: Path) -> None:
    root = create_root(tmp_path / "root")
    assert miss_hint(Store(root), "20261125T000001Z-000001") is None
