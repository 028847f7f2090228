"""Pytrees in keys: how JAX flattens a class decides what a trace computes, however it is registered and used."""

from pathlib import Path
from typing import Final

import pytest

from jcache.layout import Kind
from jcache.store.roots import open_root
from jcache.store.store import Store
from jcache.verify.result import VerifyRequest
from jcache.verify.verification import verify
from tests.helpers.jax_programs import run

pytestmark = pytest.mark.jax

OWN_CLASS: Final = """
class P:
    def __init__(self, a, b): self.a, self.b = a, b
"""
OWN_DATACLASS: Final = """
@dataclasses.dataclass
class P:
    a: object
    b: object
"""
LIBRARY_CLASS: Final = "from types import SimpleNamespace as P\n"
FLATTENER: Final = """
class Flattener:
    def __init__(self, names): self.names = names
    def __call__(self, p): return [getattr(p, name) for name in self.names], None
class Unflattener:
    def __init__(self, names): self.names = names
    def __call__(self, aux, parts): return P(**dict(zip(self.names, parts)))
"""
FUNCTIONS: Final = """
def flat(names, p): return [getattr(p, name) for name in names], None
def unflat(names, aux, parts): return P(**dict(zip(names, parts)))
"""
REGISTERED: Final = {
    "a dataclass": OWN_DATACLASS + "jax.tree_util.register_dataclass(P, data_fields=NAMES, meta_fields=[])\n",
    "partials": OWN_CLASS
    + FUNCTIONS
    + "jax.tree_util.register_pytree_node(P, partial(flat, NAMES), partial(unflat, NAMES))\n",
    "callable objects": OWN_CLASS
    + FLATTENER
    + "jax.tree_util.register_pytree_node(P, Flattener(NAMES), Unflattener(NAMES))\n",
    "bound methods of an object": OWN_CLASS
    + FLATTENER
    + "jax.tree_util.register_pytree_node(P, Flattener(NAMES).__call__, Unflattener(NAMES).__call__)\n",
    "lambdas": OWN_CLASS + "jax.tree_util.register_pytree_node(\n"
    "    P, lambda p: ([getattr(p, n) for n in NAMES], None), lambda aux, parts: P(**dict(zip(NAMES, parts))))\n",
    "keys": OWN_CLASS + "K = jax.tree_util.GetAttrKey\n"
    "def with_keys(names, p): return [(K(n), getattr(p, n)) for n in names], None\n"
    "jax.tree_util.register_pytree_with_keys(\n"
    "    P, partial(with_keys, NAMES), lambda aux, parts: P(**dict(zip(NAMES, parts))))\n",
    "a library's class, partials": LIBRARY_CLASS
    + FUNCTIONS
    + "jax.tree_util.register_pytree_node(P, partial(flat, NAMES), partial(unflat, NAMES))\n",
    "a library's class, callable objects": LIBRARY_CLASS
    + FLATTENER
    + "jax.tree_util.register_pytree_node(P, Flattener(NAMES), Unflattener(NAMES))\n",
    "a library's class, fields": LIBRARY_CLASS
    + "jax.tree_util.register_dataclass(P, data_fields=NAMES, meta_fields=[])\n",
}
USED: Final = {
    "an argument": ("def f(p): return 10 * jax.tree_util.tree_leaves(p)[0]\n", "f({jit}, P(a=X, b=Y))"),
    "a result": ("def f(x, y): return P(a=x * 1, b=y * 2)\n", "f({jit}, X, Y)"),
    "the body": ("def f(x, y): return 10 * jax.tree_util.tree_leaves(P(a=x, b=y))[0]\n", "f({jit}, X, Y)"),
    "the body, by way of a library": (
        "import copy\ndef f(x, y): return 10 * jax.tree_util.tree_leaves(copy.copy(MADE.get('it')(a=x, b=y)))[0]\n"
        "MADE = {'it': P}\n",
        "f({jit}, X, Y)",
    ),
}
PROGRAM: Final = """
import dataclasses, json, sys, warnings
from functools import partial
import jax, jcache, shapes
from shapes import P, traced, function
warnings.simplefilter("ignore")
jcache.enable(sys.argv[1])
X, Y = jax.numpy.float32(1), jax.numpy.float32(2)
def value(jit):
    result = CALL
    return [float(each) for each in ([result.a, result.b] if isinstance(result, P) else [result])]
def f(jit, *args): return jit(function)(*args)
theirs, before = value(jax.jit), len(traced)
print(json.dumps([value(jcache.jit), theirs, len(traced) - before]))
"""


