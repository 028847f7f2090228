"""Random programs that call back to the host: `jcache.jit` does what `jax.jit` does, in every later process."""

import random
from pathlib import Path

import pytest

from tests.proofs.called_back import CALLED, Told, program, run

pytestmark = [pytest.mark.jax, pytest.mark.whole]
BATCH = 20


@pytest.mark.parametrize("check", ["first", "never"])
def test_each_callback_is_the_one_that_tracing_would_give(
    tmp_path: Path, chance: random.Random, full: bool, check: str
) -> None:
    """What it is called with, and the objects that it changes, are those of the program: cold, warm and changed.

    Each program is served when it starts again.
    """
    wrong, refused = [], []
    for number in range(50 if full else 1):
        programs = [program(chance, f"case_{at}") for at in range(BATCH)]
        place = tmp_path / str(number)
        for is_changed in (False, True):
            right = run(place, programs, "jax", check, is_changed=is_changed)
            first, second = (run(place, programs, "jcache", check, is_changed=is_changed) for _ in range(2))
            for each in programs:
                told: tuple[Told, ...] = (first[each.name], second[each.name])
                text = f"\n--- {each.name}\n{each.rendered(is_changed)}"
                wrong += [f"{given.answer} in place of {right[each.name].answer}{text}" for given in told
                          if given.answer != right[each.name].answer]  # fmt: skip
                refused += [f"{told[1].unserved}{text}"] if told[1].unserved and not each.may_be_refused else []
    assert not wrong, "\n\n".join(wrong)
    assert not refused, "\n\n".join(refused)


@pytest.mark.smoke
def test_every_program_is_valid_in_both_states() -> None:
    """Each way to make a callback comes up."""
    programs = [program(random.Random(seed), "case") for seed in range(300)]
    for each in programs:
        for is_changed in (False, True):
            compile(each.rendered(is_changed), each.name, "exec")
    assert all(any(called in each.rendered(False) for each in programs) for called in ("append", "partial", "both_"))
    assert len(CALLED) > 20
