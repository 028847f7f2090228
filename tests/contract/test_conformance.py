"""JAX's expectations of its cache, asserted for JAX's own ``LRUCache`` and for jcache's replacement."""

import gc
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jcache.runtime.lru_cache import PlainDirectoryCache
from tests.contract.sides import ALWAYS_SIDECARS, jax_version
from tests.helpers.entries import executable, files_of, key, recency_of
from tests.helpers.waiting import LIMIT_S, tick

pytestmark = pytest.mark.jax

Make = Callable[..., Any]


def _jax(directory: Path, max_size: int = -1) -> Any:
    from jax._src.lru_cache import LRUCache

    return LRUCache(str(directory), max_size=max_size, lock_timeout_secs=LIMIT_S)


def _ours(directory: Path, max_size: int = -1) -> Any:
    return PlainDirectoryCache(str(directory), max_size=max_size, lock_timeout_secs=LIMIT_S)


@pytest.fixture(params=[_jax, _ours], ids=["JAX", "jcache"])
def make(request: pytest.FixtureRequest) -> Make:
    """Makes a cache of a directory."""
    made: Make = request.param
    return made


names = pytest.mark.parametrize("name", [str, lambda text: key(ord(text))], ids=["any", "real"])
bounds = pytest.mark.parametrize("max_size", [-1, 10**6], ids=["unbounded", "bounded"])


@bounds
@names
def test_what_is_put_is_got(tmp_path: Path, make: Make, max_size: int, name: Callable[[str], str]) -> None:
    """A missing key gives None, a stored one its bytes, under the file name that JAX expects; empty bytes as well."""
    cache = make(tmp_path / "made" / "anew", max_size)
    assert cache.get(name("a")) is None
    for text, data in (("a", executable()), ("b", b""), ("c", b"not an executable")):
        cache.put(name(text), data)
        assert cache.get(name(text)) == data
    assert set(files_of(tmp_path / "made" / "anew")) == {name("a"), name("b"), name("c")}
    assert cache._path == cache.path == tmp_path / "made" / "anew"


@bounds
def test_an_empty_key_is_refused(tmp_path: Path, make: Make, max_size: int) -> None:
    """`get` and `put` refuse an empty key in JAX's words."""
    cache = make(tmp_path, max_size)
    with pytest.raises(ValueError, match="key cannot be empty"):
        cache.put("", b"a")
    with pytest.raises(ValueError, match="key cannot be empty"):
        cache.get("")


@bounds
def test_an_entry_is_never_overwritten(tmp_path: Path, make: Make, max_size: int) -> None:
    """The second put of a key does nothing, whatever its value."""
    cache = make(tmp_path, max_size)
    cache.put("a", b"first")
    cache.put("a", b"second")
    assert cache.get("a") == b"first"


@names
def test_the_least_recently_used_go(tmp_path: Path, make: Make, name: Callable[[str], str]) -> None:
    """Every hit counts as a use, and no more entries are evicted than necessary."""
    cache = make(tmp_path, 2)
    cache.put(name("a"), b"a")
    cache.put(name("b"), b"b")
    for text, evicted in (("c", "a"), ("d", "c"), ("e", "d")):
        tick()
        assert cache.get(name("b")) == b"b"
        tick()
        cache.put(name(text), b"x")
        assert cache.get(name(evicted)) is None
        assert set(files_of(tmp_path)) == {name("b"), name(text)}


@names
def test_equal_recency_goes_by_key(tmp_path: Path, make: Make, name: Callable[[str], str]) -> None:
    """Entries of one and the same time go in the order of their keys."""
    cache = make(tmp_path, 3)
    for text in "abc":
        cache.put(name(text), b"x")
        (tmp_path / f"{name(text)}-atime").write_bytes((1).to_bytes(8, "little"))
    tick()
    again = make(tmp_path, 3)
    again.put(name("d"), b"xx")
    assert set(files_of(tmp_path)) == {sorted(name(text) for text in "abc")[2], name("d")}


def test_empty_values_take_no_room(tmp_path: Path, make: Make) -> None:
    """Empty values evict nothing, and are evicted in their turn."""
    cache = make(tmp_path, 1)
    cache.put("a", b"a")
    cache.put("b", b"")
    assert set(files_of(tmp_path)) == {"a", "b"}
    tick()
    cache.get("a")
    cache.put("c", b"c")
    assert set(files_of(tmp_path)) == {"c"}


