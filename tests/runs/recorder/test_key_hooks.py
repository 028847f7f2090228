"""Hooks note what JAX hashes, lowers and is called with, and change nothing. Real JAX processes."""

from typing import Any

import pytest

from tests.helpers.jax_programs import run

pytestmark = pytest.mark.jax

HOOKED = """
import hashlib, json, sys, threading
import jax, numpy as np
from functools import partial
from jax._src import compilation_cache as caches
from jcache.patching import AttributePatch, Patch
from jcache.runs.recorder import key_hooks
found, missed = [], []
class Recorder:
    def on_key(self, key, parts, module, devices, backend):
        found.append((key, parts, key_hooks.lowered(module)))
    def on_miss(self, name, data):
        missed.append((name, data))
def hook():
    return [
        (Patch if callable(getattr(sys.modules[module], name)) else AttributePatch)(sys.modules[module], name, replace)
        for module, names in key_hooks.REPLACEMENTS.items() for name, replace in names.items()
    ]
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
def keys_of(*names):
    made, plain = [], caches.get_cache_key
    def get_cache_key(*args, **named):
        made.append(plain(*args, **named))
        return made[-1]
    caches.get_cache_key = get_cache_key
    try:
        for name in names:
            jax.jit(programs[name])(np.ones(3, np.float32))
    finally:
        caches.get_cache_key = plain
    return made
def outer(x): return jax.jit(lambda y: y * 2)(x) + 1
programs = {"add": lambda x: x + 1, "outer": outer, "dot": lambda x: x @ x}
"""


def hooked(program: str, *arguments: object) -> Any:
    return run(HOOKED + program, *arguments).value


def test_keys_are_those_of_jax(tmp_path: Any) -> None:
    """JAX computes the same keys with and without hooks, and the noted parts hash to the key."""
    program = """
plain = keys_of(*programs)
jax.clear_caches()
hook()
key_hooks.recorders.append(Recorder())
ours = keys_of(*programs)
whole = hashlib.sha256
again = [whole(b"".join(b"".join(data) for data in parts.given.values())).hexdigest() for _, parts, _ in found]
computations = [whole(b"".join(parts.given["computation"])).hexdigest() == parts.computation for _, parts, _ in found]
print(json.dumps([plain, ours, [key for key, *_ in found], again, computations]))
"""
    plain, ours, noted, again, computations = hooked(program, tmp_path)
    assert plain == ours == noted and len(plain) == 3
    assert [key.rpartition("-")[2] for key in noted] == again and all(computations)


def test_undone_hooks_leave_nothing(tmp_path: Any) -> None:
    """After the hooks are undone, JAX's modules are as before, in whatever order that happens."""
    program = """
from jax._src import cache_key, pjit
from jax._src.interpreters import mlir
def state(): return [cache_key.hashlib, cache_key.get, cache_key._log_cache_key_hash, pjit._infer_params,
                     mlir.lower_jaxpr_to_module]
before, first, second = state(), hook(), hook()
for patch in (*first, *second): patch.undo()
print(json.dumps([state() == before, state()[0] is hashlib]))
"""
    assert hooked(program, tmp_path) == [True, True]


def test_a_recorder_that_raises_does_no_harm(tmp_path: Any) -> None:
    """Whatever a recorder raises, the program computes and caches as ever."""
    program = """
class Bad:
    def on_key(self, *args): raise ValueError("bad")
    on_miss = on_key
hook()
key_hooks.recorders.append(Bad())
made = keys_of(*programs)
jax.clear_caches()
key_hooks.recorders.clear()
print(json.dumps(made == keys_of(*programs)))
"""
    assert hooked(program, tmp_path) is True


def test_static_arguments_of_the_call_that_is_lowered(tmp_path: Any) -> None:
    """A program has the static arguments of its own call, and not those of a call within it or of another thread."""
    program = """
hook()
key_hooks.recorders.append(Recorder())
@partial(jax.jit, static_argnames="n")
def power(x, n):
    return x ** n + (power(x, n - 1) if n > 1 else 0)
threads = [threading.Thread(target=power, args=(np.ones(3, np.float32), n)) for n in (1, 2, 3, 4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
lowered = power.lower(np.ones(2, np.float32), 5)
power(np.ones(2, np.float32), 6)
lowered.compile()
print(json.dumps(sorted([one.fields()["static"]["n"], one.fields()["arguments"]] for _, _, one in found)))
"""
    argument = ["x", "f32[3]", False, ""]
    other = ["x", "f32[2]", False, ""]
    threads = [[str(number), [argument]] for number in (1, 2, 3, 4)]
    assert hooked(program, tmp_path) == [*threads, ["5", [other]], ["6", [other]]]


def test_missed_modules(tmp_path: Any) -> None:
    """A module is handed on once, after a miss, with the hash of its bytes; after a hit it is not."""
    program = """
from jax._src import compiler
hook()
key_hooks.recorders.append(Recorder())
from jcache.runs.recorder.taps import TAPS
taps = [AttributePatch(compiler, name, partial(tap, notify=lambda text, args: key_hooks.on_message(str(text), args)))
        for name, tap in TAPS]
keys_of(*programs)
once = len(missed)
jax.clear_caches()
keys_of(*programs)
print(json.dumps([once, len(missed), all(hashlib.sha256(data).hexdigest() == name for name, data in missed)]))
"""
    assert hooked(program, tmp_path) == [3, 3, True]


def test_no_object_of_the_program_is_kept(tmp_path: Any) -> None:
    """When a function and its arguments are gone, the hooks hold nothing of them."""
    program = """
import gc, weakref
hook()
key_hooks.recorders.append(type("Nothing", (), {"on_key": lambda *a: None, "on_miss": lambda *a: None})())
class Big:
    def __hash__(self): return 1
    def __eq__(self, other): return type(other) is Big
def scene():
    big, captured = Big(), jax.numpy.arange(4.0)
    def f(x, big): return x + captured
    jax.jit(f, static_argnums=1)(np.ones(4, np.float32), big)
    return [weakref.ref(big), weakref.ref(captured), weakref.ref(f)]
gone = scene()
jax.clear_caches()
gc.collect()
print(json.dumps([one() is None for one in gone] + [len(key_hooks._lowered)]))
"""
    assert hooked(program, tmp_path) == [True, True, True, 0]
