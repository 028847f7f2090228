"""Tests for `jcache.jit`: a second process calls what it has never traced, and no change goes unnoticed."""

import shutil
from collections.abc import Iterator
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

MODEL = """
import json, os, sys
import jax, jax.numpy as jnp, numpy as np
import library
from package import middle

RATE = 2.0
SETTINGS = library.Frozen({"scale": 1.0})
TABLE = np.arange(4.0, dtype=np.float32)

class Config:
    def __init__(self):
        self.scale = 3.0

config = Config()

def make(offset):
    def step(state, x, n=2, *, power=1.0):
        print("traced")
        for _ in range(n):
            x = middle.middle(x, state["w"]) * RATE * SETTINGS["scale"] + offset
        with open(os.environ["DATA"]) as file:
            x = x + json.load(file)
        return {"x": x ** power, "w": state["w"] * config.scale + TABLE.sum(), "e": float(os.environ.get("EPS", "0"))}
    return step

step = make(1.0)
"""
MIDDLE = "from package.far import far\n\ndef middle(x, w):\n    return far(x) @ w\n"
FAR = "import jax.numpy as jnp\nimport library\n\ndef far(x):\n    return jnp.sin(x) * library.factor()\n"
LIBRARY = """
from collections.abc import Mapping

def factor():
    return 0.5

class Frozen(Mapping):
    def __init__(self, items):
        self._items, self._hash = dict(items), None

    def __getitem__(self, name):
        return self._items[name]

    def __iter__(self):
        return iter(self._items)

    def __len__(self):
        return len(self._items)

    def __hash__(self):
        self._hash = self._hash or hash(tuple(self._items.items()))
        return self._hash
"""
PROGRAM = """
import contextlib, hashlib, io, json, sys
import jax, jax.numpy as jnp, numpy as np
import jcache
root, change, options = sys.argv[1:4]
jcache.enable(root, strict=True)
exec(change.partition("|")[0])
from package import far, middle, model
step = model.step
state, x, call = {"w": jnp.eye(4) * 2}, jnp.arange(8.0).reshape(2, 4), {"n": 2, "power": 1.0}
exec(change.partition("|")[2])
jitted = jcache.jit(step, static_argnames=("n",), **json.loads(options))
explanation = jitted.explain(state, x, **call)
with contextlib.redirect_stdout(io.StringIO()) as printed:
    result = jitted(state, x, **call)
    again = jitted(jax.tree_util.tree_map(lambda leaf: leaf + 0, state) if "donate" in options else state, x, **call)
digest = hashlib.sha256()
for leaf in jax.tree_util.tree_leaves(result):
    digest.update(f"{leaf.dtype}{leaf.shape}{leaf.weak_type}".encode() + np.asarray(leaf).tobytes())
print(json.dumps({"traced": printed.getvalue().count("traced"), "digest": digest.hexdigest(), "hit": explanation.hit,
                  "why": str(explanation), "changes": explanation.changes,
                  "tree": str(jax.tree_util.tree_structure(result))}))
"""


