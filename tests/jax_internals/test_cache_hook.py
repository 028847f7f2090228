"""The hook for JAX's cache, tested in separate processes with the installed JAX."""

import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.jax_programs import run

JAX = tuple(int(part) for part in version("jax").split("."))
PATH_IN_KEYS = (0, 4, 36) <= JAX < (0, 11)
CACHES_CALLBACKS = JAX >= (0, 8, 1)
needs_callbacks = pytest.mark.skipif(not CACHES_CALLBACKS, reason="this JAX cannot bind callbacks on loading")

PRELUDE = """
import contextlib, gc, inspect, io, json, sys, threading
from pathlib import Path
import jax, jax.experimental, jax.numpy as jnp, numpy as np
from jax._src import compilation_cache as caches
from jcache.jax_internals import callbacks, cache_hook, config, monitoring
class Folder:
    def __init__(self, path):
        self.path = Path(path)
        self.path.mkdir(exist_ok=True)
    def at(self, key):
        return self.path / f"{key}-cache"
    def get(self, key):
        return self.at(key).read_bytes() if self.at(key).exists() else None
    def put(self, key, value):
        self.at(key).write_bytes(value)
    def clear(self):
        for path in self.path.iterdir():
            path.unlink()
    def __len__(self):
        return len(list(self.path.iterdir()))
def use(path):
    jax.config.update("jax_compilation_cache_dir", None if path is None else str(path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
def compute(number):
    return jax.jit(lambda x: x * number)(np.ones(2, np.float32)).sum().item()
def entries(path):
    return sorted(path.name for path in Path(path).glob("jit__lambda*-cache"))
base = Path(sys.argv[1])
"""


def said(program: str, *arguments: object, **environment: str) -> Any:
    """Return the JSON in the last line that a program prints in a separate process."""
    return run(PRELUDE + program, *arguments, env=environment).value