def test_the_order_survives_the_process(tmp_path: Path, make: Make) -> None:
    """Another cache object for the same directory has the same order of use."""
    cache = make(tmp_path, 2)
    cache.put("a", b"a")
    del cache
    gc.collect()
    cache = make(tmp_path, 2)
    assert cache.get("a") == b"a"
    cache.put("b", b"b")
    tick()
    cache.get("a")
    cache.put("c", b"c")
    assert set(files_of(tmp_path)) == {"a", "c"}


@pytest.mark.parametrize("max_size", [0, 3])
def test_what_is_too_large_is_warned_of(tmp_path: Path, make: Make, max_size: int) -> None:
    """A value that is too large causes JAX's UserWarning each time and is not stored; smaller ones still are."""
    cache = make(tmp_path, max_size)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        cache.put("a", b"four")
        cache.put("b", b"four")
        cache.put("c", b"")
    expected = "Cache value for key 'a' of size 4 bytes exceeds the maximum cache size of {} bytes"
    assert [str(w.message) for w in said] == [
        expected.format(max_size),
        expected.replace("'a'", "'b'").format(max_size),
    ]
    assert {w.category for w in said} == {UserWarning}
    assert set(files_of(tmp_path)) == {"c"}


def test_recency_is_written_with_a_bound_only(tmp_path: Path, make: Make) -> None:
    """With a bound, each entry has a sidecar of 8 bytes and there is a lock file; without one, there is neither."""
    bounded, unbounded = make(tmp_path / "b", 100), make(tmp_path / "u", -1)
    before = time.time_ns()
    for cache in (bounded, unbounded):
        cache.put("a", b"a")
        assert cache.get("a") == b"a"
    assert before <= recency_of(tmp_path / "b", "a") <= time.time_ns()
    assert (tmp_path / "b" / ".lockfile").exists() and not (tmp_path / "u" / ".lockfile").exists()
    if make is _ours or jax_version() > ALWAYS_SIDECARS:
        assert not list((tmp_path / "u").glob("*-atime"))


@pytest.mark.smoke
@pytest.mark.parametrize(("writer", "reader"), [(_jax, _ours), (_ours, _jax)], ids=["JAX first", "jcache first"])
@bounds
def test_one_directory_for_both(tmp_path: Path, max_size: int, writer: Make, reader: Make) -> None:
    """Each cache serves entries of the other one at once, and evicts them in their turn."""
    one, other = writer(tmp_path, max_size), reader(tmp_path, max_size)
    one.put(key(1), executable())
    assert other.get(key(1)) == executable()
    other.put(key(2), executable(5))
    assert one.get(key(2)) == executable(5)
    if max_size > 0:
        small = reader(tmp_path, len(executable()))
        small.put(key(3), executable())
        assert set(files_of(tmp_path)) == {key(3)}


PROGRAM = """
import sys, warnings
import jax, jax.numpy as jnp
import jax._src.compilation_cache as cc
warnings.simplefilter("error")
if sys.argv[2] == "jcache":
    from jcache.runtime.lru_cache import PlainDirectoryCache
    cc.LRUCache = PlainDirectoryCache
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
hits = []
jax.monitoring.register_event_listener(lambda event, **_: hits.append(event) if event.endswith("cache_hits") else None)
print(float(jax.jit(lambda x: (x @ x.T).sum())(jnp.ones((8, 4)))), len(hits), type(cc._cache).__name__)
cc.reset_cache()
"""


@pytest.mark.full
@pytest.mark.smoke
def test_a_program_runs_with_it(tmp_path: Path) -> None:
    """With jcache's cache, JAX misses, stores and hits as with its own, and shares a directory with it."""
    from tests.helpers.jax_entries import run_python

    said = [run_python("-c", PROGRAM, str(tmp_path), side).split() for side in ("jcache", "jcache", "JAX")]
    assert [words[0] for words in said] == ["256.0"] * 3
    assert said[0][1] == "0" and said[1][1] == said[2][1] != "0"
    assert [words[2] for words in said] == ["PlainDirectoryCache", "PlainDirectoryCache", "LRUCache"]