class Place:
    """A program, what it imports and reads, and a root."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.root = base / "root"
        package = base / "code" / "package"
        package.mkdir(parents=True)
        self.files = {
            "model": package / "model.py", "middle": package / "middle.py", "far": package / "far.py",
            "library": base / "site-packages" / "library.py",
            "metadata": base / "site-packages" / "library-1.0.dist-info" / "METADATA", "data": base / "data.json",
        }  # fmt: skip
        self.files["metadata"].parent.mkdir(parents=True)
        (package / "__init__.py").touch()
        texts = {
            "model": MODEL, "middle": MIDDLE, "far": FAR, "library": LIBRARY, "data": "0.25",
            "metadata": "Metadata-Version: 2.1\nName: library\nVersion: 1.0\n",
        }  # fmt: skip
        for name, text in texts.items():
            self.files[name].write_text(text)
        (self.files["metadata"].parent / "RECORD").write_text("library.py,,\nlibrary-1.0.dist-info/METADATA,,\n")

    def run(self, change: str = "|", options: str = "{}", **env: str) -> Any:
        """What the program says, with a statement before its imports, and one before its call."""
        paths = f"{self.base / 'code'}:{self.base / 'site-packages'}"
        settings = {"PYTHONPATH": paths, "DATA": str(self.files["data"]), **env}
        return run(PROGRAM, self.root, change, options, env=settings).value

    def edit(self, name: str, old: str, new: str) -> None:
        text = self.files[name].read_text()
        assert old in text
        self.files[name].write_text(text.replace(old, new))


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, Any]:
    """A place, and what the first run in it has said."""
    place = Place(tmp_path_factory.mktemp("place"))
    return place, place.run()


@pytest.fixture
def place(first: tuple[Place, Any], tmp_path: Path) -> Iterator[Place]:
    """The place as it was after that run; put back afterwards."""
    for name in ("code", "site-packages", "root", "data.json"):
        source = first[0].base / name
        shutil.copytree(source, tmp_path / name) if source.is_dir() else shutil.copy2(source, tmp_path / name)
    yield first[0]
    for name in ("code", "site-packages", "root", "data.json"):
        target = first[0].base / name
        if target.is_dir():
            shutil.rmtree(target)
            shutil.copytree(tmp_path / name, target)
        else:
            shutil.copy2(tmp_path / name, target)


@pytest.mark.smoke(since="0.6")
def test_a_second_process_does_not_trace(first: tuple[Place, Any], place: Place) -> None:
    """The user's code does not run, and the results are the same to the last bit."""
    cold, warm = first[1], place.run()
    assert cold["traced"] == 1 and not cold["hit"]
    assert warm["traced"] == 0 and warm["hit"], warm["why"]
    assert (warm["digest"], warm["tree"]) == (cold["digest"], cold["tree"])
    with Store(open_root(place.root)) as store:
        assert verify(store, VerifyRequest()).findings == []
        assert len(store.entries([Kind.TRACES])) == 2


EDITS = {  # in a file: the old text, the new one, and what `explain` says has changed
    "the body": ("model", "* RATE", "/ RATE", "function"),
    "a helper two modules away": ("far", "jnp.sin(x)", "jnp.cos(x)", "far"),
    "a closure's value": ("model", "make(1.0)", "make(1.5)", "1.0 → 1.5"),
    "a module's global": ("model", "RATE = 2.0", "RATE = 3.0", "RATE 2.0 → 3.0"),
    "a default": ("model", "power=1.0", "power=2.0", "default"),
    "an attribute of a captured object": ("model", "self.scale = 3.0", "self.scale = 4.0", "scale=3.0 → scale=4.0"),
    "a captured array's content": ("model", "np.arange(4.0,", "np.arange(1.0, 5.0,", "TABLE"),
    "a distribution's version": ("metadata", "Version: 1.0", "Version: 1.1", "library 1.0 → 1.1"),
    "a file that is read while tracing": ("data", "0.25", "0.75", "data.json"),
}  # fmt: skip


WITHOUT_EFFECT = {"a default", "a distribution's version"}


@pytest.mark.parametrize("what", EDITS)
def test_an_edit_is_a_miss_that_is_explained(first: tuple[Place, Any], place: Place, what: str) -> None:
    """Whatever the function was traced from has changed, it is traced anew, and `explain` tells what it was."""
    name, old, new, why = EDITS[what]
    place.edit(name, old, new)
    if what == "a distribution's version":
        moved = place.files["metadata"].parent
        moved.rename(moved.with_name("library-1.1.dist-info"))
    said = place.run()
    assert (said["hit"], said["traced"]) == (False, 1)
    assert why in said["why"] and len(said["changes"]) <= 2, said["why"]
    assert (said["digest"] == first[1]["digest"]) == (what in WITHOUT_EFFECT)
    if what != "a distribution's version":
        again = place.run()
        assert (again["traced"], again["digest"]) == (0, said["digest"])


