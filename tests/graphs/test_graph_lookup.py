"""Which stored graphs are served, which are set aside, and how a miss is explained."""

import pickle
import sys
from pathlib import Path

import pytest

from jcache import GraphCache
from jcache.findings import Damage
from jcache.formats.envelope import Codec, seal
from jcache.layout import Kind, Root
from jcache.store.quarantine import Quarantine
from jcache.store.roots import create_root
from tests.helpers import graph_functions
from tests.helpers.entries import tree
from tests.helpers.graph_functions import Hidden, ramp, same, shown
from tests.helpers.graph_programs import graph_file, graphs_of


@pytest.mark.parametrize("position", [0, 15, 100, 400, -1])
def test_a_changed_bit(native: Root, cache: GraphCache, position: int) -> None:
    """A damaged graph is not served: it goes to quarantine, and is built and stored anew in the same call."""
    cache.get_or_build(ramp, 3)
    path = graph_file(native)
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)
    with pytest.warns(UserWarning, match="in quarantine now"):
        assert same(cache.get_or_build(ramp, 3), ramp(3))
    (record,) = Quarantine(native).records()
    assert record.damage is Damage.SEAL and record.kind is Kind.GRAPHS
    assert same(cache.get_or_build(ramp, 3), ramp(3)) and cache.stats().hits == 1


@pytest.mark.full
@pytest.mark.parametrize("what", ["empty", "directory", "link", "another graph", "another version"])
def test_something_else_has_its_name(native: Root, cache: GraphCache, tmp_path: Path, what: str) -> None:
    """What is no graph of the key is set aside, not followed and not served."""
    cache.get_or_build(ramp, 3)
    path = graph_file(native)
    other = seal(b"", kind="graphs", name="x", key=f"x-{'0' * 64}", build_seconds=1.0, created_ns=1, codec=Codec.NONE)
    content = {"empty": b"", "another graph": other, "another version": b"\x89jcache\n\0\0\0\2" + other[12:]}
    data = path.read_bytes()
    path.unlink()
    if what == "directory":
        path.mkdir()
    elif what == "link":
        (tmp_path / "real").write_bytes(data)
        path.symlink_to(tmp_path / "real")
    else:
        path.write_bytes(content[what])
    with pytest.warns(UserWarning, match="was damaged"):
        assert same(cache.get_or_build(ramp, 3), ramp(3))
    assert same(cache.get_or_build(ramp, 3), ramp(3)) and cache.stats().hits == 1


def test_a_damaged_graph_of_a_read_only_root(native: Root, tmp_path: Path) -> None:
    """It is passed over and left, with one warning."""
    shared = create_root(tmp_path / "shared")
    GraphCache(shared.path).get_or_build(ramp, 3)
    path = graph_file(shared)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="is not used"):
        assert same(GraphCache(native.path, read_only=shared.path).get_or_build(ramp, 3), ramp(3))
    assert path.exists() and len(graphs_of(native)) == 1


def test_explaining(cache: GraphCache, native: Root) -> None:
    """It says whether a call is a hit, and else what differs from the nearest graph; it builds and writes nothing."""
    assert cache.explain(ramp, 3).reason.startswith("nothing of this name")
    cache.get_or_build(ramp, 3)
    cache.get_or_build(ramp, 4, theta=2.0)
    cache.flush()
    before = tree(native.path)
    assert cache.explain(ramp, 3).hit and "hit" in str(cache.explain(ramp, 3))
    missed = cache.explain(ramp, 4, theta=3.0)
    assert not missed.hit and missed.nearest is not None and missed.nearest in graphs_of(native)
    assert len(missed.changes) == 1 and "2.0 → 3.0" in missed.changes[0] and "theta" in str(missed)
    assert pickle.loads(pickle.dumps(missed)) == missed
    assert tree(native.path) == before


def test_explaining_a_changed_helper_and_global(cache: GraphCache, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a function reaches is named."""
    cache.get_or_build(ramp, 3)
    module = graph_functions
    monkeypatch.setattr(module, "FACTOR", 4)
    (change,) = cache.explain(ramp, 3).changes
    assert "FACTOR" in change and "3 → 4" in change
    monkeypatch.setattr(module, "FACTOR", 3)
    monkeypatch.setattr(module, "half", third)
    assert any("half" in change or "third" in change for change in cache.explain(ramp, 3).changes)
    assert cache.get_or_build(ramp, 3)["half"] == 1.0
    monkeypatch.undo()
    assert cache.get_or_build(ramp, 3)["half"] == 1.5 and cache.stats().hits == 1


def third(n: int) -> float:
    return n / 3


def size_of(path: Hidden) -> int:
    return len(Path(path.value).read_bytes())


def test_a_graph_whose_file_has_changed_is_stale(cache: GraphCache, native: Root, tmp_path: Path) -> None:
    """What building it read is read again: a changed file makes it stale, which is set aside without a warning."""
    (tmp_path / "data").write_bytes(b"abc")
    assert cache.get_or_build(size_of, Hidden(str(tmp_path / "data"))) == 3
    assert cache.load(size_of, Hidden(str(tmp_path / "data"))) == 3
    (tmp_path / "data").write_bytes(b"abcd")
    assert cache.get_or_build(size_of, Hidden(str(tmp_path / "data"))) == 4
    assert [record.damage for record in Quarantine(native).records()] == [Damage.STALE]
    assert cache.load(size_of, Hidden(str(tmp_path / "data"))) == 4 and cache.stats().builds == 2


def test_a_graph_of_an_untold_world_is_not_served(
    cache: GraphCache, native: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under other arguments of the command line it is no hit and stays where it is; `explain` says what is new."""
    cache.get_or_build(shown, Hidden(1))
    monkeypatch.setattr(sys, "argv", ["train.py", "--other"])
    other = GraphCache(native.path)
    assert other.load(shown, Hidden(1)) is None and not other.explain(shown, Hidden(1)).hit
    assert "arguments changed" in other.explain(shown, Hidden(1)).reason
    assert len(graphs_of(native)) == 1 and Quarantine(native).records() == []
