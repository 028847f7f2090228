"""Which stored trace a call finds, which are set aside, and how a miss is explained."""

from pathlib import Path

import pytest

from jcache.findings import Damage
from jcache.formats.envelope import Codec, seal
from jcache.layout import Root
from jcache.runtime.worlds.judgement import Check, Judgement
from jcache.runtime.worlds.world import World
from jcache.store.quarantine import Quarantine
from jcache.store.roots import create_root
from tests.helpers.entries import NOW, tree
from tests.helpers.traces import ELSEWHERE, HERE, compiled, judged, missed, request, store, stored, traces_of


def test_a_call_finds_the_trace_of_its_key(native: Root) -> None:
    """Where none is stored nothing is found, and there is no reason either."""
    traces = traces_of(native)
    assert traces.find(request(), judged(traces)) is None
    assert store(traces).opened.header.key == request().key
    assert traces.find(request(key=f"step-{'0' * 64}"), Judgement()) is None


def test_read_only_roots_come_after_the_own_one(native: Root, tmp_path: Path) -> None:
    """What the root lacks is found in a shared one, in which nothing changes."""
    shared = create_root(tmp_path / "shared")
    store(traces_of(shared))
    before = tree(shared.path)
    traces = traces_of(native, shared)
    assert stored(traces).opened.root == shared and judged(traces).may_serve
    assert traces.keeping.keep(missed(traces_of(native)), compiled()) is None
    assert stored(traces).opened.root == native and tree(shared.path) == before


@pytest.mark.parametrize("payload", [b"", b"{}", None], ids=["empty", "another grammar", "cut"])
def test_a_damaged_trace_is_set_aside(native: Root, payload: bytes | None) -> None:
    """The reason says so, and the next look finds nothing."""
    traces = traces_of(native)
    path = store(traces).opened.path
    header = stored(traces).opened.header
    fields = {"kind": header.kind, "name": header.name, "key": header.key, "build_seconds": 1.0, "created_ns": NOW}
    path.write_bytes(path.read_bytes()[:-1] if payload is None else seal(payload, **fields, codec=Codec.NONE))  # type: ignore[arg-type]
    with pytest.warns(UserWarning, match="in quarantine now"):
        reason = traces.find(request(), judged(traces))
    assert isinstance(reason, str) and reason.startswith("it is damaged: ") and not path.exists()
    assert traces.find(request(), judged(traces)) is None


def test_a_stale_trace_is_set_aside(native: Root, tmp_path: Path) -> None:
    """A file that tracing read, and that has changed since, is named in the reason."""
    traces = traces_of(native)
    miss = missed(traces)
    miss.build.found[f"file {tmp_path / 'data.json'}"] = "0123"
    assert traces.keeping.keep(miss, compiled()) is None
    explained = traces.explain(request(), None, Check.NEVER)
    assert not explained.hit and "data.json" in explained.changes[0]
    reason = traces.find(request(), judged(traces))
    assert (
        isinstance(reason, str) and reason.startswith("what it was traced from has changed: ") and "data.json" in reason
    )
    assert [record.damage for record in Quarantine(native).records()] == [Damage.STALE]


def test_nothing_is_served_in_a_world_that_cannot_be_told(native: Root) -> None:
    """What is unknown of the world is the reason, unless no start is to compare."""
    traces, unknown = traces_of(native), World(HERE.components, "a source cannot be read")
    store(traces)
    assert traces.judge(request(), unknown, Check.FIRST) == Judgement(refused="a source cannot be read")
    assert traces.judge(request(), unknown, Check.NEVER).may_serve


def test_each_function_that_asks_for_a_key_has_a_world(native: Root) -> None:
    """The same call of the second such function of a process is another world: something may have changed meanwhile."""
    traces = traces_of(native)
    one, again, second = (traces.world(request(), number) for number in (1, 1, 2))
    assert one.digest == again.digest != second.digest
    assert one.components["resolution"] == "1" and one.components.items() >= {("resolution", "1")}


def test_a_call_is_explained_as_it_would_be_served(native: Root) -> None:
    """A reason that is known comes first; else it is a hit where it was compared, and a miss that says what is new."""
    traces = traces_of(native)
    assert traces.explain(request(), None, Check.FIRST).reason.startswith("nothing of this name")
    store(traces, world=traces.world(request(), 1))
    before = tree(native.path)
    assert traces.explain(request(), None, Check.FIRST).hit
    refused = traces.explain(request(), "it has effects", Check.FIRST)
    assert (refused.hit, refused.reason, refused.key) == (False, "it has effects", request().key)
    assert not traces.explain(request(), None, Check.ALWAYS).hit
    assert tree(native.path) == before


def test_what_is_new_in_the_world_is_why_a_call_is_no_hit(native: Root) -> None:
    """A trace that was compared in other worlds only is found, is no hit, and is made again."""
    traces = traces_of(native)
    store(traces, world=ELSEWHERE)
    found = traces.explain(request(), None, Check.FIRST)
    assert not found.hit and "it is made again and compared at the next start" in found.reason
