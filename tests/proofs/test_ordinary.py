"""Programs as users write them start warm, but for a few."""

from pathlib import Path
from random import Random

import pytest

from tests.proofs.ordinary import DATA, programs, started

pytestmark = pytest.mark.jax
SAMPLE = 15
MOST_COLD = 6 / 81  # of the programs


def test_ordinary_programs_are_warm_at_their_third_start(tmp_path: Path, chance: Random, full: bool) -> None:
    """Of small programs as users write them at most six in 81 are not served at their third start."""
    chosen = programs()
    chosen = chosen if full else chance.sample(chosen, SAMPLE)
    cold = [each for each in (started(case, tmp_path) for case in chosen) if not each.is_warm]
    assert len(cold) <= max(1, round(MOST_COLD * len(chosen))), "\n".join(
        f"{each.name}: {each.reason}" for each in cold
    )


@pytest.mark.smoke
def test_the_programs_are_as_many_as_were_promised() -> None:
    """There are 81 programs at least, of different names, each of which is read."""
    headings = sum(path.read_text().count("\n**") for path in DATA.glob("*.md"))
    assert headings >= 81
    assert len({case.name for case in programs()}) == len(programs()) <= headings
