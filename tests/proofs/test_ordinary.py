"""Programs as users write them start warm, but for a few."""

from pathlib import Path
from random import Random

import pytest

from tests.proofs.ordinary import DATA, programs, started

pytestmark = [pytest.mark.jax, pytest.mark.whole]
PARTS = 4  # which several workers can run at once
SAMPLE = 2  # programs of each part
COLD = {  # what they ask for while they are traced, so that their second and third start compare
    "class_with_run_id": "a random text in a global, so that each start has another key",
    "class_with_start_time": "time",
    "elapsed_in_decorator": "time",
    "process_number_logged": "process",
    "progress_printed": "time",
    "time_printed_while_traced": "time",
    "timer_context": "time",
}
MOST_COLD = 6 / 81  # of the programs


@pytest.mark.parametrize("part", range(PARTS))
def test_ordinary_programs_are_warm_at_their_third_start(part: int, tmp_path: Path, chance: Random, full: bool) -> None:
    """Small programs as users write them are served at their third start, but for those that are named here."""
    chosen = programs()[part::PARTS]
    chosen = chosen if full else chance.sample(chosen, SAMPLE)
    cold = [each for each in (started(case, tmp_path) for case in chosen) if not each.is_warm]
    assert {each.name for each in cold} <= COLD.keys(), "\n".join(f"{each.name}: {each.reason}" for each in cold)


def test_what_a_library_keeps_needs_no_further_start(tmp_path: Path) -> None:
    """The second of two functions whose library keeps a number in a closure is served at the second start, too."""
    (case,) = programs(["library_keeps_a_number"])
    assert started(case, tmp_path, starts=2).is_warm


@pytest.mark.smoke
def test_the_programs_are_as_many_as_were_promised() -> None:
    """There are 81 programs at least, of different names, each of which is read."""
    headings = sum(path.read_text().count("\n**") for path in DATA.glob("*.md"))
    assert headings >= 81 and len(COLD) <= round(MOST_COLD * headings)
    assert len({case.name for case in programs()}) == len(programs()) <= headings
