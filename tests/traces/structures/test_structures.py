"""Structures of pytrees, in keys and beside stored results."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.helpers.jax_programs import run
from tests.helpers.structure_peers import Peer

pytestmark = pytest.mark.jax


TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)
DUMPED = (
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
    | st.builds(lambda value: {"bytes": value.hex()}, st.binary(max_size=5))
    | st.sampled_from([{"infinite": 1}, {"complex": [0.5, -1.0]}, "\udc80"])
)
WRITTEN = (
    DUMPED
    | st.just({"sentinel": 1})
    | st.sampled_from([{"named": name} for name in ("Pair", "len", "make_local", "sin")])
)
AUXES = st.recursive(
    WRITTEN | st.sampled_from([{"local": "f"}, {"local": "g"}]),
    lambda parts: (
        st.lists(parts, max_size=3)
        | st.builds(lambda items: {"tuple": items}, st.lists(parts, max_size=3))
        | st.builds(
            lambda items: {"dict": [[*item] for item in items.items()]}, st.dictionaries(TEXTS, parts, max_size=3)
        )
    ),
    max_leaves=5,
)
KEYS = st.one_of([st.lists(kind, unique=True, max_size=3) for kind in (TEXTS, st.integers(-9, 9), st.floats(-9, 9))])


def nodes(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(children, max_size=3)
    with_keys = st.tuples(st.sampled_from(["dict", "ordered", "default"]), KEYS).flatmap(
        lambda kind: st.tuples(*map(st.just, kind), st.lists(children, min_size=len(kind[1]), max_size=len(kind[1])))
    )
    return st.one_of(
        st.tuples(st.sampled_from(["tuple", "list", "partial"]), st.none(), some),
        with_keys,
        st.tuples(st.just("pair"), st.none(), st.lists(children, min_size=2, max_size=2)),
        st.tuples(st.just("dataclass"), AUXES, st.lists(children, min_size=1, max_size=1)),
        st.tuples(st.just("static"), DUMPED, st.just([])),
        st.tuples(st.sampled_from(["custom", "keys", "local"]), AUXES, some),
    )


TREES = st.recursive(st.just("leaf") | st.none(), nodes, max_leaves=8)


def unnameable(recipe: Any) -> set[str]:
    """The classes and functions of a recipe that only likes can provide."""
    text = json.dumps(recipe)
    return {what for what in ('["local"', '{"local": "f"}', '{"local": "g"}') if what in text}


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(result=TREES, likes=st.lists(TREES, max_size=3))
def test_any_structure_is_the_same_in_another_process(peers: tuple[Peer, Peer], result: Any, likes: list[Any]) -> None:
    """What one process encodes, another one decodes to the same; refused is only what nobody could find there."""
    said = peers[0].ask(encode=result, likes=likes)
    if not unnameable(result):
        assert "encoded" in said
    if "encoded" in said:
        found = peers[1].ask(decode=said["encoded"], likes=likes, equals=[result])
        assert found["equal"]
    else:
        assert said["refused"][0] == "NotStorable"


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(part=TREES, aux=AUXES)
def test_what_is_like_an_argument_can_be_anything(peers: tuple[Peer, Peer], part: Any, aux: Any) -> None:
    """Parts of arguments are stored as such, whatever is in them, and so is what a node has beside its children."""
    likes = ["leaf", ["list", None, [part, "leaf"]], ["custom", {"tuple": [1, aux]}, []]]
    result = ["dict", ["a", "b"], [part, ["keys", [aux], ["leaf"]]]]
    said = peers[0].ask(encode=result, likes=likes)
    assert peers[1].ask(decode=said["encoded"], likes=likes, equals=[result])["equal"]


LIBRARIES = {
    "flax": "from flax import struct\nimport flax.linen as nn\nfrom flax.core import freeze\n"
    "class State(struct.PyTreeNode):\n    x: object\n"
    "    f: object = struct.field(pytree_node=False, default=jax.nn.relu)\n"
    "@struct.dataclass\nclass Data:\n    x: object\n    n: int = struct.field(pytree_node=False, default=3)\n"
    "trees = [State({'a': 1}), Data(State(2), 4), freeze({'a': 1})]",
    "optax": "import optax\ntrees = [optax.chain(optax.clip(1.0), optax.adamw(1e-3)).init({'w': 1.0, 'b': (2.0,)})]",
    "equinox": "import equinox as eqx\n"
    "class Module(eqx.Module):\n    x: object\n    n: int = eqx.field(static=True, default=3)\n"
    "mlp = eqx.nn.MLP(2, 2, 4, 1, key=jax.random.key(0))\n"
    "trees = [eqx.partition(mlp, eqx.is_array)[0], Module(1), Module((mlp.layers, None))]",
    "chex": "import chex\n@chex.dataclass\nclass Data:\n    x: object\n    y: object\ntrees = [Data(x=1, y=(2, None))]",
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_nodes_of_libraries_round_trip(library: str, tmp_path: Path) -> None:
    """Without anything like them among the arguments, in another process, and with the same key."""
    pytest.importorskip(library)
    (tmp_path / "trees.py").write_text(f"import jax\n{LIBRARIES[library]}\n")
    program = (
        "import json, sys, jax, trees\nfrom jcache.traces.structures import Structure, decode, encode\n"
        "from jcache.fingerprint import fingerprint\n"
        "def f(x): pass\n"
        "structures = [jax.tree_util.tree_structure(tree) for tree in trees.trees]\n"
        "encoded = json.loads(sys.argv[1]) or [encode(structure, []) for structure in structures]\n"
        "assert [decode(each, []) for each in encoded] == structures\n"
        "print(json.dumps([encoded, [fingerprint(f, (Structure(each),)).hash for each in structures]]))"
    )
    encoded, keys = run(program, "null", cwd=tmp_path, env={"PYTHONHASHSEED": 1}).value
    assert run(program, json.dumps(encoded), cwd=tmp_path, env={"PYTHONHASHSEED": 2}).value == [encoded, keys]
