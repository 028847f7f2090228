"""The parts of keys, and their values."""

from jcache.explain import parts
from jcache.explain.change import Seen
from tests.helpers.records import FLAGS, process, program, run, sha256


def test_parts_that_one_side_lacks_differ() -> None:
    """A part that only one version of JAX hashes differs; where nothing is recorded of one side, nothing is known."""
    one, other = program(), program(parts={"custom_hook": "x"})
    assert parts.differing(one, one) == frozenset()
    assert parts.differing(one, other) == {"custom_hook"}
    assert parts.differing(one, other._replace(parts={})) == frozenset()


def test_values_are_read_or_else_the_hashes() -> None:
    """The recorded values of a part are returned, and the beginnings of its hashes where one is not recorded."""
    sides = [process(program(flags=flags), flags=flags) for flags in ("--a", "--b")]
    first, second = (Seen(run(1, side), side, side.programs[0]) for side in sides)
    assert parts.values(first, second, FLAGS) == ("--a", "--b")
    without = second._replace(process=sides[1]._replace(values={}))
    assert parts.value(without, FLAGS) is None
    assert parts.values(first, without, FLAGS) == (sha256("--a")[:8], sha256("--b")[:8])