CALLS = {  # statements before the imports, and before the call; what `explain` says has changed
    "a static argument": ("|call['n'] = 3", "n 2 → 3"),
    "a dtype": ("|x = x.astype(jnp.bfloat16)", "float32[2,4] → bfloat16[2,4]"),
    "a weak type": ("|call['power'] = 2.0 * jnp.ones(())", "float32[] weak → float32[]"),
    "a shape": ("|x = x[:1]", "float32[2,4] → float32[1,4]"),
    "a structure": ("|state = dict(state, more=x)", "state nothing → 'more': *"),
    "a sharding": (
        "|from jax.sharding import *; there = NamedSharding(Mesh(jax.devices(), 'd'), PartitionSpec('d'));"
        "x = jax.device_put(x, there)",
        "float32[2,4] → float32[2,4] of sharding",
    ),
    "x64": ("jax.config.update('jax_enable_x64', True)|", "jax_enable_x64 False → True"),
    "matmul precision": (
        "jax.config.update('jax_default_matmul_precision', 'float32')|", "jax_default_matmul_precision None → 'float32'"
    ),
    "a monkeypatched function": ("|import library; library.factor = lambda: 2.0", "<lambda>` is new"),
    "a monkeypatched function of JAX's": ("|import jax; jax.numpy.sin = jax.numpy.cos", "argument 2 changed"),
    "a monkeypatched helper": ("|middle.far = lambda x: x", "far"),
    "an attribute that is set": ("|model.config.scale = 5.0", "config scale=3.0 → scale=5.0"),
    "an array that is changed": ("|model.TABLE[0] = 9", "TABLE"),
}  # fmt: skip


@pytest.mark.parametrize("what", CALLS)
def test_another_call_is_a_miss_that_is_explained(place: Place, what: str) -> None:
    """A call of other types, options or circumstances is traced, and `explain` tells what is different."""
    change, why = CALLS[what]
    said = place.run(change)
    assert (said["hit"], said["traced"]) == (False, 1), said["why"]
    assert why in said["why"], said["why"]


@pytest.mark.full
@pytest.mark.smoke(since="0.6")
def test_an_environment_variable_read_while_tracing_counts(place: Place) -> None:
    """A variable that the function asked for, and which was not there, is there now."""
    said = place.run(EPS="0.5")
    assert (said["hit"], said["traced"]) == (False, 1)
    assert "EPS None → '0.5'" in said["why"]


def test_what_does_not_matter_is_compared_once(place: Place) -> None:
    """Comments, docstrings, moved lines, other functions and hash seeds make another world, with the same program."""
    place.edit("far", "def far(x):", '# sine\n\n\ndef far(x):\n    """The sine."""')
    place.edit("model", "step = make(1.0)", "def other():\n    return 3\n\nstep = make(1.0)")
    for hit, traced in ((False, 1), (True, 0)):
        said = place.run("|x = x + 0; hash(model.SETTINGS)", PYTHONHASHSEED="7", UNRELATED="1")
        assert (said["hit"], said["traced"]) == (hit, traced), said["why"]


CHECKED = """
import gc, json, os, sys, warnings
import jax.numpy as jnp
import jcache
jcache.enable(sys.argv[1], strict=True)
gc.set_threshold(int(os.environ["GC" + "LIMIT"]))

@jcache.jit(check="always")
def step(x):
    return x * (5.0 if gc.get_threshold()[0] > 4000 else 2.0)  # which nothing tells jcache of

with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    values = step(jnp.ones(3)).tolist()
print(json.dumps([values, [str(w.message) for w in heard]]))
"""


