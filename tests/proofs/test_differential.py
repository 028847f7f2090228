"""Random programs and random changes of them: `jcache.jit` and `jcache.graph` against `jax.jit` and plain Python."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.proofs.generated import BATCH, SORTS, Batch, Program, Told

pytestmark = pytest.mark.jax
RIGHT = {"jit": "jax.jit", "graph": "plain Python"}


def test_no_answer_is_stale_and_no_program_is_refused(tmp_path: Path, chance: random.Random, full: bool) -> None:
    """Of random programs none has a stale answer, neither when it starts again nor when something has changed; each
    is served when it starts again in a world that is as it was.
    """
    wrong: list[str] = []
    for number in range((20_000 if full else 200) // BATCH + 1):
        batch = Batch(chance, SORTS[number % len(SORTS)], tmp_path / str(number))
        wrong += failures(batch)
    assert not wrong, "\n\n".join([f"{len(wrong)} failures", *wrong])


def failures(batch: Batch) -> Iterator[str]:
    """Run a batch cold, again, changed and as before, and yield each failure with its program."""
    cold, warm = batch.run(False), batch.run(False, compared=False)
    changed = batch.run(True)
    for each in batch.programs:
        for kind, right in RIGHT.items():
            for failure in _failures(kind, right, cold[each.name], warm[each.name], changed[each.name]):
                yield f"{kind}: {failure}\n{each.told()}"


def _failures(kind: str, right: str, cold: Told, warm: Told, changed: Told) -> Iterator[str]:
    for name, told, wanted in (("cold", cold, cold), ("warm", warm, cold), ("changed", changed, changed)):
        if told.answers[kind] != wanted.answers[right]:
            yield f"{name}: {told.answers[kind]} in place of {wanted.answers[right]}"
    if warm.unserved[kind]:
        yield f"not served again: {warm.unserved[kind]}"


@pytest.mark.smoke
def test_programs_are_the_same_for_a_seed_and_change_once(tmp_path: Path) -> None:
    """A seed gives the same programs each time; each is valid Python in both states, which differ in one text."""
    for sort in dict.fromkeys(SORTS):
        one, other = (Batch(random.Random(5), sort, tmp_path / f"{sort}{n}").programs for n in range(2))
        assert one == other
        for each in one:
            assert len(_changed(each)) == (each.mutation is not None)


def _changed(program: Program) -> list[str]:
    before, after = program.rendered(False), program.rendered(True)
    for name in before:
        if name.endswith(".py"):
            compile(before[name], name, "exec")
            compile(after[name], name, "exec")
    return [name for name in before if before[name] != after[name]]
