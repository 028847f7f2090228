"""How a change lies in the runs before."""

from tests.helpers.records import FAST_MATH, argument, explained, process, program, run

USUALLY = (program("init"), program("step"), program("loss"))


def test_sizes_that_vary_from_run_to_run_are_told() -> None:
    """The sizes of an argument over the runs are listed."""
    runs = [
        run(n, process(program("step", f"module {n}", arguments=argument(type=f"f32[{64 - n},128]")))) for n in range(4)
    ]
    (cause,) = explained(*runs).causes
    assert cause.reason == "the 4th size in 4 runs (64 63 62 61)"


def test_a_flag_that_is_new_is_told() -> None:
    """How many runs before had no such flag is told."""
    runs = [run(n, process(*USUALLY)) for n in range(4)]
    changed = process(*(program(one.function, flags=FAST_MATH) for one in USUALLY), flags=FAST_MATH)
    (cause,) = explained(*runs, run(9, changed)).causes
    assert cause.reason == "first in this run; the 4 runs before were without"
