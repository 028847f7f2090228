"""jax arrays in graphs, with real JAX in processes of their own."""

import pytest

from tests.helpers.jax_programs import run

pytestmark = pytest.mark.jax

HELPERS = """
import json, sys, warnings
import jax, jax.numpy as jnp, numpy as np
from jcache.formats import pytrees
from jcache.errors import DamagedEntry, NotStorable, Unresolved
warnings.simplefilter("error")

def stored(value):
    return bytearray(b"".join(pytrees.dump(value).pieces))

def again(value):
    return pytrees.load(memoryview(stored(value)))

def refusal(value):
    try:
        pytrees.dump(value)
    except NotStorable as error:
        return str(error)

def alike(one, other):
    if type(one) is not type(other) or one.dtype != other.dtype or one.shape != other.shape:
        return False
    if jnp.issubdtype(one.dtype, jax.dtypes.prng_key):
        return alike(jax.random.key_data(one), jax.random.key_data(other))
    return one.weak_type == other.weak_type and np.asarray(one).tobytes() == np.asarray(other).tobytes()
"""

ROUND_TRIP = """
values = {
    "float32": jnp.linspace(0, 1, 7).reshape(7, 1),
    "int4": jnp.arange(3).astype(jnp.int4),
    "bool": jnp.array([True]),
    "bfloat16": jnp.ones((2, 3), jnp.bfloat16),
    "float8": jnp.ones(3).astype(jnp.float8_e4m3fn),
    "empty": jnp.zeros((0, 3)),
    "complex": jnp.array(1j),
    "weak": jnp.full((2, 3), 2.5),
    "weak scalar": jnp.asarray(1.5),
    "weak integer": jnp.asarray(3),
    "strong scalar": jnp.float32(1.5),
    "key": jax.random.key(7),
    "keys": jax.random.split(jax.random.key(7), 4).reshape(2, 2),
    "rbg": jax.random.key(1, impl="rbg"),
    "raw key": jax.random.PRNGKey(3),
}
print(json.dumps([name for name, value in values.items() if not alike(value, again(value))]))
"""


@pytest.mark.smoke
def test_jax_arrays_come_back() -> None:
    """Small dtypes, weak types, empty arrays and random keys of every implementation come back as jax arrays."""
    assert run(HELPERS + ROUND_TRIP).value == []


WIDE = """
with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
    wide = jnp.arange(3, dtype="float64")
    data, same = stored(wide), alike(wide, again(wide))
try:
    pytrees.load(memoryview(data))
except Unresolved as error:
    print(json.dumps([same, str(error)]))
"""


def test_wide_numbers_need_the_option() -> None:
    """An array of 64 bits comes back where JAX is configured for it; elsewhere it is refused, and never narrowed."""
    same, message = run(HELPERS + WIDE).value
    assert same and "float64" in message and "`jax_enable_x64`" in message


REFUSED = """
traced = []
jax.jit(lambda x: traced.append(refusal({"a": [x]})) or x)(1.0)
deleted = jnp.ones(3)
deleted.delete()
mesh = jax.sharding.Mesh(np.array(jax.devices()), "x")
sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
spread = jax.device_put(jax.random.split(jax.random.key(0), 4), sharding)
print(json.dumps([traced[0], refusal(deleted), refusal(spread)]))
"""


def test_arrays_without_numbers_at_hand_are_refused() -> None:
    """A traced or deleted array, or random keys on several devices, are refused with its path and the reason."""
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    traced, deleted, spread = run(HELPERS + REFUSED, env=flags).value
    assert "`['a'][0]`" in traced and "tracing" in traced and "outside of `jax.jit`" in traced
    assert "was deleted or donated" in deleted
    assert "more than one device" in spread


PLACED = """
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding
devices = jax.devices()
square, line = Mesh(np.array(devices).reshape(2, 2), ("a", "b")), Mesh(np.array(devices)[::-1], ("a",))
numbers = np.arange(16.0, dtype="f4").reshape(4, 4)
specs = [PartitionSpec("a"), PartitionSpec(None, "b"), PartitionSpec(("b", "a"), None), PartitionSpec()]
values = {f"{mesh.axis_names} {spec}": jax.device_put(numbers, NamedSharding(mesh, spec))
          for mesh in (square, line) for spec in specs if mesh is square or "b" not in str(spec)}
values |= {f"committed {n}": jax.device_put(numbers, device) for n, device in enumerate(devices)}
with jax.default_device(devices[2]):
    values["uncommitted"] = jax.device_put(numbers)
values["free"] = jax.device_put(numbers)
values["key"] = jax.device_put(jax.random.key(1), devices[1])
values["weak"] = jax.device_put(jnp.asarray(1.5), devices[3])
wrong = []
for name, value in values.items():
    found = again(value)
    if not alike(value, found) or found.sharding != value.sharding or found.committed != value.committed:
        wrong.append(name)
both = again([values["committed 1"]] * 2)
data = stored(values["committed 3"])
print(json.dumps([len(values), wrong, both[0] is both[1], data.hex()]))
"""

