"""Structures and leaves of pytrees in keys."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.jax_programs import run

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.jax
START = "from tests.helpers.pytree_nodes import *\nimport json\n"

KEYS_APART: list[tuple[Any, ...]] = [
    ("leaf", None, ["tuple", None, []], ["list", None, []], ["dict", [], []]),
    (["dict", ["a"], ["leaf"]], ["dict", ["b"], ["leaf"]], ["ordered", ["a"], ["leaf"]], ["default", ["a"], ["leaf"]]),
    (["dict", [1], ["leaf"]], ["dict", [1.0], ["leaf"]], ["dict", [True], ["leaf"]], ["dict", ["1"], ["leaf"]]),
    (["ordered", ["a", "b"], ["leaf", "leaf"]], ["ordered", ["b", "a"], ["leaf", "leaf"]]),
    (["tuple", None, ["leaf", ["list", None, ["leaf"]]]], ["tuple", None, ["leaf", ["list", None, []], "leaf"]]),
    (["custom", 1, ["leaf"]], ["custom", 2, ["leaf"]], ["keys", 1, ["leaf"]], ["custom", 1, ["leaf", "leaf"]]),
    (["dataclass", "a", ["leaf"]], ["dataclass", "b", ["leaf"]], ["static", "a", []], ["static", "b", []]),
    (["pair", None, ["leaf", "leaf"]], ["tuple", None, ["leaf", "leaf"]], ["list", None, ["leaf", "leaf"]]),
]


def test_keys_tell_structures_apart_in_every_process() -> None:
    """Different structures have different keys, and equal ones the same, whatever the hash seed."""
    program = START + "print(json.dumps([[key(recipe) for recipe in row] for row in json.loads(sys.argv[1])]))"
    first = run(program, json.dumps(KEYS_APART), cwd=ROOT, env={"PYTHONHASHSEED": 1}).value
    assert all(len(set(row)) == len(row) for row in first)
    assert run(program, json.dumps(KEYS_APART), cwd=ROOT, env={"PYTHONHASHSEED": 2}).value == first


def test_the_order_of_a_dict_is_none_of_a_key() -> None:
    """JAX sorts the keys of a dict."""
    program = START + "print(json.dumps([key(['dict', k, ['leaf', 'leaf']]) for k in (['a', 'b'], ['b', 'a'])]))"
    first, second = run(program, cwd=ROOT).value
    assert first == second


CLASS = """
import jax
class Node:
    def __init__(self, x): self.x = x
    def twice(self): return self.x * 2
