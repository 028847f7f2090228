"""What a miss is compared with."""

import pytest

from jcache.explain.baseline import History, program_of
from jcache.runs.calls import HIT
from jcache.runs.record import Argument
from jcache.vocabulary import CauseKind
from tests.helpers.records import FAST_MATH, argument, explained, module_text, process, program, run

USUALLY = (program("init"), program("step"), program("loss"))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("python", "train.py", "--lr", "1"), ("train.py",)),
        (("/usr/bin/python3.11", "-u", "train.py"), ("train.py",)),
        (("python", "-m", "torax.run", "x"), ("-m", "torax.run")),
        (("python", "-c", "import jax"), ("-c", "import jax")),
        (("./train", "x"), ("./train",)),
        ((), ()),
    ],
)
def test_the_program_of_a_command(command: tuple[str, ...], expected: tuple[str, ...]) -> None:
    """The program of a command is its script or module, whatever its arguments are."""
    assert program_of(command) == expected


def test_a_run_is_compared_with_the_latest_of_the_same_command() -> None:
    """The same command comes before the same program; a run without programs does not count."""
    runs = [
        run(1, process(*USUALLY)),
        run(2, process(*USUALLY), command=("python", "train.py", "-v")),
        run(3, process()),
        run(4, process(*USUALLY), command=("python", "eval.py")),
    ]
    history = History(runs)
    now = run(5, process(*USUALLY))
    assert history.previous(now) == runs[0]
    assert history.previous(now._replace(command=("python", "train.py", "-q"))) == runs[1]
    assert history.previous(now._replace(command=("python", "other.py"))) is None


def test_a_renamed_function_is_found_by_its_module() -> None:
    """A function that has another name, and the same program, is compared with what it was before."""
    old, new = module_text(), module_text(name="jit_train_step")
    found = explained(
        run(1, process(program("step", old), program("loss"))),
        run(2, process(program("train_step", new))),
        texts=(old, new),
    )
    (cause,) = found.causes
    assert (cause.item, cause.current, cause.baseline) == (CauseKind.NAMES, "@train_step", "@step")


def test_a_miss_is_compared_with_what_is_nearest() -> None:
    """Where the run before differs in two ways and an older one in one, the older one is the baseline of a miss."""
    flagged = process(*(program(one.function, flags=FAST_MATH) for one in USUALLY), flags=FAST_MATH)
    step = program("step", "another", arguments=argument(type="f32[61,128]"))
    now = process(USUALLY[0]._replace(outcome=HIT), step)
    runs = [run(1, process(*USUALLY)), run(2, flagged), run(3, now)]
    (cause,) = explained(*runs).causes
    assert (cause.item, cause.compared and cause.compared.run) == (CauseKind.SHAPE, runs[0])
    (strict,) = explained(*runs, baseline=runs[1]).causes
    assert (strict.item, strict.compared and strict.compared.run) == (CauseKind.XLA_FLAGS, runs[1])


def test_programs_of_one_name_are_paired_by_what_differs_least() -> None:
    """Of several programs of one name, a miss is compared with the nearest that is not in the run itself."""
    sizes = ("64,128", "8,8", "3")
    before = [program("f", size, arguments=(Argument("x", f"f32[{size}]"),)) for size in sizes]
    other = program("f", "7", arguments=(Argument("x", "f32[7]"),))
    now = process(before[0]._replace(outcome=HIT), before[1]._replace(outcome=HIT), other)
    (cause,) = explained(run(1, process(*before)), run(2, now)).causes
    assert (cause.current, cause.baseline) == ("f32[7]", "f32[3]")


def test_of_very_many_programs_of_a_name_those_at_the_same_place_are_compared() -> None:
    """Where a name has more programs than are compared, each miss is paired with the one at its place."""
    before, now = (
        [program("f", f"m{n}", flags=flags, arguments=(Argument("x", f"f32[{n}]"),)) for n in range(150)]
        for flags in ("", FAST_MATH)
    )
    (cause,) = explained(run(1, process(*before)), run(2, process(*now, flags=FAST_MATH))).causes
    assert (cause.item, cause.misses) == (CauseKind.XLA_FLAGS, 150)
    assert cause.compared is not None and cause.compared.program.arguments == cause.programs[0].program.arguments
