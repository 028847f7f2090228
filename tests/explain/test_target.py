"""What a text stands for: a run, a function or a key."""

import pytest

from jcache.errors import UnknownKey
from jcache.explain.baseline import History
from jcache.explain.target import Target, find_target
from jcache.runs.calls import HIT
from tests.helpers.records import process, program, run

STEP, LOSS = program("step"), program("loss")
RUNS = [
    run(1, process(STEP, LOSS)),
    run(2, process(STEP._replace(outcome=HIT), program("step", "other"))),
    run(3, process(STEP._replace(outcome=HIT), LOSS._replace(outcome=HIT))),
]
UNSEEN = "jit_eval-" + "0" * 64


def found(text: str) -> Target:
    return find_target(History(RUNS), text, [UNSEEN], "/root")


def test_runs_are_found_by_beginning_end_and_as_the_last() -> None:
    """A run is named by its id, the beginning or the end of it, or as the last one."""
    assert found("last") == Target(RUNS[2])
    assert found(RUNS[0].id) == found(RUNS[0].id.rpartition("-")[2]) == found(RUNS[0].id[:-3]) == Target(RUNS[0])


def test_functions_and_keys_are_found_in_their_last_miss() -> None:
    """A function or key stands for the last run in which it missed; a key that no run has recorded for none."""
    assert found("step") == Target(RUNS[1], function="step")
    assert found("loss") == Target(RUNS[0], function="loss")
    assert found(str(LOSS.key)) == found("jit_loss-") == Target(RUNS[0], key=LOSS.key)
    assert found(UNSEEN) == Target(None, key=UNSEEN)


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "no recorded run"), ("jit_", "keys"), ("20261125", "3 runs"), ("stp", "did you mean 'step'"), ("x", "lists")],
)
def test_what_stands_for_nothing_or_for_several_is_refused(text: str, words: str) -> None:
    """The sentence says for how many things a text stands, or what was meant."""
    with pytest.raises(UnknownKey, match=words):
        found(text)


def test_a_function_may_be_written_as_keys_have_it() -> None:
    """`jit_step`, as `jcache ls` prints it, is the function `step`."""
    history = History([run(1, process(program("step"), program("step", "other")))])
    assert find_target(history, "jit_step", (), "r").function == "step"


def test_without_runs_the_next_command_records_one() -> None:
    """Where no run is recorded, the message says how to record one."""
    with pytest.raises(UnknownKey, match="no run is recorded: `jcache run --root r -- CMD` records one"):
        find_target(History([]), "step", (), "r")
