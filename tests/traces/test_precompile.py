"""Tests for `jcache.precompile`: what is described beforehand is neither traced nor compiled in another process."""

from pathlib import Path
from typing import Any

import pytest

from jcache.layout import Kind
from jcache.store.roots import open_root
from jcache.store.store import Store
from jcache.verify.result import VerifyRequest
from jcache.verify.verification import verify
from tests.helpers.jax_programs import run

pytestmark = pytest.mark.jax

DEVICES = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
COMMON = """
import functools, json, os, sys, warnings
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding
import jcache
jcache.enable(sys.argv[1], strict=True)
S = jax.ShapeDtypeStruct
mesh = Mesh(np.array(jax.devices()), ("x",))
split, everywhere = NamedSharding(mesh, P("x")), NamedSharding(mesh, P())

@jcache.jit(static_argnames=("n",), donate_argnums=0, check="never")
def step(state, x, *, n=1):
    traced()
    return {"w": state["w"] * n + x.sum()}, x * 2

def traced():
    sys.stderr.write("traced\\n")

def told(*specs):
    return [[str(done.outcome), done.reason] for done in jcache.precompile(step, list(specs))]
"""
PRECOMPILE = """
specs = [
    ({"w": S((4,), "float32")}, S((8,), "float32")),
    jcache.Spec({"w": S((4,), "float32")}, 1.0, n=2),
    jcache.Spec({"w": S((4,), "float32", sharding=everywhere)}, S((8,), "float32", sharding=split), n=2),
    jcache.Spec({"w": S((4,), "float32", sharding=SingleDeviceSharding(jax.devices()[1]))}, S((8,), "int32"), n=3),
][:int(sys.argv[2])]
first = told(*specs)
print(json.dumps([first, told(*specs), len(jax.live_arrays())]))
"""
CALL = """
events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event.rpartition("/")[2]))
def call(state, x, **options):
    events.clear()
    out = step(state, x, **options)
    hits = [event for event in events if event in ("cache_hits", "cache_misses")]
    return [hits, out[0]["w"].tolist(), len(out[0]["w"].sharding.device_set), isinstance(state["w"].is_deleted(), bool)]
w, x = lambda: {"w": jnp.ones(4)}, jnp.arange(8.0)
calls = [lambda: call(w(), x), lambda: call(w(), 1.0, n=2),
         lambda: call(jax.device_put(w(), everywhere), jax.device_put(x, split), n=2),
         lambda: call(jax.device_put(w(), jax.devices()[1]), jnp.arange(8), n=3)]
print(json.dumps([each() for each in calls[:int(sys.argv[2])]]))
"""


def count() -> int:
    """How many of the calls can be described: jax 0.4 lays out arrays of a sharding otherwise than such a spec says."""
    import jax

    return 4 if jax.__version_info__ >= (0, 5) else 2


@pytest.mark.full
@pytest.mark.smoke(since="0.6")
def test_what_is_precompiled_starts_warm(tmp_path: Path) -> None:
    """Calls with default, weakly typed, sharded and donated arguments are not compiled later, and traced once.

    While they are precompiled nothing is computed, and a second time everything is there. The first start of another
    program traces and compares.
    """
    calls = count()
    said = run(COMMON + PRECOMPILE, tmp_path / "root", calls, env=DEVICES)
    assert said.value == [[["stored", None]] * calls, [["hit", None]] * calls, 0]
    assert said.err.count("traced") == calls
    first, later = (run(COMMON + CALL, tmp_path / "root", calls, env=DEVICES) for _ in range(2))
    assert first.value == later.value and "traced" not in later.err
    expected = [[["cache_hits"], [29.0] * 4, 1, True], [["cache_hits"], [3.0] * 4, 1, True],
                [["cache_hits"], [30.0] * 4, 2, True], [["cache_hits"], [31.0] * 4, 1, True]]  # fmt: skip
    assert later.value == expected[:calls]
    with Store(open_root(tmp_path / "root")) as store:
        assert verify(store, VerifyRequest()).findings == []