def take_apart(node): return ({apart},), None
def put_together(aux, children): return Node({together})
jax.tree_util.{register}
"""
REGISTERED = {
    "functions": "register_pytree_node(Node, take_apart, put_together)",
    "functions with keys": "register_pytree_with_keys(Node, lambda n: ((('x', n.x),), None), put_together, take_apart)",
}


@pytest.mark.parametrize("how", REGISTERED)
def test_the_code_of_nodes_is_a_part_of_keys(how: str, tmp_path: Path) -> None:
    """A class, and the functions that it is registered with: each change of them changes the key."""

    def key(apart: str = "node.x", together: str = "*children", twice: str = "2") -> str:
        code = CLASS.format(apart=apart, together=together, register=REGISTERED[how]).replace("* 2", f"* {twice}")
        (tmp_path / "node.py").write_text(code)
        return str(
            run(
                "import json, jax, node\nfrom jcache.fingerprint import fingerprint\n"
                "from jcache.traces.structures import Structure\ndef f(x): pass\n"
                "print(json.dumps(fingerprint(f, (Structure(jax.tree_util.tree_structure(node.Node(1))),)).hash))",
                cwd=tmp_path,
            ).value
        )

    assert key() == key() and len({key(), key(apart="-node.x"), key(together="-children[0]"), key(twice="3")}) == 4


AVALS = {
    "shape": ["jnp.ones(3)", "jnp.ones((3, 1))", "jnp.ones(())"],
    "dtype": ["jnp.ones(3)", "jnp.ones(3, jnp.int32)", "jnp.ones(3, jnp.bfloat16)", "jnp.ones(3, bool)"],
    "weak type": ["jnp.float32(1)", "1.0", "1", "jnp.int32(1)", "True", "1j"],
    "key types": ["jax.random.key(0)", "jax.random.key(0, impl='rbg')", "jax.random.PRNGKey(0)"],
}


@pytest.mark.parametrize("what", AVALS)
def test_leaves_are_told_apart_as_tracing_does(what: str) -> None:
    """By shape, dtype, weak type and kind of key; traced or not, the same leaf has the same key."""
    said = run(
        "import json, jax, jax.numpy as jnp\nfrom jcache.traces.structures import aval_key\n"
        f"leaves = [{', '.join(AVALS[what])}]\n"
        "traced = []\n"
        "jax.jit(lambda *leaves: traced.extend(map(aval_key, leaves)))(*leaves)\n"
        "assert traced == [aval_key(leaf) for leaf in leaves], traced\n"
        "print(json.dumps(traced))"
    )
    assert len({json.dumps(key) for key in said.value}) == len(AVALS[what])


def test_arrays_of_numpy_are_told_apart_as_tracing_does() -> None:
    """A numpy array is what JAX makes of it."""
    said = run(
        "import json, jax, jax.numpy as jnp, numpy as np\nfrom jcache.traces.structures import aval_key\n"
        "print(json.dumps([aval_key(np.ones(3)) == aval_key(jnp.ones(3)), aval_key(np.float64(1)) == aval_key(1.0)]))"
    )
    assert said.value == [True, False]


def test_the_sharding_of_explicit_meshes_counts() -> None:
    """Where tracing sees the sharding, it is a part; where it does not, it is none."""
    said = run(
        "import json, jax, jax.numpy as jnp\nfrom jcache.traces.structures import aval_key\n"
        "from jax.sharding import NamedSharding, PartitionSpec as P\n"
        "AxisType = getattr(jax.sharding, 'AxisType', None)\n"
        "explicit = hasattr(AxisType, 'Explicit') and jax.__version_info__ >= (0, 6)\n"
        "def arrays(kind):\n"
        "    mesh = jax.sharding.Mesh(jax.devices(), ('x',), **({'axis_types': (kind,)} if explicit else {}))\n"
        "    return [jax.device_put(jnp.ones((4, 2)), NamedSharding(mesh, spec)) for spec in (P('x'), P(None, 'x'))]\n"
        "kinds = [getattr(AxisType, kind, None) for kind in ('Auto', 'Explicit')]\n"
        "keys = [{json.dumps(aval_key(array)) for array in arrays(kind)} for kind in kinds]\n"
        "print(json.dumps([explicit, *map(len, keys)]))",
        env={"XLA_FLAGS": "--xla_force_host_platform_device_count=2"},
    )
    explicit, auto, apart = said.value
    assert auto == 1 and apart == (2 if explicit else 1)


def test_what_varies_over_a_mesh_counts() -> None:
    """Within `shard_map` a value that varies over an axis is another than one that does not."""
    said = run(
        "import json, jax, jax.numpy as jnp\nfrom jcache.traces.structures import aval_key\n"
        "from jax.sharding import PartitionSpec as P\n"
        "if not hasattr(jax, 'shard_map'): print(json.dumps(None)); raise SystemExit\n"
        "keys = []\n"
        "def f(x, y): keys.extend([json.dumps(aval_key(x)), json.dumps(aval_key(y))]); return x + y\n"
        "mesh = jax.make_mesh((2,), ('x',), axis_types=(jax.sharding.AxisType.Auto,))\n"
        "jax.jit(jax.shard_map(f, mesh=mesh, in_specs=(P('x'), P()), out_specs=P('x')))(jnp.ones(4), jnp.ones(2))\n"
        "print(json.dumps(keys[0] != keys[1]))",
        env={"XLA_FLAGS": "--xla_force_host_platform_device_count=2"},
    )
    assert said.value in (True, None)


def test_other_leaves_are_refused() -> None:
    """What JAX takes for no array has no key."""
    said = run(
        "import json, jax\nfrom jcache.traces.structures import aval_key\n"
        "from jcache.errors import NotStorable\nsaid = []\n"
        "for leaf in ('text', object(), len):\n"
        "    try: aval_key(leaf)\n"
        "    except NotStorable as refused: said.append(str(refused))\n"
        "print(json.dumps(said))"
    )
    assert [text.split(" is ")[0] for text in said.value] == [
        f"A leaf of type {name}" for name in ("str", "object", "builtin_function_or_method")
    ]


def test_structures_are_told_in_words() -> None:
    """Containers as Python writes them, other nodes by class and what is beside their children; large ones not."""
    program = """
import collections, json
import jax
from jcache.traces.structures.keys import Structure

@jax.tree_util.register_pytree_node_class
class State:
    def __init__(self, *leaves): self.leaves = leaves
    def tree_flatten(self): return self.leaves, len(self.leaves)
    @classmethod
    def tree_unflatten(cls, aux, children): return cls(*children)

Pair = collections.namedtuple("Pair", "left right")
trees = [1, {"b": [1, (2,)], "a": None}, State(1, 2), Pair(1, {}), list(range(100))]
print(json.dumps([Structure(jax.tree.structure(tree)).in_words() for tree in trees]))
"""
    leaf, nested, state, pair, large = run(program).value
    assert (leaf, nested, state, large) == ("*", "{'a': NoneType(), 'b': [*, (*)]}", "State[2](*, *)", None)
    assert pair.startswith("Pair") and pair.endswith("(*, {})")