@pytest.mark.full
@pytest.mark.smoke(since="0.6")
def test_a_check_finds_what_no_key_shows(tmp_path: Path) -> None:
    """With ``check="always"`` a trace that tracing does not give any more is warned of, and served no more here."""
    root, seed = tmp_path / "root", {"PYTHONHASHSEED": "0"}
    assert run(CHECKED, root, env={"GCLIMIT": 4000, **seed}).value == [[2.0] * 3, []]
    assert run(CHECKED, root, env={"GCLIMIT": 4000, **seed}).value == [[2.0] * 3, []]
    values, heard = run(CHECKED, root, env={"GCLIMIT": 4001, **seed}).value
    assert values == [5.0] * 3 and len(heard) == 1
    assert "dense<2.000000e+00>" in heard[0] and "dense<5.000000e+00>" in heard[0]
    assert run(CHECKED, root, env={"GCLIMIT": 4000, **seed}).value == [[2.0] * 3, []]


NODES = """
import contextlib, io, json, sys
from functools import cached_property
import jax, jax.numpy as jnp
from flax import struct
import jcache
jcache.enable(sys.argv[1], strict=True)

class Node(struct.PyTreeNode):
    a: jax.Array
    memo: jax.Array | None = None

    @cached_property
    def b(self):
        print("b is computed")
        return self.a + 1

    def use_b(self):
        return self.b * 2

    @jcache.jit
    def b_jitted(self):
        return self.b

    @jcache.jit
    def use_b_jitted(self):
        return self.use_b()

    @jcache.jit
    def grown(self):
        return self.replace(a=self.a + 1, memo=self.a)

with contextlib.redirect_stdout(io.StringIO()) as printed:
    node = Node(jnp.ones(3))
    outside = node.b.tolist()
    inside = [node.b_jitted().tolist(), node.use_b_jitted().tolist(), node.use_b_jitted().tolist()]
    grown = node.grown().grown()
    again = grown.b_jitted().tolist()
print(json.dumps([printed.getvalue().count("computed"), outside, inside, type(grown).__name__, grown.a.tolist(),
                  grown.memo.tolist(), again]))
"""


def test_a_node_with_a_cached_property_and_a_cache_field(tmp_path: Path) -> None:
    """Numbers are the same; a property is computed once outside, and in a second process not while anything is jitted.

    A field that is set makes another structure, and so another trace.
    """
    pytest.importorskip("flax")
    cold, *values = run(NODES, tmp_path / "root").value
    assert cold == 4 and values == [
        [2.0] * 3, [[2.0] * 3, [4.0] * 3, [4.0] * 3], "Node", [3.0] * 3, [2.0] * 3, [4.0] * 3
    ]  # fmt: skip
    assert run(NODES, tmp_path / "root").value == [1, *values]


CHANGING = """
import functools, json, sys
import jax.numpy as jnp, numpy as np
import jcache
jcache.enable(sys.argv[1], strict=True)
TABLE, SHAPES, rng = None, {}, np.random.default_rng(0)

class Model:
    size = 3

    @functools.cached_property
    def table(self):
        return np.arange(self.size, dtype=np.float32)

model = Model()

@functools.lru_cache
def memo(size):
    return np.arange(size, dtype=np.float32)

def lazily(x):
    global TABLE
    TABLE = np.arange(3.0) if TABLE is None else TABLE
    return x * TABLE

def drawing(x):
    return x + rng.spawn(1)[0].normal(size=3)

def setting(x):
    model.offset = 4.0
    return x + model.size

def keeping(x):
    return x * model.table * memo(3)

LATER = {"lazily": lambda: TABLE.sum(), "drawing": lambda: rng.spawn(1)[0].normal(),
         "setting": lambda: model.offset, "keeping": lambda: model.table.sum()}
step = jcache.jit(globals()[sys.argv[2]], check="never")
explanation = step.explain(jnp.ones(3))
value = step(jnp.ones(3)).tolist()
print(json.dumps([[value, float(np.sum(LATER[sys.argv[2]]()))], explanation.hit, str(explanation)]))
"""


def test_what_tracing_changes_is_changed_in_each_process(tmp_path: Path) -> None:
    """A function that changes what no hit can set again is traced as ever, and `explain` says so."""
    cold, warm = (run(CHANGING, tmp_path / "root", "drawing").value for _ in range(2))
    assert warm[:2] == cold[:2] == [cold[0], False]
    assert "miss, tracing it changes its key: global rng numpy.random" in warm[2]