def test_thresholds_of_jax_do_not_count(tmp_path: Path) -> None:
    """What JAX would not store, since it compiles fast, is stored all the same; the threshold is as before then."""
    program = """
import warnings
warnings.simplefilter("ignore")
import jcache, sys, json, jax
jcache.enable(sys.argv[1])
done = jcache.precompile(lambda x: x + 1, (jax.ShapeDtypeStruct((4,), "float32"),))
print(json.dumps([done[0].outcome, jax.config.jax_persistent_cache_min_compile_time_secs]))
"""
    said = run(program, tmp_path / "root", env={"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "100"})
    assert said.value == ["stored", 100.0]
    with Store(open_root(tmp_path / "root")) as store:
        assert len(store.entries([Kind.EXECUTABLES])) == 1


OTHERS = """
class Model:
    def __init__(self, scale):
        self.scale = scale

    def __cache_key__(self):
        return str(self.scale)

    @functools.partial(jcache.jit, static_argnums=0)
    def loss(self, x, y):
        return (x * self.scale - y).sum()

def plain(x):
    traced()
    return x * 3

@jcache.jit
def calling_back(x):
    rest = iter([1.0])
    return jax.pure_callback(lambda v: v + next(rest), x, x)

spec = S((3,), "float32")
if sys.argv[2] == "precompile":
    done = [*jcache.precompile(Model(2.0).loss, (spec, spec)), *jcache.precompile(plain, (spec,)),
            *jcache.precompile(calling_back, (spec,))]
    print(json.dumps([[one.name, one.outcome, one.reason] for one in done]))
else:
    x = jnp.ones(3)
    print(json.dumps([Model(2.0).loss.__func__.explain(Model(2.0), x, x).hit, jcache.jit(plain).explain(x).hit]))
    jcache.jit(plain)(x), Model(2.0).loss(x, x)
"""


def test_methods_plain_functions_and_what_cannot_be_stored(tmp_path: Path) -> None:
    """A method is precompiled with its instance, a plain function as `jcache.jit` of it; a refusal says why."""
    said = run(COMMON + OTHERS, tmp_path / "root", "precompile", env=DEVICES).value
    assert [outcome for _, outcome, _ in said] == ["stored", "stored", "not_stored"]
    assert said[0][0] == "Model.loss" and "calls back to the host, and it holds a list_iterator" in said[2][2]
    first, later = (run(COMMON + OTHERS, tmp_path / "root", "call", env=DEVICES) for _ in range(2))
    assert first.value == [False, False]  # the command is another one: it is compared
    assert later.value == [True, True] and "traced" not in later.err


REFUSED = """
def caught(function, specs):
    try:
        jcache.precompile(function, specs)
    except Exception as error:
        return [type(error).__name__, str(error)]
print(json.dumps([caught(jax.jit(lambda x: x), (1.0,)), caught(step, [3]), caught(3, ()), caught(step, (1.0,))]))
"""


def test_what_is_no_call_is_an_error(tmp_path: Path) -> None:
    """A function of `jax.jit`, whose options nobody knows, what is no spec, and wrong arguments are errors."""
    said: list[Any] = run(COMMON + REFUSED, tmp_path / "root", env=DEVICES).value
    assert [name for name, _ in said] == ["InvalidValue", "InvalidValue", "InvalidValue", "TypeError"]
    assert "is not of jcache.jit" in said[0][1] and "jcache.Spec" in said[1][1]


SHARED = """
import json, sys, jax.numpy as jnp, jcache
jcache.enable(sys.argv[1], read_only=sys.argv[2:], strict=True)

@jcache.jit
def double(x):
    sys.stderr.write("traced\\n")
    return x * 2

print(json.dumps([double.explain(jnp.ones(3)).hit, double(jnp.ones(3)).tolist()]))
"""


def test_a_shared_root_serves_what_was_precompiled_there(tmp_path: Path) -> None:
    """Traces of a read-only root are served, and nothing is written there."""
    run(SHARED, tmp_path / "shared")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "shared").rglob("*-cache")}
    _, said = (run(SHARED, tmp_path / "mine", tmp_path / "shared") for _ in range(2))  # the first one compares
    assert said.value == [True, [2.0] * 3] and "traced" not in said.err
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "shared").rglob("*-cache")} == before
    assert list((tmp_path / "mine").rglob("*.stablehlo-*")) == []
