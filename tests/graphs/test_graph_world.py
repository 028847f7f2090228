"""Whether a graph may be served in this world: only once it was compared there, unless the cache is told otherwise."""

import sys
from typing import Any

import pytest

from jcache.formats.envelope import EnvelopeHeader, read_header, seal
from jcache.graphs.graph_world import GraphWorld, GraphWorlds
from jcache.layout import Root
from jcache.runtime.worlds.judgement import Check
from tests.helpers.entries import NOW
from tests.helpers.graph_functions import half, keyed


def header(root: Root, seconds: float = 1.0, created_ns: int = NOW) -> EnvelopeHeader:
    """Return the header of a graph of the call."""
    key = keyed(root, half, 3).key
    return read_header(seal(b"", kind="graphs", name="half", key=key, build_seconds=seconds, created_ns=created_ns))


def world(root: Root, check: Check | None = Check.FIRST) -> GraphWorld:
    """Return what a process that starts now knows of the call."""
    call = keyed(root, half, 3)
    return GraphWorld(root, (), call.key, call.fingerprint, check)


def test_a_graph_is_served_once_it_was_compared(native: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """Later processes in this world are served that very graph, and no later one of its key; other worlds are not."""
    first = world(native)
    assert not first.look_again() and not first.may_serve(header(native))
    first.compared(header(native), same=False, by_chance=False)
    assert first.told == "built and compared, another result"
    for served in (first, world(native)):
        assert served.look_again() and served.may_serve(header(native)) and served.entry == header(native).key
        assert not served.may_serve(header(native, created_ns=NOW + 1))
    monkeypatch.setattr(sys, "argv", ["train.py", "--other"])
    other = world(native)
    assert not other.may_serve(header(native)) and other.judged.new == "arguments changed"
    assert not other.is_same_world(header(native)) and world(native).entry == header(native).key


@pytest.mark.parametrize(
    ("check", "seconds", "expected"),
    [
        (Check.NEVER, 1.0, (True, False)),
        (Check.ALWAYS, 60.0, (False, False)),
        (Check.FIRST, 60.0, (False, False)),
        (None, 9.9, (False, False)),
        (None, 10.0, (True, True)),
    ],
)
def test_what_is_served_without_a_comparison(
    native: Root, check: Check | None, seconds: float, expected: tuple[bool, bool]
) -> None:
    """Everything where no start compares, and by default what takes 10 s or longer to build."""
    graph = header(native, seconds)
    assert (world(native, check).may_serve(graph), world(native, check).is_uncompared(graph)) == expected


def test_a_start_that_always_compares_is_served_by_itself_only(native: Root) -> None:
    """With ``always`` each process builds once, and then is served what it has built."""
    first = world(native, Check.ALWAYS)
    first.compared(header(native), same=False, by_chance=False)
    assert first.may_serve(header(native)) and not world(native, Check.ALWAYS).may_serve(header(native))
    assert world(native, Check.ALWAYS).is_same_world(header(native))


def test_what_may_be_by_chance_is_compared_by_two_more_starts(native: Root) -> None:
    """Where building it asked for the time or the like, the third start that has the same result is the last one."""
    for same in (False, True, True):
        start = world(native)
        assert not start.may_serve(header(native))
        start.compared(header(native), same=same, by_chance=True)
    assert world(native).may_serve(header(native))


def test_a_refusal_is_known_to_later_starts(native: Root) -> None:
    """Once two builds in this world differed, nothing is served in it, and the reason is told."""
    world(native).saved(header(native))
    assert world(native).may_serve(header(native))
    start = world(native)
    start.refuse("two results")
    assert start.judged.refused == world(native).judged.refused == "two results" and not world(native).may_serve(
        header(native)
    )


def test_a_call_has_one_world_for_each_root(native: Root, plain: Root) -> None:
    """What was compared is asked for at the first call of a key, and again where the root is another one by now."""
    worlds: Any = GraphWorlds(None)
    one = worlds.of(keyed(native, half, 3))
    assert worlds.of(keyed(native, half, 3)) is one and worlds.of(keyed(native, half, 4)) is not one
    assert worlds.of(keyed(plain, half, 3)).root == plain
