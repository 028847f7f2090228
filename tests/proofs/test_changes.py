"""No change of a program, of its libraries or of its surroundings is answered with what was stored before it."""

from pathlib import Path
from random import Random

import pytest

from tests.proofs.changes import DATA, Case, cases, runnable, tried

pytestmark = [pytest.mark.jax, pytest.mark.whole]
PARTS = 3  # which several workers can run at once
SAMPLE = 5  # cases of each part


@pytest.mark.parametrize("part", range(PARTS))
def test_no_change_is_served_stale(part: int, tmp_path: Path, chance: Random, full: bool) -> None:
    """The answer of a changed program is that of `jax.jit` or plain Python, in each case and under each entry."""
    pairs = runnable(cases())[part::PARTS]
    found = [
        tried(case, kind, tmp_path / f"{case.name}-{kind}")
        for case, kind in (pairs if full else chance.sample(pairs, SAMPLE))
    ]
    wrong = [f"{each.kind} {each.name}: {each.error or each.stale}" for each in found if each.error or each.stale]
    assert not wrong, "\n".join(wrong)


@pytest.mark.smoke
def test_the_cases_are_as_many_as_were_promised() -> None:
    """There are over 120 cases of different names, in nine categories; each changes something, or chance does."""
    named = cases()
    assert len({case.name for case in named}) == len(named) > 120
    assert len(named) == sum(path.read_text().count("\n**") for path in DATA.glob("*.md"))
    assert len({case.category for case in named}) == 9
    assert all(is_changed(case) for case in named)


def is_changed(case: Case) -> bool:
    return "chance" in case.options or "||" in case.text or bool({"cwd", "env", "argv", "host"} & case.options.keys())
