"""What `jcache.enable` changes in JAX, what holds meanwhile, and how it is put back."""

from pathlib import Path

import pytest

from tests.helpers.jax_programs import run
from tests.runtime.test_enable import PRELUDE, QUIET, clean, executables, said

pytestmark = pytest.mark.jax


def test_too_late_is_told(tmp_path: Path) -> None:
    """If JAX has used another directory, a warning says so, and later programs are stored in the root."""
    program = """
import jax
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
compute(5)
enabled = enable(sys.argv[2])
compute(6)
show(enabled.warnings, counts())
"""
    (warning, overridden), counts = said(program, tmp_path / "theirs", tmp_path / "ours")
    assert str(tmp_path / "theirs") in warning and "before the first computation" in warning
    assert "The program has set jax_compilation_cache_dir" in overridden
    assert counts[1] == len(executables(tmp_path / "ours")) > 0


def test_what_the_program_changes_meanwhile_is_put_right(tmp_path: Path) -> None:
    """Enabling again is only idle as long as all is still in effect."""
    program = """
import jax
first = enable(sys.argv[1])
jax.config.update("jax_compilation_cache_dir", sys.argv[1] + "-other")
second = enable(sys.argv[1])
show(compute(), counts(), jax.config.jax_compilation_cache_dir)
"""
    _, cold, directory = said(program, tmp_path / "root")
    assert directory == str(tmp_path / "root" / "executables") and cold[1] > 0


def test_a_bound_that_is_set_later_holds(tmp_path: Path) -> None:
    """A bound that is set later holds from the next put on; -1 removes it."""
    program = """
import jax
first = enable(sys.argv[1])
compute(2); compute(3)
free = len(keys())
jax.config.update("jax_compilation_cache_max_size", max(path.stat().st_size for path in files()) + 100)
compute(4); compute(5)
bounded, told = len(keys()), enable(sys.argv[1]).max_bytes == jax.config.jax_compilation_cache_max_size
jax.config.update("jax_compilation_cache_max_size", -1)
compute(6); compute(7)
show(first.max_bytes, free, bounded, told, len(keys()))
"""
    prelude = """
def files():
    return list((pathlib.Path(sys.argv[1]) / "executables").glob("*-cache"))
keys = files
import pathlib
"""
    first, free, bounded, told, after = said(prelude + program, tmp_path)
    assert first is None and free >= 2 and bounded == 1 and told and after >= 3
    clean(tmp_path)


def test_what_another_session_has_cached_is_not_called_uncached(tmp_path: Path) -> None:
    """A second `enable` reports no programs of the earlier session as uncached."""
    program = """
import jax
compute(2)
late = enable(sys.argv[1]).notes
compute(3)
again = enable(sys.argv[1], max_size="1GiB")
compute(4)
elsewhere = enable(sys.argv[1] + "-2")
show(late, again.notes, again.warnings, elsewhere.warnings)
"""
    late, again, warned, elsewhere = said(program, tmp_path / "root")
    assert any("not cached" in note for note in late) and not any("not cached" in note for note in again)
    assert warned == elsewhere == []


def test_a_jax_with_other_internals_is_configured(tmp_path: Path) -> None:
    """If jcache does not know this JAX, it configures JAX's own cache, and a warning says so."""
    program = """
import jax
from jax._src import compilation_cache
if not hasattr(compilation_cache, "_cache_used"):
    raise SystemExit("rename this")
compilation_cache._renamed = compilation_cache.__dict__.pop("_cache_used")
enabled = jcache.enable(sys.argv[1])
compilation_cache._cache_used = False
compute()
show(enabled.store, enabled.warnings, counts(), type(compilation_cache._cache).__name__)
jcache.disable()
assert jax.config.jax_compilation_cache_dir is None
"""
    store, (warning,), cold, cache = run(PRELUDE + program, tmp_path, env=QUIET).value
    assert (store, cache) == ("jax", "LRUCache") and "JAX's own cache is used" in warning
    assert cold[1] > 0
    assert run(PRELUDE + program, tmp_path, env=QUIET).value[2] == [cold[1], 0, 0, 0]
    clean(tmp_path)