@pytest.mark.parametrize("name", ["lazily", "setting"])
def test_what_a_hit_sets_again_is_no_reason_to_trace(tmp_path: Path, name: str) -> None:
    """A table that is made on first use, and an attribute."""
    cold, warm = (run(CHANGING, tmp_path / "root", name).value for _ in range(2))
    assert (warm[0], cold[1], warm[1]) == (cold[0], False, True)


def test_what_functools_keeps_is_no_change(tmp_path: Path) -> None:
    """A cached property or function that is asked for the first time while something is traced is no reason."""
    cold, warm = (run(CHANGING, tmp_path / "root", "keeping").value for _ in range(2))
    assert (cold[1], warm[1], warm[0]) == (False, True, cold[0]), warm[2]


PLACES = """
import json, sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import jcache
jcache.enable(sys.argv[1], strict=True)

@jcache.jit(check="never")
def step(x, y):
    sys.stderr.write("traced\\n")
    return {"x": x, "y": jnp.sin(y) * x.sum()}

mesh = Mesh(np.array(jax.devices()), ("x",))
whole = NamedSharding(mesh, P())
first, second = jax.devices()
places = {"first": lambda x: x, "second": lambda x: jax.device_put(x, second)}
places["both"] = lambda x: jax.device_put(x, whole)
said = []
for place in sys.argv[2:]:
    out = step(places[place](jnp.arange(8.0)), places[place](jnp.ones(3)))
    said.append([out["y"].tolist(), sorted(device.id for device in out["y"].sharding.device_set)])
compiled = [one for one in jcache.stats().programs if one.name == "jit_step" and one.outcome != "hit"]
print(json.dumps([said, len(compiled)]))
"""
DEVICES = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}


def test_calls_of_the_same_types_in_other_places(tmp_path: Path) -> None:
    """JAX compiles what it has traced once more for other devices; later processes neither trace nor compile these.

    A place that no process has seen is compiled from the trace, or traced in its turn, and then is as good.
    """
    places = ["first", "second", "both", "first"]
    cold = run(PLACES, tmp_path / "root", *places, env=DEVICES)
    warm = run(PLACES, tmp_path / "root", *places, env=DEVICES)
    assert "traced" in cold.err and "traced" not in warm.err
    assert warm.value == [cold.value[0], 0] and cold.value[0][1][1] == [1]
    root = tmp_path / "other"
    run(PLACES, root, "first", env=DEVICES)
    there = run(PLACES, root, "both", "second", "first", env=DEVICES)
    assert [values for values, _ in there.value[0]] == [cold.value[0][0][0]] * 3
    again = run(PLACES, root, "both", "second", "first", env=DEVICES)
    assert again.value == [there.value[0], 0] and "traced" not in again.err


def test_a_damaged_program_is_traced_anew(tmp_path: Path) -> None:
    """It goes to quarantine with one warning, the result is the right one, and the next process starts warm."""
    root = tmp_path / "root"
    cold = run(PLACES, root, "first", env=DEVICES)
    (program,) = (root / "traces-v1").glob("*.stablehlo-*-cache")
    data = bytearray(program.read_bytes())
    data[-1] ^= 1
    program.write_bytes(data)
    said = run(PLACES, root, "first", env=DEVICES)
    assert said.value[0] == cold.value[0] and "in quarantine now" in said.err and said.err.count("traced\n") == 1
    assert "traced" not in run(PLACES, root, "first", env=DEVICES).err


def test_an_executable_that_has_gone_is_compiled_once(tmp_path: Path) -> None:
    """It is compiled from the trace's own program, without tracing, and the process after that loads it."""
    root = tmp_path / "root"
    run(PLACES, root, "first", env=DEVICES)
    for executable in (root / "executables").glob("jit_step-*"):
        executable.unlink()
    said = run(PLACES, root, "first", env=DEVICES)
    assert said.value[1] == 1 and "traced" not in said.err
    assert run(PLACES, root, "first", env=DEVICES).value[1] == 0


