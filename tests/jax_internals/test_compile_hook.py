"""Replays of compiled programs, each in two processes with the installed JAX: only one of them compiles."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.jax_programs import run

pytestmark = pytest.mark.jax

# What `jcache.jit` does, with a file for a store and the name for a key.
COMMON = """
import functools, hashlib, json, pickle, sys, jax, numpy as np, jax.numpy as jnp
from pathlib import Path
from jcache.jax_internals import compile_hook, stablehlo
from jcache.jax_internals.compile_record import Compilation, Replay
base, tier = Path(sys.argv[1]), sys.argv[2]
for name, value in {"compilation_cache_dir": str(base), "persistent_cache_min_compile_time_secs": 0,
                    "persistent_cache_min_entry_size_bytes": -1}.items():
    jax.config.update("jax_" + name, value)
events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event.rpartition("/")[2]))
assert compile_hook.install() is None and compile_hook.install() is None
calls, told, store = [], {}, base / "told.pickle"
def replayed(fun, **options):
    before = pickle.loads(store.read_bytes()) if store.exists() else None
    @functools.wraps(fun)
    def resolver(*args, **kwargs):
        leaves = jax.tree_util.tree_leaves((args, kwargs))
        if before is None:
            out = fun(*args, **kwargs)
            flat, tree = jax.tree_util.tree_flatten(out)
            told["now"] = Compilation()
            told["avals"] = [(x.aval.shape, x.aval.dtype, x.aval.weak_type) for x in map(jnp.asarray, flat)]
            told["like"] = jax.tree_util.tree_unflatten(tree, [0] * len(flat))
            compile_hook.expect(told["now"])
            return out
        done, avals, like = before
        there = {(done.signature, done.device_key): done.executable_key} if tier == "device" else {}
        keys = lambda *of: filter(None, [there.get(of)])
        told["now"] = Replay("trace", keys, lambda signature: done.artifact, done.targets)
        compile_hook.expect(told["now"])
        results = [jax.core.ShapedArray(*aval[:2], weak_type=aval[2]) for aval in avals]
        out = stablehlo.bind_marker("trace", [leaves[i] for i in done.kept], results)
        return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(like), out)
    step = jax.jit(resolver, **options)
    def call(*args, **kwargs):
        compile_hook.expect(None)
        try:
            return step(*args, **kwargs)
        finally:
            compile_hook.expect(None)
            now = told.get("now")
            if isinstance(now, Compilation) and now.done and not store.exists():
                store.write_bytes(pickle.dumps((now, told["avals"], told["like"])))
    return call
def report(*results, **more):
    digest = hashlib.sha256()
    for leaf in jax.tree_util.tree_leaves(results):
        digest.update(str(leaf.dtype).encode() + str(leaf.shape).encode() + np.asarray(leaf).tobytes())
    now = told["now"]
    more |= {"traced": len(calls), "digest": digest.hexdigest(), "reason": getattr(now, "reason", None),
             "kept": getattr(now, "kept", None), "loaded": getattr(now, "loaded", None),
             "compiled": getattr(now, "compiled", None), "key": getattr(now, "executable_key", None)}
    print(json.dumps(more))
"""

PROGRAMS = {
    "nested results, an argument that is not used, a weak type": """
def step(state, unused, x):
    calls.append(1)
    return {"y": jnp.sin(x) @ state["w"], "s": {"n": state["n"] + 1, "w": state["w"] * 2.0}}, x.sum() * 0 + 1
step = replayed(step)
state = {"w": jnp.ones((4, 4)), "n": 3}
out = step(state, jnp.zeros(7), jnp.arange(8.0).reshape(2, 4))
again = step(state, jnp.zeros(7), jnp.arange(8.0).reshape(2, 4) + 1)
report(out, again, tree=str(jax.tree_util.tree_structure(out)), weak=out[0]["s"]["n"].weak_type)
""",
    "a donated argument": """
def step(state, x):
    calls.append(1)
    return state + x
step = replayed(step, donate_argnums=0)
state = jnp.ones(1000)
out = step(state, 1.0)
report(out, deleted=state.is_deleted())
""",
    "sorting and LAPACK": """
def step(a, b):
    calls.append(1)
    return jnp.linalg.solve(a, b), jnp.argsort(b), jnp.linalg.eigh(a)[0], jnp.median(b)
step = replayed(step)
report(step(jnp.eye(6) * 3 + 1, jnp.arange(6.0)[::-1]))
""",
    "sharded over two devices": """
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), ("x",))
def step(a, b):
    calls.append(1)
    return a @ b, a.sum()
step = replayed(step, out_shardings=(NamedSharding(mesh, P("x", None)), None))
a = jax.device_put(jnp.arange(16.0).reshape(4, 4), NamedSharding(mesh, P("x", None)))
out = step(a, jnp.ones((4, 4)))
report(out, sharding=str(out[0].sharding.spec), devices=len(out[0].sharding.device_set))
""",
    "random keys": """