@pytest.mark.smoke
def test_disable_puts_everything_back(tmp_path: Path) -> None:
    """After `disable`, options, functions and the cache are the original objects, unless the program has
    replaced them.
    """
    program = """
import jax
from jax._src import cache_key, compilation_cache, compiler, monitoring
modules = (cache_key, compilation_cache, compiler, monitoring)
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.25)
def state():
    return dict(jax.config.values), *({name: id(value) for name, value in vars(m).items()} for m in modules)
jcache.disable()
compute(5)
before = state()
listeners = len(monitoring.get_event_listeners()), len(monitoring.get_event_duration_listeners())
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for _ in range(2):
        jcache.enable(sys.argv[2], preset="fast_compile", write="all")
        compute(6)
        assert state() != before
        jcache.disable()
        assert state() == before
        assert listeners == (len(monitoring.get_event_listeners()), len(monitoring.get_event_duration_listeners()))
    jcache.disable()
    jcache.enable(sys.argv[2])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.75)
jcache.disable()
compute(7)
show(jax.config.jax_persistent_cache_min_compile_time_secs, jax.config.jax_compilation_cache_dir, counts())
"""
    threshold, directory, _ = said(program, tmp_path / "theirs", tmp_path / "ours")
    assert (threshold, directory) == (0.75, str(tmp_path / "theirs"))
    clean(tmp_path / "ours")


def test_nothing_is_written_after_disable(tmp_path: Path) -> None:
    """The threads that write to the ledger after a delay write nothing once `disable` has returned."""
    program = """
import jax, shutil, time
from jcache.runs import flush
from jcache.runtime import write_queue
flush._FIRST_FLUSH_S, write_queue._FLUSH_INTERVAL_S = 0.5, 0.4
root = Path(sys.argv[1])
jcache.enable(root)
compute(3)
assert jcache.jit(lambda x: x + 1)(1.0) == 2 and jcache.graph(lambda n: list(range(n)))(3) == [0, 1, 2]
jcache.disable()
assert {kind.name for kind in root.iterdir()} >= {"executables", "traces-v1", "graphs-v1"}
shutil.rmtree(root / ".jcache")
time.sleep(1.5)
show((root / ".jcache").exists(), jcache.stats().requests > 0)
"""
    assert said(program, tmp_path / "root") == [False, True]


def test_enabling_without_arguments_changes_nothing(tmp_path: Path) -> None:
    """`enable` without arguments keeps the settings in effect, and returns the present bound."""
    program = """
import jax
first = enable(sys.argv[1], max_size="1GiB", preset="fast_compile")
assert enable() is first and enable(strict=True) is first
jax.config.update("jax_compilation_cache_max_size", 12345)
again = enable()
compute()
jax.config.update("jax_compilation_cache_dir", sys.argv[1] + "-other")
other = enable()
show(first.max_bytes, again.max_bytes, again == first._replace(max_bytes=12345), str(again.root), str(other.root))
"""
    root = str(tmp_path / "root")
    assert said(program, root) == [2**30, 12345, True, root, f"{root}-other"]
    assert executables(tmp_path / "root")


def test_enabling_elsewhere_moves_on(tmp_path: Path) -> None:
    """Other arguments take effect without a warning; after JAX's own reset, jcache's cache is used again."""
    program = """
enable(sys.argv[1])
compute(5)
enabled = enable(sys.argv[2], max_size="1MiB")
compute(6)
from jax.experimental.compilation_cache import compilation_cache
compilation_cache.reset_cache()
compute(7)
show(str(enabled.root), enabled.max_bytes, counts()[:2], enabled.warnings)
"""
    one, two = tmp_path / "one", tmp_path / "two"
    root, bound, counts, warnings = said(program, one, two)
    assert (root, bound, warnings) == (str(two), 2**20, [])
    assert counts == [0, 2] and len(executables(two)) == 2 and executables(one)
    clean(one, two)


def test_a_program_may_point_jax_elsewhere(tmp_path: Path) -> None:
    """Its own directory is then used, by our store as well, and enabling again comes back."""
    program = """
import jax
from jax.experimental.compilation_cache import compilation_cache
enable(sys.argv[1])
compute(5)
jax.config.update("jax_compilation_cache_dir", sys.argv[2])
compilation_cache.reset_cache()
compute(6)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    jcache.enable(sys.argv[1])
compute(7)
show(counts())
"""
    said(program, tmp_path / "ours", tmp_path / "theirs")
    assert len(executables(tmp_path / "ours")) == 1 + len(executables(tmp_path / "theirs"))
    clean(tmp_path / "ours", tmp_path / "theirs")
