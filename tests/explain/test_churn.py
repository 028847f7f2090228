"""A function with another key in every process is churn; one with a cause of its own is not."""

import pytest

from jcache.runs.calls import HIT, STORED
from jcache.vocabulary import CauseKind
from tests.helpers.records import argument, explained, module_text, process, program, run


def test_three_runs_with_three_keys_and_never_a_hit_are_churn() -> None:
    """A module that changes in every run of the same command is churn, with the line that differs."""
    texts = tuple(module_text(constant=f"{n}.0") for n in range(4))
    runs = [
        run(n, process(program("step", text), program("loss", outcome=HIT if n else STORED)))
        for n, text in enumerate(texts)
    ]
    for number, item in ((1, CauseKind.CONSTANT), (2, CauseKind.CHURN), (3, CauseKind.CHURN)):
        (cause,) = explained(*runs[: number + 1], texts=texts).causes
        assert (cause.item, cause.current) == (item, f"dense<{number}.0> : tensor<f32>")


@pytest.mark.parametrize("other", ["hit", "command", "shape"])
def test_what_is_no_churn(other: str) -> None:
    """A hit in one of the three runs, another command, or a cause with a name of its own is no churn."""
    texts = tuple(module_text(constant=f"{n}.0") for n in range(3))
    programs = [program("step", text) for text in texts]
    if other == "hit":
        programs[1] = programs[1]._replace(outcome=HIT)
    if other == "shape":
        programs[2] = program("step", texts[2], arguments=argument(type="f32[61,128]"))
    commands = [("python", "train.py", *(["-n", str(n)] if other == "command" else [])) for n in range(3)]
    runs = [run(n, process(one), command=commands[n]) for n, one in enumerate(programs)]
    (cause,) = explained(*runs, texts=texts).causes
    assert cause.item is (CauseKind.SHAPE if other == "shape" else CauseKind.CONSTANT)