def step(key):
    calls.append(1)
    a, b = jax.random.split(key)
    return jax.random.normal(a, (5,)), b
step = replayed(step)
report(step(jax.random.PRNGKey(3)))
""",
    "closed-over arrays": """
table = jnp.arange(4000.0)
def step(x):
    calls.append(1)
    return (table * x).sum() + jnp.asarray(np.arange(3.0)).sum()
step = replayed(step)
report(step(2.0))
""",
}


def said(program: str, base: Path, tier: str = "device") -> Any:
    devices = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    return run(COMMON + program, base, tier, env=devices).value


@pytest.mark.parametrize("name", PROGRAMS)
def test_another_process_neither_traces_nor_compiles(tmp_path: Path, name: str) -> None:
    """The executable is the one in JAX's cache, and the results are the same to the bit, whatever the program."""
    cold, warm = said(PROGRAMS[name], tmp_path), said(PROGRAMS[name], tmp_path)
    assert (cold["reason"], cold["traced"]) == (None, 1) and cold["key"].startswith("jit_step-")
    assert warm["traced"] == 0 and warm["loaded"] == cold["key"] and warm["compiled"] is None
    told = ("traced", "loaded", "compiled", "key", "kept", "reason")
    assert {k: v for k, v in warm.items() if k not in told} == {k: v for k, v in cold.items() if k not in told}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_missing_executable_is_compiled_from_the_stored_program(tmp_path: Path, name: str) -> None:
    """If no executable fits, JAX compiles and stores the recorded StableHLO, without tracing."""
    cold, warm = said(PROGRAMS[name], tmp_path), said(PROGRAMS[name], tmp_path, "portable")
    assert warm["traced"] == 0 and warm["loaded"] is None and warm["compiled"].startswith("jit_step-")
    assert (tmp_path / f"{warm['compiled']}-cache").exists()
    assert json.dumps([warm["digest"], warm.get("tree")]) == json.dumps([cold["digest"], cold.get("tree")])


REASONS = {
    "it calls back to the host": "lambda x: jax.pure_callback(lambda v: v, x, x)",
    "it has ordered effects": "lambda x: (jax.debug.print('{}', x, ordered=True), x)[1]",
}


@pytest.mark.parametrize("reason", REASONS)
def test_what_cannot_be_replayed_is_told(tmp_path: Path, reason: str) -> None:
    """Programs with callbacks into this process, or with effects, report a reason instead of a key."""
    told = said(f"step = replayed({REASONS[reason]})\nreport(step(jnp.ones(3)))", tmp_path)
    assert told["reason"] in REASONS and told["key"] is None


def test_other_devices_are_another_executable(tmp_path: Path) -> None:
    """On another device, the same program is compiled for that device, and the results lie there."""
    program = """
def step(x):
    calls.append(1)
    return x * 2
step = replayed(step)
out = step(jax.device_put(jnp.arange(3.0), jax.devices()[DEVICE]))
report(out, device=[d.id for d in out.devices()])
"""
    assert said(program.replace("DEVICE", "0"), tmp_path)["device"] == [0]
    other = said(program.replace("DEVICE", "1"), tmp_path)
    assert (other["device"], other["loaded"], other["traced"]) == ([1], None, 0)


@pytest.mark.full
@pytest.mark.smoke(since="0.6")
def test_uninstalling_puts_jax_back(tmp_path: Path) -> None:
    """After `uninstall`, JAX's functions are the original ones."""
    program = """
import json
from jax._src import cache_key, compiler
from jax._src.interpreters import pxla
from jcache.jax_internals import compile_hook
def functions():
    return pxla.UnloadedMeshExecutable.from_hlo, compiler.compile_or_get_cached, cache_key.get
before = functions()
assert compile_hook.install() is None and functions() != before
compile_hook.uninstall()
print(json.dumps(functions() == before))
"""
    assert run(program).value is True


AGAIN = """
import json, sys
import jax.numpy as jnp
import jcache
from jax._src import compiler
from jcache.jax_internals import compile_hook
found = []
for number, end in enumerate((lambda: None, jcache.disable, lambda: None)):
    end()
    jcache.enable(sys.argv[1], max_size=f"{number + 1} GiB", strict=True)
    jcache.jit(lambda x: x + number)(jnp.ones(2))
    found.append([each._patched for each in compile_hook._patches].count(compiler.compile_or_get_cached))
print(json.dumps(found))
"""


def test_the_hooks_lie_above_what_each_session_puts_into_jax(tmp_path: Path) -> None:
    """Else the processes of a program agree twice on one that was replayed, and some do not come the second time."""
    assert run(AGAIN, tmp_path / "root", new_interpreter=True).value == [1, 1, 1]