FEWER = """
try:
    pytrees.load(memoryview(bytearray.fromhex(sys.argv[1])))
except Unresolved as error:
    print(json.dumps(str(error)))
"""


def test_arrays_are_placed_as_they_were() -> None:
    """An array comes back on its device or mesh, committed or not, and cannot be made where its device is not there."""
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    count, wrong, is_one, data = run(HELPERS + PLACED, env=flags).value
    assert count > 10 and wrong == [] and is_one
    assert "not there" in run(HELPERS + FEWER.replace("sys.argv[1]", repr(data))).value


TRACING = """
data = stored({"a": jnp.full((3,), 2.0), "k": jax.random.key(1)})
found = []

@jax.jit
def step(x):
    found.append(pytrees.load(memoryview(data)))
    again(found[0])
    return x + found[0]["a"]

step(1.0)
print(json.dumps([not isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(found)] + [float(step(1.0)[0])]))
"""


def test_loading_while_jax_traces() -> None:
    """While JAX traces a function, loaded arrays are concrete and may be kept."""
    assert run(HELPERS + TRACING).value == [True, True, 3.0]


COMPILES = """
import logging
jax.config.update("jax_log_compiles", True)
jnp.ones(3)
said = []
handler = logging.Handler()
handler.emit = lambda record: said.append(record.getMessage())
logging.getLogger("jax").addHandler(handler)
strong = [jax.device_put(np.arange(n + 1000.0, dtype="f4")) for n in range(5)]
data = stored(strong + [jnp.full((n,), 2.0) for n in range(5)])
said.clear()
pytrees.load(memoryview(data))
print(json.dumps([message for message in said if "ompil" in message]))
"""


def test_loading_compiles_nothing() -> None:
    """Arrays are made of their bytes, not by a program that JAX would have to compile for each shape."""
    assert run(HELPERS + COMPILES).value == []


HOSTILE = """
import random
import faulthandler
faulthandler.enable(sys.stderr)
chance = random.Random(int(sys.argv[1]))
sizes = [0, 1, 2, 3, 1 << 31, 1 << 32, 1 << 62, (1 << 63) - 1, 1 << 64]
dtypes = ["<f4", "<u4", ">f4", "<f8", "|b1", "<U3", "<U0", "|V8", "<M8[s]", "<f2", "ml_dtypes.bfloat16",
          "ml_dtypes.int4", ["struct", 4, False, [["a", None, 0, "<f4"]]], ["array", "<f4", [2]], "<M8[0s]"]
ends = {"ok": 0}
for _ in range(int(sys.argv[2])):
    some = sizes[:4] if chance.random() < 0.6 else sizes
    shape = [chance.choice(some) for _ in range(chance.choice([0, 1, 1, 2, 3, 65]))]
    if chance.random() < 0.5:
        node = {"$jax": [chance.choice(dtypes), shape, chance.random() < 0.5]}
    else:
        node = {"$key": [chance.choice(["threefry2x32", "rbg", "unsafe_rbg", "fry", "x", ""]), shape]}
    tree = json.dumps(node).encode()
    data = b"jctree1\\n" + len(tree).to_bytes(8, "big") + tree
    data += bytes(-len(data) % 64) + chance.randbytes(chance.choice([0, 4, 8, 16, 24, 32, 48]))
    try:
        repr(pytrees.load(memoryview(bytearray(data))))
        ends["ok"] += 1
    except (DamagedEntry, Unresolved) as error:
        ends[type(error).__name__] = ends.get(type(error).__name__, 0) + 1
print(json.dumps(ends))
"""


def test_hostile_jax_arrays_end_in_a_refusal() -> None:
    """Invented shapes, dtypes and implementations raise the documented errors, and the process survives."""
    ends = run(HELPERS + HOSTILE, 1, 3000).value
    assert ends["ok"] > 20 and ends["Unresolved"] > 20 and ends["DamagedEntry"] > 1000