KEPT = """
import json, sys, jax.numpy as jnp, jcache
from jcache.traces.trace_places import traces_in_use
jcache.enable(sys.argv[1], strict=True)
shelves = []
for scale in (2.0, 3.0):
    jcache.jit(lambda x: x * scale)(jnp.ones(3))
    shelves.append(traces_in_use().store)
print(json.dumps(shelves[0] is shelves[1]))
"""


@pytest.mark.smoke(since="0.6")
def test_the_store_is_kept(tmp_path: Path) -> None:
    """First calls of several functions share one open store."""
    assert run(KEPT, tmp_path / "root").value is True


INTERRUPTED = """
import json, sys, jax, jax.numpy as jnp, jcache
jcache.enable(sys.argv[1], strict=True)
x = jnp.ones(3)
interrupting = []

@jax.monitoring.register_event_listener
def interrupt(event, **_):
    if interrupting and event.endswith("compile_requests_use_cache"):
        raise interrupting.pop()

@jcache.jit(check="never")
def doubled(x):
    return x * 2

@jcache.jit(check="never")
def other(x):
    return x + 1

other(x)
if len(sys.argv) > 2:
    interrupting.append(KeyboardInterrupt())
    try:
        doubled(x)
    except KeyboardInterrupt:
        pass
    jax.jit(lambda x: x * 5)(x)
    other(x)
    sys.argv.pop()
else:
    other(x)
print(json.dumps([doubled.explain(x).hit, doubled(x).tolist()]))
"""


def test_an_interrupted_call_stores_nothing_of_another(tmp_path: Path) -> None:
    """After Ctrl-C in the middle of compiling a function, the next program that is compiled is not taken for it."""
    assert run(INTERRUPTED, tmp_path / "root", "interrupt").value == [False, [2.0] * 3]
    assert run(INTERRUPTED, tmp_path / "root").value == [True, [2.0] * 3]


CALLBACK = """
import json, sys
import jax, jax.numpy as jnp, numpy as np
import jcache
jcache.enable(sys.argv[1], strict=True)

def host(x):
    return np.asarray(jnp.sin(np.asarray(x)))  # a program of its own, compiled while the other one runs

@jcache.jit(check="never")
def step(x):
    return jax.pure_callback(host, jax.ShapeDtypeStruct((3,), jnp.float32), x) + 100

result = step(jnp.arange(3.0)).tolist()
(call,) = [call for call in jcache.stats().traces.calls if call.name.endswith("step")]
print(json.dumps([result, call.outcome, call.reason]))
"""


def test_what_a_callback_compiles_is_not_stored_in_its_callers_place(tmp_path: Path) -> None:
    """A program whose callback runs JAX itself is stored and served, and the callback is called."""
    cold, warm = (run(CALLBACK, tmp_path / "root").value for _ in range(2))
    assert cold[0] == warm[0] and min(cold[0]) >= 100
    assert [cold[1], warm[1]] == ["stored", "hit"]


ASKING = """
import json, sys
import jax, jax.numpy as jnp
import jcache
jcache.enable(sys.argv[1], strict=True)

class Model:
    @jcache.jit(check="never", static_argnums=0)
    def split(self, x):
        "Splits."
        return x.reshape(jax.device_count(), -1).mean(0)

    def __cache_key__(self):
        return "model"

model, x = Model(), jnp.arange(8.0)
reason = str(Model.split.explain(model, x))
said = [model.split.__name__, model.split.__doc__, model.split.__self__ is model, model.split == model.split]
print(json.dumps([model.split(x).tolist(), reason, said]))
"""


def test_how_many_devices_there_are_counts(tmp_path: Path) -> None:
    """A function may ask for it; and a method is one of its object, as with `jax.jit`."""
    one = run(ASKING, tmp_path / "root").value
    two = run(ASKING, tmp_path / "root", env=DEVICES).value
    assert one[0] == list(range(8)) and two[0] == [2.0, 3.0, 4.0, 5.0]
    assert "number of devices 1 (local: 1) → 2" in two[1] and two[2] == ["split", "Splits.", True, True]