PAIRS: Final = [(registered, used) for registered in REGISTERED for used in USED]


@pytest.mark.parametrize("number", range(len(PAIRS)), ids=[f"{how}, {where}" for how, where in PAIRS])
def test_a_trace_is_of_the_flattening_that_it_was_made_with(number: int, full: bool, tmp_path: Path) -> None:
    """Fields in another order are another trace; the same order is the same one."""
    registered, used = PAIRS[number]
    if not full and number >= len(USED) and number % 5:
        pytest.skip("with --full")  # each way to register, and each place, is there once
    definition, call = USED[used]
    program = PROGRAM.replace("CALL", call.replace("{jit}", "jit"))

    def outcome(names: list[str]) -> list[object]:
        text = f"import dataclasses\nfrom functools import partial\nimport jax\nNAMES = {names!r}\n"
        text += REGISTERED[registered] + "traced = []\n" + definition
        text += "def function(*args):\n    traced.append(1)\n    return f(*args)\n"
        (tmp_path / "shapes.py").write_text(text)
        said = run(program, tmp_path / "root", cwd=tmp_path)
        return list(said.value)

    first = outcome(["a", "b"])
    swapped = outcome(["b", "a"])
    again = outcome(["b", "a"])
    assert first[0] == first[1] and swapped[0] == swapped[1] and again[0] == again[1]
    assert [first[2], swapped[2], again[2]] == [1, 1, 0]
    assert not verify(Store(open_root(tmp_path / "root")), VerifyRequest(kinds=(Kind.TRACES,))).findings


LATER: Final = """
import sys, json, jax
from jcache.fingerprint.flattening import flattened, flattened_now
from jcache.fingerprint.distributions import loaded
before, after, more = sys.argv[1:]
exec(before)
then = {**flattened(), **loaded(()), **({more: ""} if more else {})}
exec(after)
print(json.dumps(flattened_now(then).items() <= then.items()))
"""
REGISTER: Final = (
    "from packaging.version import Version\n"
    "jax.tree_util.register_pytree_node(Version, lambda v: ((), str(v)), lambda text, _: Version(text))"
)


@pytest.mark.parametrize(
    ("before", "after", "more", "same"),
    [
        ("", "import flax.linen", "", True),
        ("", REGISTER, "", True),
        ("", "import flax.linen", "distribution flax", False),
        ("import packaging", REGISTER, "", False),
        (REGISTER, "", "", True),
        ("import flax.core", "import flax.training.train_state", "", False),
        ("", "from types import SimpleNamespace as S; jax.tree_util.register_dataclass(S, ['a'], [])", "", False),
    ],
)
def test_classes_of_a_library_that_is_loaded_later_do_not_count(before: str, after: str, more: str, same: bool) -> None:
    """No code that made an entry has used a library that was not loaded then; what was loaded, or may be, counts."""
    assert run(LATER, before, after, more, new_interpreter=True).value is same


def test_a_library_that_is_imported_makes_no_trace_miss(tmp_path: Path) -> None:
    """A program that imports flax, which registers classes in its own way, is served what one without it has stored."""
    program = """
import sys, json, importlib
for name in sys.argv[2:]:
    importlib.import_module(name)
import jax, jcache
jcache.enable(sys.argv[1])
traced = []
def f(x):
    traced.append(1)
    return x * 2
f_ = jcache.jit(f)
assert f_(jax.numpy.float32(1)) == 2
print(json.dumps(len(traced)))
"""
    assert run(program, tmp_path / "root", cwd=tmp_path, new_interpreter=True).value == 1
    assert run(program, tmp_path / "root", "flax.linen", cwd=tmp_path, new_interpreter=True).value == 0
