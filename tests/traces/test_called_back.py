"""What a served program calls back on the host: as under `jax.jit`, with the same errors."""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.interpreters import with_jax
from tests.helpers.jax_programs import environment, run

pytestmark = pytest.mark.jax

ERRORS = """
import json, sys, traceback
import jax, jax.numpy as jnp, numpy as np
values = json.load(open("values"))  # before jcache, and so no part of the world, as arguments are
import jcache
whose, root, which = sys.argv[1:]
jcache.enable(root, strict=True)
if whose == "jcache":
    jax.jit = jcache.jit
if which != "plain":
    import equinox as eqx
called = []

def plain(x):
    def check(v):
        called.append(float(v))
        if v < 0:
            raise ValueError(f"{v} is negative")
        return np.float32(v)
    return jax.pure_callback(check, jax.ShapeDtypeStruct((), jnp.float32), x)

def checked(x):
    return eqx.error_if(x, x < 0, "it is negative") + 1

makers = {
    "plain": lambda: jax.jit(plain),
    "error_if": lambda: jax.jit(checked),
    "filter_jit": lambda: eqx.filter_jit(checked),
}
f = makers[which]()
said = []
for value in values:
    try:
        said.append(float(f(jnp.float32(value))))
    except Exception as error:
        said.append([type(error).__name__, "".join(traceback.format_exception(error))])
outcomes = [call.outcome for call in jcache.stats().traces.calls if call.key]
print(json.dumps([said, called, outcomes]))
"""
OURS = re.compile(r'  File "[^"]*jcache[^"]*", line.*\n(?:    .*\n)*')


def starts(tmp_path: Path, whose: str, which: str, values: list[float]) -> Any:
    """Return what the program says of some values; frames of jcache are left out."""
    (tmp_path / "program.py").write_text(ERRORS)
    (tmp_path / "values").write_text(json.dumps(values))
    words = [str(tmp_path / "program.py"), whose, str(tmp_path / whose), which]
    done = with_jax.run(words, environment=environment(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said, called, outcomes = json.loads(done.stdout.splitlines()[-1])
    return [each if type(each) is float else [each[0], OURS.sub("", each[1])] for each in said], called, outcomes


@pytest.mark.parametrize("which", ["plain", "error_if", "filter_jit"])
def test_an_error_of_a_callback_is_that_of_jax(tmp_path: Path, which: str) -> None:
    """Its type, text and frames, also in the second call; the callback is called once for each."""
    if which != "plain" and importlib.util.find_spec("equinox") is None:
        pytest.skip("without equinox")
    assert starts(tmp_path, "jcache", which, [1.0])[2] == ["stored"]
    theirs = [starts(tmp_path, "jax", which, values) for values in ([1.0], [-1.0, 2.0, -3.0])][1]
    ours = starts(tmp_path, "jcache", which, [-1.0, 2.0, -3.0])
    assert ours[0] == theirs[0] and ours[1] == theirs[1]
    assert ours[2] == ["hit"]


SHARDED = """
import json, os, sys
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
import jcache
jcache.enable(sys.argv[1], strict=True)
seen = []

@jcache.jit
def f(x):
    jax.debug.callback(lambda v: seen.append(float(np.sum(v))), x)
    return x * 2

mesh = jax.make_mesh((2,), ("a",))
for spec in (P(), P("a")):
    f(jax.device_put(jnp.arange(4.0), NamedSharding(mesh, spec))).block_until_ready()
f(jax.device_put(jnp.arange(4.0), jax.devices()[1])).block_until_ready()
jax.effects_barrier()
print(json.dumps([seen, [call.outcome for call in jcache.stats().traces.calls]]))
"""


def test_callbacks_of_sharded_programs(tmp_path: Path) -> None:
    """On several devices and on another one than the first: as often, and with what they are called with cold."""
    cold, warm, again = (run(SHARDED, tmp_path / "root").value for _ in range(3))
    assert cold[0] == warm[0] == again[0] and set(cold[0]) == {6.0}
    assert again[1] and set(again[1]) <= {"hit"}


PREPARED = """
import json, sys
import jax, jax.numpy as jnp
is_called = json.load(open("called"))  # before jcache, and so no part of the world, as arguments are
import jcache
jcache.enable(sys.argv[1], strict=True)
rows = []

@jcache.jit
def f(x):
    jax.debug.callback(rows.append, x)
    return x * 2

if not is_called:
    print(json.dumps([str(each.outcome) for each in jcache.precompile(f, (jax.ShapeDtypeStruct((), jnp.float32),))]))
else:
    f(jnp.float32(3)).block_until_ready()
    jax.effects_barrier()
    print(json.dumps([[float(row) for row in rows], [call.outcome for call in jcache.stats().traces.calls]]))
"""


def test_what_is_precompiled_calls_the_objects_of_the_program(tmp_path: Path) -> None:
    """A list that the function reaches is the one of the process that is served."""
    (tmp_path / "program.py").write_text(PREPARED)
    said = []
    for called in (False, True, True):
        (tmp_path / "called").write_text(json.dumps(called))
        words = [str(tmp_path / "program.py"), str(tmp_path / "root")]
        done = with_jax.run(words, environment=environment(), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        said.append(json.loads(done.stdout.splitlines()[-1]))
    assert said == [["stored"], [[3.0], ["hit"]], [[3.0], ["hit"]]]
