"""Tests for the fence around JAX's private parts, each in processes of its own with the JAX installed."""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.jax

JAX = tuple(int(part) for part in version("jax").split("."))
PATH_IN_KEYS = (0, 4, 36) <= JAX < (0, 11)
CACHES_CALLBACKS = JAX >= (0, 8, 1)
needs_callbacks = pytest.mark.skipif(not CACHES_CALLBACKS, reason="this JAX cannot bind callbacks on loading")

PRELUDE = """
import contextlib, gc, inspect, io, json, sys, threading
from pathlib import Path
import jax, jax.experimental, jax.numpy as jnp, numpy as np
from jax._src import compilation_cache as caches
from jcache import _callbacks, _jax
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
    """The JSON in the last line that a program prints in a process of its own."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}
    env |= {"JAX_PLATFORMS": "cpu"} | environment
    command = [sys.executable, "-c", PRELUDE + program, *map(str, arguments)]
    result = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def test_importing_the_fence_does_not_import_jax() -> None:
    """`import jcache` stays free of JAX."""
    program = "import sys, jcache._callbacks; print([name for name in sys.modules if name.startswith('jax')])"
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "[]"


@pytest.mark.parametrize("before", ["nothing", "no directory", "another directory"])
def test_our_cache_is_used_whatever_happened_before(before: str, tmp_path: Path) -> None:
    """Installing takes effect at once, and what has been used before can be told."""
    program = """
before = sys.argv[2]
if before != "nothing":
    use(base / "theirs" if before == "another directory" else None)
    compute(2)
told = [_jax.used_before(), str(_jax.in_use())]
use(base / "ours")
assert isinstance(_jax.install(Folder), _jax.Installed)
compute(3)
print(json.dumps([*told, str(_jax.in_use()), len(entries(base / "ours")), len(entries(base / "theirs"))]))
"""
    there = before == "another directory"
    told = [before != "nothing", str(tmp_path / "theirs") if there else "None"]
    assert said(program, tmp_path, before) == [*told, str(tmp_path / "ours"), 1, int(there)]


def test_uninstalling_puts_back_what_was_there(tmp_path: Path) -> None:
    """The function, the cache object and its state are the very ones from before, also after several installations."""
    program = """
names = ("get_file_cache", "_cache", "_cache_initialized", "_cache_checked", "_cache_used")
use(base / "theirs")
compute(2)
before = [getattr(caches, name) for name in names]
use(base / "ours")
first, second = _jax.install(Folder), _jax.install(Folder)
compute(3)
first.uninstall()
assert _jax.in_use() == base / "ours"
second.uninstall()
second.uninstall()
assert all(getattr(caches, name) is value for name, value in zip(names, before, strict=True))
use(base / "theirs")
compute(4)
assert isinstance(_jax.install(Folder), _jax.Installed)
theirs = caches.get_file_cache
caches.get_file_cache = lambda path: theirs(path)
_jax.install(Folder).uninstall()
assert caches.get_file_cache is not theirs
caches.reset_cache()
compute(5)
print(json.dumps([len(entries(base / "ours")), len(entries(base / "theirs")), type(caches._cache).__name__]))
"""
    assert said(program, tmp_path) == [1, 3, "LRUCache"]


def test_jax_can_reset_and_check_our_cache(tmp_path: Path) -> None:
    """JAX's reset comes back to ours, and its own check of the contents stays around it."""
    program = """
if hasattr(jax.config, "jax_compilation_cache_check_contents"):
    jax.config.update("jax_compilation_cache_check_contents", True)
use(base)
_jax.install(Folder)
compute(2)
caches.reset_cache()
assert _jax.in_use() is None and not _jax.used_before()
compute(3)
assert _jax.in_use() == base
from jax._src.compilation_cache_interface import CacheInterface
checked = isinstance(caches._cache, getattr(caches, "VerificationCache", CacheInterface))
print(json.dumps([len(entries(base)), isinstance(caches._cache, CacheInterface), checked]))
"""
    assert said(program, tmp_path) == [2, True, True]


def test_a_jax_with_other_internals_is_left_alone(tmp_path: Path) -> None:
    """The reason is given, nothing is touched, and JAX's own cache goes on working."""
    program = """
use(base)
del caches._cache_used
before = dict(vars(caches))
reason = _jax.install(Folder)
assert dict(vars(caches)) == before
caches._cache_used = False
compute(2)
print(json.dumps([reason, type(caches._cache).__name__]))
"""
    reason = f"jax {version('jax')} has no _cache_used in its compilation cache"
    assert said(program, tmp_path) == [reason, "LRUCache"]


