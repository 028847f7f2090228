"""Ranks and hosts: which request the same executables, and where the others differ first."""

from jcache.explain.baseline import History
from jcache.explain.ranks import Agreement, agreements
from jcache.runs.record import RunRecord
from jcache.vocabulary import CauseKind
from tests.helpers.records import TextPrograms, argument, process, program, run

USUAL = (program("init"), program("step"), program("loss"))


def compared(*runs: RunRecord) -> list[Agreement]:
    return agreements(History(runs), runs[-1], TextPrograms())


def test_one_rank_on_one_host_is_compared_with_nobody() -> None:
    """A program that is not distributed has nothing to agree on, however many processes it has."""
    assert compared(run(1, process(*USUAL), process(program("other")))) == []
    assert compared(run(1)) == []


def test_ranks_agree_whatever_the_order_of_their_programs_is() -> None:
    """Ranks that request the same executables agree, in any order."""
    (group,) = compared(run(1, process(*USUAL), process(*USUAL[::-1], rank=1)))
    assert group.members == (("here", 0), ("here", 1))


def test_the_first_function_that_differs_is_named() -> None:
    """The smaller group has the first function that the larger one did not request, and what differs in it."""
    step = program("step", "other", arguments=argument(type="f32[32,128]"))
    ranks = [process(USUAL[0], step if rank == 1 else USUAL[1], USUAL[2], rank=rank) for rank in range(3)]
    first, other = compared(run(1, *ranks))
    assert (first.members, first.change) == ((("here", 0), ("here", 2)), None)
    assert (other.members, other.function, other.change and other.change.item) == (
        (("here", 1),),
        "step",
        CauseKind.SHAPE,
    )


def test_a_rank_that_ended_early_differs_in_what_it_lacks() -> None:
    """A rank that has not requested all names the first function that it lacks."""
    first, other = compared(run(1, process(*USUAL), process(*USUAL, rank=1), process(*USUAL[:1], rank=2)))
    assert first.members == (("here", 0), ("here", 1))
    assert (other.function, other.change) == ("step", None)


def test_hosts_are_compared_by_their_last_runs_of_the_same_command() -> None:
    """A host that has run the same command before is compared by its last run; other commands do not count."""
    other = process(program("step", topology="there"), host="there")
    runs = [
        run(1, process(program("old"), host="there")),
        run(2, other),
        run(3, process(program("x"), host="third"), command=("other",)),
        run(4, process(program("step"))),
    ]
    first, second = compared(*runs)
    assert (first.members, second.members) == ((("here", 0),), (("there", 0),))
    assert second.change is not None and second.change.item is CauseKind.CPU


def test_the_devices_of_each_rank_are_told_only_where_nothing_else_differs() -> None:
    """Where each rank has devices of its own in its keys, another difference is named, and else the devices."""
    step = program("step", "other", topology="1", arguments=argument(type="f32[32,128]"))
    for one, item in ((step, CauseKind.SHAPE), (program("step", topology="1"), CauseKind.DEVICES)):
        _, other = compared(run(1, process(program("step")), process(one, rank=1)))
        assert other.change is not None and other.change.item is item
