"""A program that changes its modules, environment and objects while jcache looks at them goes on, with right results.

Other threads change them, or finalizers that Python's collector runs in the middle of jcache's own code: before Python
3.12 it may run wherever an object is made.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from jcache.store.roots import open_root
from jcache.store.store import Store
from jcache.verify.result import VerifyRequest
from jcache.verify.verification import verify
from tests.helpers.interpreters import base_environment

PROGRAM = """
import gc, itertools, os, sys, threading, types
import jax, jax.numpy as jnp, numpy as np
import jcache

where, root, threads, collects = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "collects"
ended, numbers = False, itertools.count()

class Table:
    pass

def change():
    number = next(numbers)
    new, old = f"moving_{number % 300}", f"moving_{number * 7 % 300}"
    for held in sys.modules, vars(np), globals(), vars(scale):
        held[new] = types.ModuleType(new)
        held.pop(old, None)
    setattr(Table, new, number)
    if old in vars(Table):
        delattr(Table, old)
    if threads < 2:  # two threads that remove one variable raise
        os.environ[f"JAX_{new.upper()}"] = str(number)
        os.environ.pop(f"JAX_{old.upper()}", None)

class Changes:
    def __init__(self):
        self.me = self

    def __del__(self):
        if not ended:
            change()

def work():
    while not ended:
        change()

SCALE, FACTORS, seen = 2.0, {"a": 2}, []

def scale(x):
    return jnp.sin(x) * SCALE

def several(x, times):
    y = scale(x)
    for _ in range(times):
        y = y + jnp.cos(y) * FACTORS["a"]
    jax.debug.callback(seen.append, y.sum())
    return y

def built(times):
    return {"rows": np.arange(times), "home": "HOME" in os.environ, "table": Table.__name__, "by": FACTORS["a"] * times}

if where == "enabled":
    jcache.enable(root)
jitted, kept = jcache.jit(several, static_argnums=1), jcache.graph(built, root=root)
sys.setswitchinterval(1e-6)
for _ in range(threads):
    threading.Thread(target=work, daemon=True).start()
if collects:
    gc.set_threshold(1)
for times in range(1, 4):
    for _ in range(50 if collects else 0):
        Changes()
    x = jnp.arange(4.0)
    explained = jitted.explain(x, times), kept.explain(times)
    assert "raised" not in str(explained) and "Error" not in str(explained), explained
    assert (np.asarray(jitted(x, times)) == np.asarray(jax.jit(several, static_argnums=1)(x, times))).all()
    assert (kept(times)["rows"] == np.arange(times)).all()
ended = True
assert len(seen) == 6, seen
reasons = [str(call.reason) for call in jcache.stats().traces.calls]
assert reasons and not any("Error" in each for each in reasons), reasons
"""


ORDINARY = {("enabled", 0, True), ("enabled", 1, False), ("run", 1, True)}


@pytest.mark.parametrize("where", ["enabled", "run"])
@pytest.mark.parametrize(("threads", "collects"), [(0, True), (1, False), (1, True), (2, False), (2, True)])
def test_a_program_that_changes_while_it_is_looked_at(where: str, threads: int, collects: bool, tmp_path: Path) -> None:
    """It has the results of `jax.jit`, nothing that jcache reads raises, and what was stored is sound."""
    script, root = tmp_path / "moving.py", tmp_path / "root"
    script.write_text(PROGRAM)
    before = ["-m", "jcache", "run", "--root", str(root), "--", sys.executable] if where == "run" else []
    command = [sys.executable, *before, str(script), where, str(root), str(threads), "collects" if collects else ""]
    for _ in range(2):
        done = subprocess.run(
            command, cwd=tmp_path, env=base_environment(), capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, done.stderr
        assert "Error" not in done.stderr, done.stderr
    assert not verify(Store(open_root(root)), VerifyRequest()).findings
