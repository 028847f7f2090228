"""Causes of misses are added up over runs: each miss once."""

from hypothesis import given, strategies as st

from jcache.explain.baseline import History
from jcache.explain.cause_history import causes_of
from jcache.explain.evidence import NoEvidence
from jcache.runs.calls import HIT, STORED
from jcache.runs.record import RunRecord
from jcache.vocabulary import CauseKind
from tests.helpers.records import FAST_MATH, SECOND, START, TextPrograms, argument, process, program, run

PROGRAMS = st.builds(
    lambda name, flags, size, outcome: program(
        name, f"{name} {size}", flags=flags, arguments=argument(type=f"f32[{size}]"), outcome=outcome
    ),
    st.sampled_from(["step", "loss", "init"]),
    st.sampled_from(["", FAST_MATH]),
    st.integers(1, 4),
    st.sampled_from([STORED, STORED, HIT]),
)


def causes(runs: list[RunRecord], wanted: set[str] | None = None) -> dict[tuple[str, str], tuple[int, int, int]]:
    """Return misses, runs and the last run of each cause."""
    history = History(runs)
    found = causes_of(history, wanted or {one.id for one in runs}, TextPrograms(), NoEvidence())
    assert [one.seconds for one in found] == sorted((one.seconds for one in found), reverse=True)
    return {(str(one.item), one.name): (one.misses, one.runs, (one.last_ns - START) // SECOND) for one in found}


def test_causes_of_several_runs() -> None:
    """A cause that came in two runs is one line, with the time of the later one."""
    usual = run(1, process(program("step"), program("loss")))
    flagged = run(2, process(program("step", flags=FAST_MATH), program("loss", flags=FAST_MATH), flags=FAST_MATH))
    other = run(3, process(program("step", "other", arguments=argument(type="f32[61,128]"))))
    found = causes([usual, flagged, other])
    assert found[str(CauseKind.FIRST_TIME), ""] == (2, 1, 1)
    assert found[str(CauseKind.XLA_FLAGS), ""][:2] == (2, 1)
    assert causes([usual, flagged], {flagged.id}) == {(str(CauseKind.XLA_FLAGS), ""): (2, 1, 2)}


@given(st.lists(st.lists(PROGRAMS, max_size=4), max_size=5))
def test_each_miss_counts_once(found: list[list[object]]) -> None:
    """Over any runs the causes' misses are all misses, and no cause has more runs than there are."""
    runs = [run(number, process(*programs)) for number, programs in enumerate(found)]  # type: ignore[arg-type]
    missed = sum(one.outcome == STORED for each in runs for one in each.processes[0].programs)
    added = causes(runs).values()
    assert sum(misses for misses, _, _ in added) == missed
    assert all(1 <= number <= len(runs) for _, number, _ in added)
