"""Caching of programs with host callbacks, tested in separate processes with the installed JAX."""

import sys
from pathlib import Path

import pytest

from tests.helpers.command_line import Jcache
from tests.jax_internals.test_cache_hook import CACHES_CALLBACKS, JAX, needs_callbacks, said

pytestmark = pytest.mark.jax

CALLBACKS = """
tag = sys.argv[2]
assert callbacks.cache_callbacks(on=True) is None and callbacks.cache_callbacks(on=True) is None
use(base)
cache_hook.portable_keys(on=True)
heard, called = [], []
monitoring.listen(lambda event, seconds, details: heard.append(event.rpartition("/")[2]))
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
    """Another process hits every program, and its own functions receive the values that they receive without
    a cache.
    """
    program = CALLBACKS + PROGRAMS[name]
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"} if name == "two devices" else {}
    said(program, tmp_path / "shared", "one", **flags)
    counts, called, results = said(program, tmp_path / "shared", "other", **flags)
    assert counts["cache_misses"] == 0 < counts["cache_hits"]
    counts, *fresh = said(program, tmp_path / "fresh", "other", **flags)
    assert [called, results] == fresh
    assert counts["cache_misses"] > 0


UNDER_RUN = """
import sys
{first}
import jax, numpy as np
heard = []
@jax.jit
def told(x):
    jax.debug.callback(lambda value: heard.append(float(value)), x.sum())
    return jax.pure_callback(lambda value: np.asarray(value) * {factor}, jax.ShapeDtypeStruct(x.shape, x.dtype), x) + 1
result = told(np.ones(3, np.float32)).tolist()
jax.effects_barrier()
print(result, heard)
"""


@pytest.mark.skipif(not CACHES_CALLBACKS or JAX >= (0, 11), reason="jcache caches callbacks for jax 0.8.1 to 0.10.2")
@pytest.mark.parametrize("first", ["", "sys.modules['jcache'] = None", "import jcache; jcache.enable()"])
def test_callbacks_under_jcache_run(jcache: Jcache, tmp_path: Path, first: str) -> None:
    """`jcache run` stores and hits them as `enable` does, also where the program's Python has no jcache."""
    root = tmp_path / "root"
    for factor, stored in ((2, 1), (3, 0), (2, 0)):  # the function that is called is that of the process
        program = UNDER_RUN.format(first=first, factor=factor)
        said = jcache("run", "--root", root, "--", sys.executable, "-c", program)
        assert said.code == 0 and said.out == f"{[factor + 1.0] * 3} [3.0]\n", said.err
        report = jcache("stats", "--root", root, "--run", "last", "--json").json["totals"]
        assert (report["not_stored"], report["stored"]) == (0, stored) and report["hits"] == 1 - stored
    if not first.startswith("import"):
        return
    off = UNDER_RUN.format(first="import jcache; jcache.enable(callbacks=False)", factor=2)
    assert "it calls back to the host" in jcache("run", "--root", root, "--", sys.executable, "-c", off).err
    assert jcache("verify", "--root", root).code == 0


@pytest.mark.smoke
@needs_callbacks
def test_callbacks_and_our_cache_outlive_what_jax_clears(tmp_path: Path) -> None:
    """After JAX's caches are cleared and reset, and jcache's is installed again, every program is hit."""
    program = """
def again(*clear):
    [function() for function in (jax.clear_caches, *clear)]
    before, found = heard.count("cache_hits"), len(Folder.gets)
    compute(2)
    jax.jit(lambda x: pure("inner", x))(ones)
    return [heard.count("cache_hits") - before, len(Folder.gets) - found]
class Folder(Folder):
    gets = []
    def get(self, key):
        self.gets.append(key)
        return super().get(key)
cache_hook.install(Folder)
again()
told = [again(), again(caches.reset_cache), again(lambda: cache_hook.install(Folder))]
told.append(again(cache_hook.reset, jax.clear_caches))
report(told)
"""
    _, called, [told] = said(CALLBACKS + program, tmp_path, "one")
    assert [hits for hits, gets in told] == [gets for hits, gets in told]
    assert min(hits for hits, gets in told) >= 2
    assert called == [["one", "inner", [1, 1, 1]]] * 5


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
    """Programs whose callbacks have one signature share an executable; another number of callbacks has another key."""
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
    """JAX without jcache, in the same directory, compiles programs with callbacks again, as does a program
    with its own hook.
    """
    said(CALLBACKS + PROGRAMS["several"], tmp_path, "one")
    hooked = 'from jax._src import cache_key\ncache_key.custom_hook = lambda: ""\n'
    for off in ("callbacks.cache_callbacks(on=False)\n", hooked):
        counts, called, _ = said(CALLBACKS + off + PROGRAMS["several"], tmp_path, "two")
        assert counts["cache_misses"] == 0
        assert {name for name, *_ in called} == {"two"}
        assert len(list(tmp_path.glob("jit_step-*-cache"))) == 1


@pytest.mark.skipif(CACHES_CALLBACKS, reason="this JAX can bind callbacks on loading")
def test_the_reason_is_given_where_callbacks_cannot_be_cached(tmp_path: Path) -> None:
    """If callbacks cannot be cached, the reason is returned, nothing is patched, and the programs run."""
    reason = said("print(json.dumps([callbacks.cache_callbacks(on=True), callbacks._patches]))", tmp_path)
    cannot = "cannot give host callbacks" if JAX >= (0, 6) else "compiles the addresses of host callbacks"
    assert cannot in reason[0] and reason[1] == []
