"""Reading a structure: the same one, or a refusal; nothing is imported, run or guessed."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.helpers.jax_programs import run
from tests.helpers.structure_peers import ROOT, START, Peer

pytestmark = pytest.mark.jax

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


READ: list[tuple[Any, str]] = [  # and what it is among the structures below, or how it is refused
    (["*"], "leaf"), ([None], "none"), ([1], "list"), ([["builtins:list", None, 1], "*"], "list"), ([2], "Unresolved"),
    ([["builtins:dict", ["a"], 1], 1], "dict"), ([[1, None, 1], "*"], "list"),
    ([], "DamagedEntry"), (["*", "*"], "DamagedEntry"), ("*", "DamagedEntry"), (["x"], "DamagedEntry"),
    ([["builtins:list", None]], "DamagedEntry"), ([["builtins:list", None, 2], "*"], "DamagedEntry"),
    ([["builtins:list", None, True], "*"], "DamagedEntry"), ([["builtins:list", 3, 1], "*"], "DamagedEntry"),
    ([["builtins:dict", ["b", "a"], 2], "*", "*"], "DamagedEntry"),
    ([["builtins:dict", ["a"], 2], "*", "*"], "DamagedEntry"), ([["builtins:dict", [{}], 1], "*"], "DamagedEntry"),
    ([["collections:OrderedDict", {"tuple": ["a"]}, 0]], "DamagedEntry"),
    ([["builtins:list", {"tuple": 3}, 0]], "DamagedEntry"), ([["builtins:list", {"data": "%"}, 0]], "DamagedEntry"),
    ([9], "Unresolved"), ([0, 1], "DamagedEntry"), ([["builtins:int", None, 0]], "Unresolved"),
    ([["builtins:list", {"like": [9]}, 0]], "Unresolved"), ([["antigravity:x", None, 0]], "Unresolved"),
    ([["builtins:list", None, 1, "digest"], "*"], "Unresolved"),
]  # fmt: skip


def test_only_what_follows_the_grammar_is_read() -> None:
    """Other JSON is damage; what follows the grammar and names what is not here is not resolved."""
    said = run(
        START + "from jcache.traces.structures.decoding import decode\n"
        "of = jax.tree_util.tree_structure\n"
        "known = {of(0): 'leaf', of(None): 'none', of([0]): 'list', of({'a': [0]}): 'dict'}\n"
        "def read(value):\n"
        "    try: return known[decode(value, [of({'a': [0]})])]\n"
        "    except (DamagedEntry, Unresolved) as refused: return type(refused).__name__\n"
        "print(json.dumps([read(value) for value in json.loads(sys.argv[1])]))",
        json.dumps([value for value, _ in READ]),
        cwd=ROOT,
    )
    assert [*zip([value for value, _ in READ], said.value, strict=True)] == READ