def test_keys_without_the_path_are_those_of_jax_without_xlas_caches(tmp_path: Path) -> None:
    """They are the same in every directory and with any of XLA's caches, and undoing brings the path back."""
    program = """
_, path, caches_on, portable = sys.argv[1:]
use(base / path)
if caches_on != "default":
    jax.config.update("jax_persistent_cache_enable_xla_caches", caches_on)
assert _jax.portable_keys(on=True) is None and _jax.portable_keys(on=True) is None
if portable == "no":
    assert _jax.portable_keys(on=False) is None
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


def test_events_are_heard_until_one_stops_listening(tmp_path: Path) -> None:
    """A listener hears what JAX records, with seconds and details, and nothing after it stopped; it can stop twice."""
    program = """
use(base)
heard, others = [], []
stop = _jax.listen(lambda *event: heard.append(event))
_jax.listen(lambda *event: others.append(event))
compute(2)
assert heard == others
stop()
stop()
compute(3)
assert len(heard) < len(others)
print(json.dumps({event.rpartition("/")[2]: seconds is not None for event, seconds, details in heard}))
"""
    heard = said(program, tmp_path)
    assert heard["cache_misses"] is False
    assert heard["backend_compile_duration"] is True


def test_the_rank_is_known_without_starting_a_backend(tmp_path: Path) -> None:
    """Asking for it, and for the versions, leaves JAX as it was."""
    program = """
from jax._src import xla_bridge
print(json.dumps([_jax.process_index(), *_jax.versions(), list(_jax.version()), len(xla_bridge._backends)]))
"""
    assert said(program, tmp_path) == [0, version("jax"), version("jaxlib"), list(JAX), 0]


CALLBACKS = """
tag = sys.argv[2]
assert _callbacks.cache_callbacks(on=True) is None and _callbacks.cache_callbacks(on=True) is None
use(base)
_jax.portable_keys(on=True)
heard, called = [], []
_jax.listen(lambda event, seconds, details: heard.append(event.rpartition("/")[2]))
like, ones = jax.ShapeDtypeStruct((3,), np.float32), jnp.ones(3)
def note(name):
    def callback(value):
        called.append([tag, name, np.asarray(value).tolist()])
        return np.asarray(value) * np.float32(len(tag))
    return callback
def pure(name, x):
    return jax.pure_callback(note(name), jax.ShapeDtypeStruct(x.shape, x.dtype), x)
def ask(name, x, ordered):
    return jax.experimental.io_callback(note(name), like, x, ordered=ordered)
def report(*results):
    jax.effects_barrier()
    called.sort(key=str)
    counts = {name: heard.count(name) for name in ("cache_hits", "cache_misses")}
    print(json.dumps([counts, called, [np.asarray(result).tolist() for result in results]]))
"""

PROGRAMS = {
    "several": """
@jax.jit
def step(x):
    a, b = pure("a", x), pure("b", x + 1)
    c, d = ask("c", a, True), ask("d", b, False)
    jax.debug.print("printed by " + tag + " {}", d.sum())
    jax.debug.callback(lambda value: called.append([tag, "debug", float(value)]), a.sum())
    return a, b, ask("e", c + d, True)
with contextlib.redirect_stdout(io.StringIO()) as printed:
    results = step(ones)
    jax.effects_barrier()
assert printed.getvalue().startswith("printed by " + tag)
report(*results)
""",
    "control flow": """
@jax.jit
def step(x):
    def body(carry, n):
        return jax.lax.cond(n > 1, lambda c: pure("big", c), lambda c: ask("small", c, True) + 1, carry), n
    x, _ = jax.lax.scan(body, x, jnp.arange(4))
    x = jax.lax.fori_loop(0, 2, lambda i, c: ask("loop", c, True) + i, x)
    row = lambda row: jax.pure_callback(note("row"), like, row, vmap_method="sequential")
    return x, jax.vmap(row)(jnp.stack([x, x + 1]))
report(*step(ones))
""",
    "kept alive": """
