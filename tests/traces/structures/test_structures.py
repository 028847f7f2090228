"""Structures of pytrees, in keys and beside stored results."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.helpers.jax_programs import environment, run

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.jax
START = "from tests.helpers.pytree_nodes import *\nimport json\n"


class Peer:
    """A process that encodes or decodes structures."""

    def __init__(self, seed: int) -> None:
        command = [sys.executable, "-c", "from tests.helpers.pytree_nodes import serve; serve()"]
        env = environment({"PYTHONHASHSEED": seed})
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, **question: Any) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())  # type: ignore[no-any-return]

    def end(self) -> None:
        self._process.communicate()
        assert self._process.returncode == 0


@pytest.fixture(scope="module")
def peers() -> Iterator[tuple[Peer, Peer]]:
    """Two processes, of which one encodes and the other one decodes."""
    both = Peer(1), Peer(2)
    yield both
    for peer in both:
        peer.end()


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


SCALARS = st.none() | st.booleans() | st.integers(-3, 9) | st.floats() | st.sampled_from(["*", "like", "antigravity:x"])
TAGS = st.sampled_from(["tuple", "dict", "object", "sentinel", "like", "data", "x"])
JSON = st.recursive(
    SCALARS, lambda parts: st.lists(parts, max_size=4) | st.dictionaries(TAGS, parts, max_size=2), max_leaves=12
)
NAMES = "builtins:dict builtins:tuple builtins:int os:system antigravity:x : collections:OrderedDict"
OURS = [f"tests.helpers.pytree_nodes:{name}" for name in ("Pair", "Custom", "Dataclass")]
CLASSES = st.sampled_from([*NAMES.split(), "collections:defaultdict", *OURS, 0, 1])
HOSTILE = st.lists(st.just("*") | st.integers(-1, 5) | st.none() | st.tuples(CLASSES, JSON, st.integers(-1, 4)) | JSON)


@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(value=HOSTILE | JSON)
def test_hostile_json_is_refused_without_running_anything(peers: tuple[Peer, Peer], value: Any) -> None:
    """Whatever is read, the answer is a structure or a refusal; no class's code runs, and nothing is imported."""
    said = peers[1].ask(decode=value, likes=[["custom", 1, ["leaf"]], "leaf", ["dict", ["a"], [None]]])
    assert said.get("silent") is True or said["refused"][0] in ("DamagedEntry", "Unresolved")


@pytest.mark.smoke
def test_a_structure_is_compact_and_readable() -> None:
    """What the docstring says of the form."""
    said = run(
        START + "from jcache.traces.structures import encode\n"
        "of = jax.tree_util.tree_structure\n"
        "state = {'b': Custom((1, 'x'), 0, None), 'a': [0]}\n"
        "print(json.dumps([encode(of(tree), [of(1), of(state)]) for tree in [\n"
        "    {'b': (0, None), 'a': 1.5}, state, (state['b'], 3), Custom((jax.numpy.sin, {'x': SENTINEL}))]]))",
        cwd=ROOT,
    )
    plain, whole, part, odd = said.value
    assert plain == [["builtins:dict", ["a", "b"], 2], "*", ["builtins:tuple", None, 2], "*", None]
    assert whole == [1] and part == [["builtins:tuple", None, 2], 4, "*"]
    ((cls, aux, count),) = odd
    function, pairs = aux["tuple"]
    assert cls == "tests.helpers.pytree_nodes:Custom" and count == 0 and function["object"].endswith(":sin")
    assert pairs == {
        "dict": [["x", {"sentinel": ["tests.helpers.pytree_nodes:SENTINEL", "tests.helpers.pytree_nodes:Sentinel"]}]]
    }


REFUSED = {
    "a local class": ("Local(1, 0)", "cannot be found again by its name"),
    "a local function": ("Custom((1, functions['f']))", "has beside its children a function"),
    "not a number": ("Custom(float('nan'))", "would be read as another one"),
    "an array": ("Custom(numpy.ones(3))", "cannot be stored"),
    "a lock": ("Custom(threading.Lock())", "has beside its children a _thread:lock"),
    "one that contains itself": ("Custom(loop)", "cannot be stored"),
    "one without equality": ("Custom(Unequal())", "cannot be stored"),
}


def test_what_cannot_be_stored_is_refused_with_the_reason() -> None:
    """The class of the node, what it has, and the way out."""
    made = ", ".join(tree for tree, _ in REFUSED.values())
    said = run(
        START + "import numpy, threading\n"
        "from jcache.errors import NotStorable\n"
        "class Unequal:\n    def __eq__(self, other): raise ZeroDivisionError\n    __hash__ = None\n"
        "loop = []\nloop.append(loop)\nsaid = []\n"
        f"for tree in [{made}]:\n"
        "    try: encode(jax.tree_util.tree_structure(tree), [])\n"
        "    except NotStorable as refused: said.append(str(refused))\n"
        "print(json.dumps(said))",
        cwd=ROOT,
    )
    for (_, reason), text in zip(REFUSED.values(), said.value, strict=True):
        assert reason in text and "\n" not in text


@pytest.mark.parametrize(
    ("result", "change"),
    [
        ("Custom(1, 0)", "del Custom"),
        ("Custom(1, 0)", "Custom = Flat"),
        ("Custom(make_local)", "del make_local"),
        ("Custom(make_local)", "make_local = Flat"),
        ("Custom(SENTINEL)", "SENTINEL = None"),
        ("Custom(SENTINEL)", "SENTINEL.state = 1"),
        ("Pair(0, 0)", "Pair = collections.namedtuple('Pair', 'a b c')"),
        ("Local(1, 0)", "likes = [tuple]"),
        ("Custom(functions['f'])", "likes = [tuple]"),
    ],
)
def test_what_is_not_there_any_more_is_not_guessed(result: str, change: str) -> None:
    """A class or function that is gone, or that another thing has the name of, is a reason not to use the entry."""
    said = run(
        START + "import tests.helpers.pytree_nodes as module\n"
        "from jcache.errors import DamagedEntry, Unresolved\n"
        "of = jax.tree_util.tree_structure\n"
        "likes = [of([Local(1, 0), Custom(functions['f'])])]\n"
        f"encoded = encode(of([{result}]), likes)\n"
        f"changed = exec({change!r}, vars(module))\n"
        "likes = [of(())] if hasattr(module, 'likes') else likes\n"
        "try: print(json.dumps([repr(decode(encoded, likes))]))\n"
        "except (DamagedEntry, Unresolved) as refused: print(json.dumps(str(refused)))",
        cwd=ROOT,
    )
    assert isinstance(said.value, str) and said.value.endswith(".")


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
