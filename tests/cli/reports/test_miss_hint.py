"""The line with which `jcache run` ends where something missed that an earlier run had."""

from pathlib import Path

import pytest

from jcache.cli.reports.miss_hint import miss_hint
from jcache.layout import Root
from jcache.runs.calls import HIT
from jcache.runs.record import ProgramRecord, RunRecord
from jcache.store.roots import create_root
from jcache.store.run_records import add_record
from jcache.store.store import Store
from tests.helpers.records import FAST_MATH, argument, process, program, run


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return create_root(tmp_path / "root")


def hint(root: Root, *runs: RunRecord) -> str | None:
    """Return the line for the last of some runs."""
    for one in runs:
        add_record(root, one.id, one.to_json(), {})
    with Store(root) as store:
        return miss_hint(store, runs[-1].id)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"flags": FAST_MATH}, "2 of 2 misses: XLA_FLAGS changed"),
        ({"arguments": argument(type="f32[61,128]"), "module": "m"}, "2 of 2 misses: shape of batch in "),
        ({"static": {"n": "3"}, "module": "m"}, "2 of 2 misses: static argument n in "),
        ({}, "2 of 2 misses: evicted"),
    ],
)
def test_the_dearest_cause_is_named_in_one_line(root: Root, changed: dict[str, object], words: str) -> None:
    """The line has the share of misses, the cause, and the command that says more."""
    before = process(program("step"), program("loss"))
    fields: dict[str, str] = {"flags": FAST_MATH} if "flags" in changed else {}
    now = process(*(program(name, **changed) for name in ("step", "loss")), **fields)  # type: ignore[arg-type]
    line = hint(root, run(1, before), run(2, now))
    assert line is not None and line.startswith(words)
    assert line.endswith(f"`jcache explain --root {root.path}` says more")


def test_there_is_no_line_where_nothing_was_compiled_before(root: Root) -> None:
    """A first run, and a run without a record, have no such line."""
    assert hint(root, run(1, process(program("step")))) is None
    with Store(root) as store:
        assert miss_hint(store, "unknown") is None


@pytest.mark.parametrize("now", [program("step", outcome=HIT), program("new")], ids=["hit", "first time"])
def test_nothing_is_said_of_what_had_to_be_compiled(root: Root, now: ProgramRecord) -> None:
    """Without a miss, and for a function that is new, there is no line; nor for a run without a record."""
    assert hint(root, run(1, process(program("step"))), run(2, process(now))) is None
    with Store(root) as store:
        assert miss_hint(store, "20261125T000001Z-000001") is None
