"""Where graphs are read and written: the root that is meant, as it is at each call, and read-only roots."""

import os
import warnings
from pathlib import Path

import pytest

from jcache import GraphCache
from jcache.graphs.roots import Places
from jcache.layout import Kind, Root
from jcache.store.roots import InUse, create_root, put_in_use
from tests.helpers.entries import mounted_read_only, tree
from tests.helpers.graph_functions import half, ramp, same
from tests.helpers.graph_programs import graphs_of


def test_the_root_that_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a root it is the one in use, else the environment's, each time as it is then; a plain one stays plain."""
    cache = GraphCache()
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "jax"))
    assert cache.root == tmp_path / "jax" and not (tmp_path / "jax" / "CACHEDIR.TAG").exists()
    monkeypatch.setenv("JCACHE_DIR", str(tmp_path / "ours"))
    assert cache.root == tmp_path / "ours" and (tmp_path / "ours" / "CACHEDIR.TAG").exists()
    enabled = create_root(tmp_path / "enabled")
    put_in_use(InUse(enabled))
    cache.get_or_build(ramp, 3)
    assert cache.root == enabled.path and len(graphs_of(enabled)) == 1
    put_in_use(None)
    assert cache.root == tmp_path / "ours"


def test_a_relative_root_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that changes its directory, while it builds or later, goes on with the same root."""
    monkeypatch.chdir(tmp_path)
    cache = GraphCache("cache")
    (tmp_path / "elsewhere").mkdir()
    cache.get_or_build(go, "elsewhere")
    cache.get_or_build(half, 4)
    assert cache.get_or_build(half, 4) == 2.0 and cache.stats().hits == 1
    assert len(graphs_of(Root(tmp_path / "cache", plain=False))) == 2
    assert os.listdir(tmp_path / "elsewhere") == []


def go(where: str) -> str:
    os.chdir(where)
    return where


def test_read_only_roots_are_read_through(native: Root, tmp_path: Path) -> None:
    """What the first root lacks is looked for in the others, in their order, and nothing is written there."""
    shared = create_root(tmp_path / "shared")
    team = GraphCache(shared.path)
    team.get_or_build(ramp, 3)
    team.flush()
    before = tree(shared.path)
    cache = GraphCache(native.path, read_only=[tmp_path / "absent", shared.path])
    with pytest.warns(UserWarning, match="There is no cache at"):
        assert same(cache.get_or_build(ramp, 3), ramp(3))
    assert cache.stats().hits == 1 and graphs_of(native) == []
    cache.get_or_build(ramp, 4)
    assert len(graphs_of(native)) == 1 and tree(shared.path) == before


def test_a_root_that_cannot_be_written_still_hits(native: Root, cache: GraphCache) -> None:
    """A read-only root serves; what it lacks is built, and one warning says so."""
    cache.get_or_build(ramp, 3)
    cache.flush()
    with mounted_read_only(native.path):
        fresh = GraphCache(native.path)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert same(fresh.get_or_build(ramp, 3), ramp(3))
        with pytest.warns(UserWarning, match="read-only") as said:
            assert same(fresh.get_or_build(ramp, 4), ramp(4)) and same(fresh.get_or_build(ramp, 5), ramp(5))
        assert len(said) == 1 and said[0].filename == __file__
    stats = fresh.stats()
    assert (stats.hits, stats.builds, stats.stored) == (1, 2, 0)
    assert dict(stats.not_stored) == {"the cache cannot be written": 2}


def test_there_is_no_root(tmp_path: Path) -> None:
    """Where no root can be, functions are called as ever, and one warning says why."""
    (tmp_path / "file").write_text("something else")
    cache = GraphCache(tmp_path / "file")
    with pytest.warns(UserWarning, match="none is stored") as said:
        assert same(cache.get_or_build(ramp, 3), ramp(3)) and cache.load(ramp, 3) is None
    assert len(said) == 1
    assert cache.save(1, ramp, 3) is None and cache.clear() is None and cache.root is None
    assert "no root" in cache.explain(ramp, 3).reason
    assert cache.stats().builds == 1


def test_a_root_that_is_not_in_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where `jcache.enable` could not put its root in use, none is taken instead; one that is named is used as ever."""
    monkeypatch.setenv("JCACHE_DIR", str(tmp_path / "other"))
    put_in_use(InUse(None))
    with pytest.warns(UserWarning, match="not in use: name the one that is meant"):
        assert Places(None, None, ()).now() == (None, ())
    assert not (tmp_path / "other").exists()
    store, _ = Places(str(tmp_path / "named"), None, ()).now()
    assert store is not None and store.root.path == tmp_path / "named"


def test_one_root_has_one_store(native: Root) -> None:
    """Caches of the same root and bound share their store, which is of graphs and has the bound."""
    store, shared = Places(str(native.path), 1000, ()).now()
    assert store is not None and (store.kind, store.max_bytes, shared) == (Kind.GRAPHS, 1000, ())
    assert Places(str(native.path), 1000, ()).now()[0] is store
    assert Places(str(native.path), None, ()).now()[0] is not store