THREADS = """
import json, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
import jax.numpy as jnp
import jcache
jcache.enable(sys.argv[1], strict=True)
WAY = sys.argv[2]
barrier = threading.Barrier(16)

def helper(x, i):
    return jnp.sin(x) * 2 + i

@jcache.jit
def step(x):
    time.sleep(0)  # lets other threads go on
    for i in range(50):
        x = helper(x, i)
    return x.sum()

def work(number):
    if WAY == "together":
        barrier.wait()
    if WAY == "beside other work":
        helper(jnp.ones(number + 1), 1)
    return float(step(jnp.ones(3 + (number if WAY == "of other types" else 0))))

if WAY == "one after another":
    threads = [threading.Thread(target=work, args=[number]) for number in range(16)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    results = [work(0)]
else:
    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(work, range(16)))
traces = jcache.stats().traces
print(json.dumps([results, traces.hits, traces.stored, traces.not_stored + traces.bypassed]))
"""


@pytest.mark.parametrize("way", ["together", "beside other work", "of other types", "one after another"])
def test_threads_that_make_the_first_call_together(way: str, tmp_path: Path) -> None:
    """16 threads get what one gets, the trace is stored, and the next process's 16 threads are served."""
    count = 16 if way == "of other types" else 1
    cold, warm = (run(THREADS, tmp_path / "root", way).value for _ in range(2))
    assert cold[1:] == [0, count, 0] and warm[1:] == [count, 0, 0] and cold[0] == warm[0]


NAMED_SELF = """
import json, sys
import jax, jax.numpy as jnp
import jcache
jcache.enable(sys.argv[1], strict=True)

def scaled(self, x, *, function=1.0, args=2.0, kwargs=3.0):
    return self * x + function * args * kwargs

x, said = jnp.ones(2), []
given = {"self": 2.0, "x": x, "function": 5.0, "args": 7.0, "kwargs": 11.0}
for jit in (jax.jit, jcache.jit):
    step = jit(scaled)
    lowered, traced = step.lower(**given).out_info, step.trace(**given).out_info
    said.append([step(**given).tolist(), [str(each) for each in (lowered, traced, step.eval_shape(**given))]])
spec = jcache.Spec(**given)
[done] = jcache.precompile(jcache.jit(scaled), spec)
print(json.dumps([said[0] == said[1], jcache.jit(scaled).explain(**given).hit, done.outcome, sorted(spec.kwargs)]))
"""


@pytest.mark.jax
def test_arguments_may_have_any_name(tmp_path: Path) -> None:
    """Those that jcache's own functions use too, `self` among them, in each thing that takes a call's arguments."""
    names = ["args", "function", "kwargs", "self", "x"]
    assert run(NAMED_SELF, tmp_path / "root").value == [True, True, "hit", names]


UNFIT = """
import dataclasses, json, operator, sys, types
import jax, jax.numpy as jnp, numpy as np
import jcache
jcache.enable(sys.argv[1], strict=True)

class NoWeakReference:
    __slots__ = ()
    def __call__(self, x):
        return x * 2

@dataclasses.dataclass
class Unhashable:
    by: float = 2.0
    def __call__(self, x):
        return x * self.by

@dataclasses.dataclass(frozen=True)
class UnhashablePart:
    by: object
    def __call__(self, x):
        return x * self.by[0]

which = int(sys.argv[3])
function = [operator.methodcaller("sum"), np.negative, NoWeakReference(), operator.itemgetter(0), Unhashable(),
            UnhashablePart([2.0]), operator.neg, jnp.negative][which]
jitted = {"jax": jax.jit, "jcache": jcache.jit}[sys.argv[2]](function)  # one alone: JAX does not survive two of these
said = []
for _ in range(2):
    try:
        said.append(jitted(jnp.ones(3)).tolist())
    except TypeError as error:
        said.append(f"TypeError: {error}")
print(json.dumps(said))
"""