step = (lambda: jax.jit(lambda x: pure("inner", x)).lower(ones).compile())()
jax.clear_caches()
gc.collect()
report(step(ones), step(ones * 2))
""",
    "two devices": """
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
x = jax.device_put(jnp.arange(4.0), NamedSharding(Mesh(np.array(jax.devices()), "d"), P("d")))
@jax.jit
def step(x):
    jax.debug.callback(lambda value: called.append([tag, "debug", value.tolist()]), x, partitioned=True)
    return pure("whole", x) + 1
report(step(x))
""",
    "threads": """
def work(n):
    results[n] = jax.jit(lambda x: pure(f"thread {n}", x) * 2)(ones)
results = {}
threads = [threading.Thread(target=work, args=[n]) for n in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
report(*results.values())
""",
}


@needs_callbacks
@pytest.mark.parametrize("name", PROGRAMS)
def test_another_process_loads_the_program_and_calls_its_own_callbacks(name: str, tmp_path: Path) -> None:
    """It hits every program, and its own functions are called with the same values as without a cache."""
    program = CALLBACKS + PROGRAMS[name]
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"} if name == "two devices" else {}
    said(program, tmp_path / "shared", "one", **flags)
    counts, called, results = said(program, tmp_path / "shared", "other", **flags)
    assert counts["cache_misses"] == 0 < counts["cache_hits"]
    counts, *fresh = said(program, tmp_path / "fresh", "other", **flags)
    assert [called, results] == fresh
    assert counts["cache_misses"] > 0


@needs_callbacks
def test_what_a_callback_raises_is_raised_from_a_loaded_program_too(tmp_path: Path) -> None:
    """An error that the second process's callback raises, as `eqx.error_if` does, reaches the program."""
    program = """
def check(value):
    if value.sum() > 3:
        raise ValueError("too much, says " + tag)
    return value
@jax.jit
def step(x):
    return jax.lax.cond(x.sum() > 2, lambda x: jax.pure_callback(check, like, x), lambda x: x, x)
step(ones).block_until_ready()
try:
    step(ones * 2).block_until_ready()
except Exception as error:
    called.append("too much, says " + tag in str(error))
report(step(ones))
"""
    assert said(CALLBACKS + program, tmp_path, "one")[1:] == [[True], [[1, 1, 1]]]
    counts, called, results = said(CALLBACKS + program, tmp_path, "two")
    assert (counts["cache_misses"], called, results) == (0, [True], [[1, 1, 1]])


@needs_callbacks
def test_programs_that_differ_only_in_their_callbacks_share_an_entry_and_keep_their_own(tmp_path: Path) -> None:
    """Two functions of one signature are two programs with one executable; another number of them is another key."""
    program = """
def times(*factors):
    def step(x):
        return sum(jax.pure_callback(lambda v, n=n: np.asarray(v) * np.float32(n), like, x) for n in factors)
    return jax.jit(step)(ones)
report(times(2), times(3), times(4, 5), times(6, 7))
"""
    for _ in range(2):
        assert said(CALLBACKS + program, tmp_path, "x")[2] == [[number] * 3 for number in (2, 3, 9, 13)]
    assert len(list(tmp_path.glob("jit_step-*-cache"))) == 2


@needs_callbacks
def test_jax_without_jcache_never_finds_what_it_cannot_run(tmp_path: Path) -> None:
    """It shares the directory and compiles programs with callbacks anew; so does a program that set its own hook."""
    said(CALLBACKS + PROGRAMS["several"], tmp_path, "one")
    hooked = 'from jax._src import cache_key\ncache_key.custom_hook = lambda: ""\n'
    for off in ("_callbacks.cache_callbacks(on=False)\n", hooked):
        counts, called, _ = said(CALLBACKS + off + PROGRAMS["several"], tmp_path, "two")
        assert counts["cache_misses"] == 0
        assert {name for name, *_ in called} == {"two"}
        assert len(list(tmp_path.glob("jit_step-*-cache"))) == 1


@pytest.mark.skipif(CACHES_CALLBACKS, reason="this JAX can bind callbacks on loading")
def test_the_reason_is_given_where_callbacks_cannot_be_cached(tmp_path: Path) -> None:
    """Nothing is patched then, and the programs run as ever."""
    reason = said("print(json.dumps([_callbacks.cache_callbacks(on=True), _callbacks._patches]))", tmp_path)
    cannot = "cannot give host callbacks" if JAX >= (0, 6) else "compiles the addresses of host callbacks"
    assert cannot in reason[0] and reason[1] == []