def test_importing_the_fence_does_not_import_jax() -> None:
    """`import jcache` stays free of JAX."""
    program = (
        "import sys, jcache.jax_internals.callbacks; print([name for name in sys.modules if name.startswith('jax')])"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "[]"


@pytest.mark.jax
@pytest.mark.parametrize("before", ["nothing", "no directory", "another directory"])
def test_our_cache_is_used_whatever_happened_before(before: str, tmp_path: Path) -> None:
    """The installation takes effect at once, and an earlier use of JAX's cache is detected."""
    program = """
before = sys.argv[2]
if before != "nothing":
    use(base / "theirs" if before == "another directory" else None)
    compute(2)
told = [cache_hook.used_before(), str(cache_hook.in_use())]
use(base / "ours")
assert isinstance(cache_hook.install(Folder), cache_hook.InstalledCache)
compute(3)
print(json.dumps([*told, str(cache_hook.in_use()), len(entries(base / "ours")), len(entries(base / "theirs"))]))
"""
    there = before == "another directory"
    told = [before != "nothing", str(tmp_path / "theirs") if there else "None"]
    assert said(program, tmp_path, before) == [*told, str(tmp_path / "ours"), 1, int(there)]


@pytest.mark.full
@pytest.mark.jax
@pytest.mark.smoke
def test_uninstalling_puts_back_what_was_there(tmp_path: Path) -> None:
    """Function, cache object and state are the original objects again, even after several installations."""
    program = """
names = ("get_file_cache", "_cache", "_cache_initialized", "_cache_checked", "_cache_used")
use(base / "theirs")
compute(2)
before = [getattr(caches, name) for name in names]
use(base / "ours")
first, second = cache_hook.install(Folder), cache_hook.install(Folder)
compute(3)
first.uninstall()
assert cache_hook.in_use() == base / "ours"
second.uninstall()
second.uninstall()
assert all(getattr(caches, name) is value for name, value in zip(names, before, strict=True))
use(base / "theirs")
compute(4)
assert isinstance(cache_hook.install(Folder), cache_hook.InstalledCache)
theirs = caches.get_file_cache
caches.get_file_cache = lambda path: theirs(path)
cache_hook.install(Folder).uninstall()
assert caches.get_file_cache is not theirs
caches.reset_cache()
compute(5)
print(json.dumps([len(entries(base / "ours")), len(entries(base / "theirs")), type(caches._cache).__name__]))
"""
    assert said(program, tmp_path) == [1, 3, "LRUCache"]


@pytest.mark.jax
def test_a_directory_can_be_left_to_jax(tmp_path: Path) -> None:
    """If jcache makes no cache for a directory, JAX uses its own, and jcache's again for the next directory."""
    program = """
def make_cache(path):
    return Folder(path) if path.endswith("ours") else None
use(base / "theirs")
cache_hook.install(make_cache)
compute(2)
told = [type(caches._cache).__name__, str(cache_hook.in_use())]
use(base / "ours")
cache_hook.reset()
compute(3)
print(json.dumps([*told, str(cache_hook.in_use()), len(entries(base / "ours")), len(entries(base / "theirs"))]))
"""
    assert said(program, tmp_path) == ["LRUCache", str(tmp_path / "theirs"), str(tmp_path / "ours"), 1, 1]


@pytest.mark.jax
def test_jax_can_reset_and_check_our_cache(tmp_path: Path) -> None:
    """After JAX's reset, jcache's cache is used again, inside JAX's check of the contents."""
    program = """
if hasattr(jax.config, "jax_compilation_cache_check_contents"):
    jax.config.update("jax_compilation_cache_check_contents", True)
use(base)
cache_hook.install(Folder)
compute(2)
caches.reset_cache()
assert cache_hook.in_use() is None and not cache_hook.used_before()
compute(3)
assert cache_hook.in_use() == base
from jax._src.compilation_cache_interface import CacheInterface
checked = isinstance(caches._cache, getattr(caches, "VerificationCache", CacheInterface))
print(json.dumps([len(entries(base)), isinstance(caches._cache, CacheInterface), checked]))
"""
    assert said(program, tmp_path) == [2, True, True]


@pytest.mark.jax
def test_a_jax_with_other_internals_is_left_alone(tmp_path: Path) -> None:
    """If JAX's internals differ, the reason is returned, nothing changes, and JAX's own cache works."""
    program = """
use(base)
del caches._cache_used
before = dict(vars(caches))
reason = cache_hook.install(Folder)
assert dict(vars(caches)) == before
caches._cache_used = False
compute(2)
print(json.dumps([reason, type(caches._cache).__name__]))
"""
    reason = f"jax {version('jax')} has no _cache_used in its compilation cache"
    assert said(program, tmp_path) == [reason, "LRUCache"]


@pytest.mark.jax
def test_keys_without_the_path_are_those_of_jax_without_xlas_caches(tmp_path: Path) -> None:
    """Keys are the same in every directory and with any of XLA's caches; undoing restores the path."""
    program = """
_, path, caches_on, portable = sys.argv[1:]
use(base / path)
if caches_on != "default":
    jax.config.update("jax_persistent_cache_enable_xla_caches", caches_on)
assert cache_hook.portable_keys(on=True) is None and cache_hook.portable_keys(on=True) is None
if portable == "no":
    assert cache_hook.portable_keys(on=False) is None
compute(2)
print(json.dumps(entries(base / path)))
"""
    if not PATH_IN_KEYS:
        assert said(program, tmp_path, "a", "default", "yes") == said(program, tmp_path, "b", "default", "no")
        return
    alone = said(program, tmp_path, "alone", "none", "no")
    assert said(program, tmp_path, "a", "default", "yes") == alone == said(program, tmp_path, "b", "none", "yes")
    assert said(program, tmp_path, "c", "all", "yes") == said(program, tmp_path, "d", "all", "yes")
    assert said(program, tmp_path, "e", "default", "no") != alone
    flags = "--xla_gpu_per_fusion_autotune_cache_dir=" + str(tmp_path)
    own = said(program, tmp_path, "f", "none", "no", XLA_FLAGS=flags)
    assert said(program, tmp_path, "g", "default", "yes", XLA_FLAGS=flags) == own != alone


RANKS = """
from jax._src import compiler, distributed
_, port, rank, on = sys.argv[1:]
assert cache_hook.all_ranks_write(on=on == "yes") is None
jax.distributed.initialize(f"localhost:{port}", num_processes=2, process_id=int(rank))
use(base)
rank = int(rank)
def stored(run):
    before = len(list(base.glob("*-cache")))
    run()
    return len(list(base.glob("*-cache"))) > before
"""


def said_by_ranks(program: str, directories: list[Path], on: str) -> list[Any]:
    """Return the output of the two processes of one program."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    with ThreadPoolExecutor() as pool:
        said_by = [
            pool.submit(said, RANKS + program, directory, port, rank, on) for rank, directory in enumerate(directories)
        ]
        return [future.result() for future in said_by]


@pytest.mark.jax
@pytest.mark.parametrize("on", ["yes", "no"])
@pytest.mark.parametrize("common", [True, False])
def test_every_process_writes_to_the_cache_if_told(tmp_path: Path, on: str, common: bool) -> None:
    """In a program of two processes, the executables of the second one are stored as well, in any directory."""
    program = "print(json.dumps([compute(rank + 2), cache_hook.process_index(), jax.process_count()]))"
    directories = [tmp_path / "all"] * 2 if common else [tmp_path / "first", tmp_path / "second"]
    assert said_by_ranks(program, directories, on) == [[4, 0, 2], [6, 1, 2]]
    stored = [len(list(directory.glob("jit__lambda*-cache"))) for directory in directories]
    assert stored == ([1 + (on == "yes")] * 2 if common else [1, int(on == "yes")])


@pytest.mark.jax
def test_writing_by_all_changes_nothing_else_and_goes_with_callbacks_in_any_order(tmp_path: Path) -> None:
    """Each of the two patches works and is undone without the other, and JAX's other uses of the rank stay
    unchanged.
    """
    program = """
callback = lambda x: np.asarray(x)
def calls(number):
    call = lambda x: jax.pure_callback(callback, jax.ShapeDtypeStruct((2,), np.float32), x) * number
    return jax.jit(call)(np.ones(2, np.float32)).sum().item()
def autotuning():
    options = compiler.get_compile_options(1, 1).executable_build_options.debug_options
    return str(getattr(options, "xla_gpu_experimental_autotune_cache_mode", None))
def turn(all_ranks=None, kept=None):
    if all_ranks is not None:
        assert cache_hook.all_ranks_write(on=all_ranks) is None
    if kept is not None:
        callbacks.cache_callbacks(on=kept)
    told.append([stored(lambda: compute(len(told))), stored(lambda: calls(len(told)))])
told, original, mode = [], compiler._cache_write, autotuning()
turn()
turn(all_ranks=True)
assert compiler.distributed.global_state is distributed.global_state and autotuning() == mode
turn(kept=True)
turn(all_ranks=False)
turn(all_ranks=True)
turn(kept=False)
turn(kept=True, all_ranks=False)
turn(kept=False)
assert compiler._cache_write is original and compiler.distributed is distributed
print(json.dumps([told, mode]))
"""
    all_ranks = [False, True, True, False, True, True, False, False]
    callbacks = [False, False, True, True, True, False, True, False]
    if JAX >= (0, 11):
        callbacks = [True] * 8
    if not CACHES_CALLBACKS:
        callbacks = [False] * 8
    first, second = said_by_ranks(program, [tmp_path / "first", tmp_path / "second"], "no")
    assert first[0] == [[True, called] for called in callbacks]
    assert second[0] == [[on, on and called] for on, called in zip(all_ranks, callbacks, strict=True)]
    assert first[1] != second[1] or JAX < (0, 4, 36)


@pytest.mark.jax
def test_a_jax_that_chooses_its_writer_otherwise_is_left_alone(tmp_path: Path) -> None:
    """jcache returns the reason and changes nothing."""
    program = """
from jax._src import compiler
compiler._cache_write = lambda *args: None
before = dict(vars(compiler))
reason = cache_hook.all_ranks_write(on=True)
assert dict(vars(compiler)) == before and cache_hook.all_ranks_write(on=False) is None
print(json.dumps(reason))
"""
    assert "chooses the process that writes" in said(program, tmp_path)


@pytest.mark.jax
def test_nothing_starts_a_backend_or_reads_its_flags(tmp_path: Path) -> None:
    """Turning everything on leaves JAX unstarted, so that the program can still set its platform's flags."""
    program = """
cache_hook.install(Folder)
cache_hook.portable_keys(on=True)
cache_hook.all_ranks_write(on=True)
config.configure({"jax_persistent_cache_min_compile_time_secs": 0.5})
callbacks.cache_callbacks(on=True)
told = [cache_hook.process_index(), *cache_hook.versions(), list(cache_hook.version()), cache_hook.platforms()]
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=3"
print(json.dumps([*told, len(jax.devices()), sorted(cache_hook.platforms())]))
"""
    assert said(program, tmp_path) == [0, version("jax"), version("jaxlib"), list(JAX), None, 3, ["cpu"]]


@pytest.mark.jax
def test_a_jax_that_is_newer_than_any_tested_is_told(tmp_path: Path) -> None:
    """A JAX newer than the tested ones yields one sentence, and a tested one none."""
    program = """
told = [cache_hook.newer_than_tested()]
jax.__version_info__, jax.__version__ = (0, 13, 0), "0.13.0"
print(json.dumps([*told, cache_hook.newer_than_tested()]))
"""
    newer = "jax 0.13.0 is newer than the newest that jcache was tested with (0.12)"
    assert said(program, tmp_path) == [None, newer]