@pytest.mark.jax
@pytest.mark.parametrize("which", range(8))
def test_a_callable_that_jax_refuses_is_refused(which: int, tmp_path: Path) -> None:
    """What has no weak references or no hash is a TypeError with the same words as with `jax.jit`, each time."""
    theirs = run(UNFIT, tmp_path / "root", "jax", which).value
    assert [run(UNFIT, tmp_path / "root", "jcache", which).value for _ in range(2)] == [theirs, theirs]


TOGETHER = """
import json, sys, threading
import jax.numpy as jnp
import jcache
jcache.enable(sys.argv[1], strict=True)
class Model:
    def step(self, x):
        for _ in range(300):
            x = x * 2
        return x
model, barrier = Model(), threading.Barrier(8)
def call():
    barrier.wait(60)
    jcache.jit(model.step)(jnp.ones(3))
threads = [threading.Thread(target=call) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(json.dumps(sorted({call.reason for call in jcache.stats().traces.calls if call.outcome != "hit"})))
"""


@pytest.mark.jax
def test_threads_that_trace_one_call_together_are_told_so(tmp_path: Path) -> None:
    """The first stores it; of the others that do not hit it, no reason is told that is not so."""
    reasons = set(run(TOGETHER, tmp_path / "root").value)
    assert reasons <= {"nothing of this name was there", "another thread or process has stored it meanwhile"}, reasons


OPTIONS = """
import json, sys
import jax, jax.numpy as jnp
from jax.sharding import SingleDeviceSharding
import jcache
jcache.enable(sys.argv[1], strict=True)

def f(x, unused):
    return x * 2

here = SingleDeviceSharding(jax.devices()[0])
several = [{}, {"keep_unused": True}, {"out_shardings": here}, {"donate_argnums": 0}, {"in_shardings": here},
           {"keep_unused": True, "donate_argnums": 0}]
results = [jcache.jit(f, **options)(jnp.ones(3), jnp.ones(4)).tolist() for options in several]
print(json.dumps([results, [call.outcome for call in jcache.stats().traces.calls]]))
"""


def test_a_function_that_is_jitted_with_several_options_is_stored_for_each(tmp_path: Path) -> None:
    """Unused arguments that are kept, shardings and donation, one after the other in one process."""
    cold, warm = (run(OPTIONS, tmp_path / "root").value for _ in range(2))
    assert cold[0] == warm[0] == [[2.0] * 3] * 6
    assert cold[1] == ["stored"] * 6 and warm[1] == ["hit"] * 6


AGAIN = """
import copy, gc, json, sys, weakref
import jax.numpy as jnp
import jcache
jcache.enable(sys.argv[1], strict=True)

def local(rate):
    traced = 0
    class Callable:
        def __call__(self, w):
            return w * rate
    def step(w):
        return w * rate
    w, function = jnp.ones(3), Callable()
    for _ in range(3):
        w = jcache.jit(function)(jcache.jit(step)(w))
    rate = 10.0
    w = jcache.jit(step)(w)
    def other(x):
        return x * rate
    jitted = jcache.jit(other, depends_on=lambda: other.__name__)
    assert copy.deepcopy(jitted)(w).tolist() == jitted(w).tolist()
    assert copy.deepcopy(jitted).__wrapped__ is other
    return w.tolist(), [weakref.ref(each) for each in (step, function, other)]

w, refs = local(2.0)
gc.collect()
gone = [each() is None for each in refs]
print(json.dumps([w, gone, len(jcache.stats().traces.calls)]))
"""


def test_a_function_is_looked_up_once_however_often_it_is_jitted(tmp_path: Path) -> None:
    """As long as it lives, it is the same function with the same options, as for JAX; nothing keeps it alive."""
    for _ in range(2):
        w, gone, calls = run(AGAIN, tmp_path).value
        assert (w, gone, calls) == ([128.0] * 3, [True] * 3, 4)
