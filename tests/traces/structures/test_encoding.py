"""A structure as JSON: compact, readable, and refused where another process could not read it."""

import pytest

from tests.helpers.jax_programs import run
from tests.helpers.structure_peers import ROOT, START

pytestmark = pytest.mark.jax


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


def test_what_an_argument_has_is_written_as_its_place() -> None:
    """A node, a class or auxiliary data that cannot be named is told by where the first argument that has it has it."""
    said = run(
        START + "from jcache.traces.structures import encode\n"
        "of = jax.tree_util.tree_structure\n"
        "likes = [of(0), of([Local(1, 0), Custom({'z': 1, 'f': (2, functions['f'])})])]\n"
        "print(json.dumps([encode(of(tree), likes) for tree in [\n"
        "    Local(1, 3), Local(2, 0), WithKeys(functions['f']), (0, [0])]]))",
        cwd=ROOT,
    )
    whole, of_class, aux, plain = said.value
    assert whole == [2] and of_class == [[2, 2, 1], "*"]
    assert aux[0][0].endswith(":WithKeys") and aux[0][1] == {"like": [4, 0, 1]}
    assert plain == [["builtins:tuple", None, 2], "*", ["builtins:list", None, 1], "*"]
