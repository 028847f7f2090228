"""The key of a trace: a call is keyed as JAX flattens it, and nothing is served that weaker keys have stored."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from jcache.layout import Kind
from jcache.store.roots import open_root
from jcache.store.store import Store
from jcache.verify.result import VerifyRequest
from jcache.verify.verification import verify
from tests.helpers.interpreters import with_jax
from tests.helpers.jax_programs import environment, run

pytestmark = pytest.mark.jax

TESTS = Path(__file__).parents[1]
RIGHT = [[-4.0, -3.0, -2.0, -1.0]] * 2  # of loss(pred, label), by position and by name


def loss(root: Path) -> Any:
    """What tests/programs/forms.py says."""
    done = with_jax.run([str(TESTS / "programs" / "forms.py"), str(root)], environment=environment())
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.full
@pytest.mark.smoke(since="0.6")
def test_a_call_by_name_is_another_trace_than_one_by_position(tmp_path: Path) -> None:
    """`label` sorts before `pred`: JAX takes what is given by name in another order, here and in a second process."""
    assert loss(tmp_path) == {"results": RIGHT, "traced": 2, "built": 1}
    assert loss(tmp_path) == {"results": RIGHT, "traced": 0, "built": 0}
    assert not verify(Store(open_root(tmp_path)), VerifyRequest(kinds=(Kind.TRACES, Kind.GRAPHS))).findings


def test_what_weaker_keys_have_stored_is_not_served(tmp_path: Path) -> None:
    """A root that commit b5c6261 wrote gives neither its trace nor its graph: both are made anew, once."""
    with tarfile.open(TESTS / "data" / "b5c6261.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    assert len(list(tmp_path.glob("*-v1/*-cache"))) == 3
    assert loss(tmp_path) == {"results": RIGHT, "traced": 2, "built": 1}
    assert loss(tmp_path) == {"results": RIGHT, "traced": 0, "built": 0}


def test_a_positional_only_parameter_cannot_be_given_by_name(tmp_path: Path) -> None:
    """With or without a trace of the same arguments given by position, it is a TypeError, as with `jax.jit`."""
    program = """
import json, sys
import jax.numpy as jnp
import jcache
jcache.enable(sys.argv[1])
f = jcache.jit(lambda x, /: x * 2)
def said(call):
    try:
        return call().tolist()
    except TypeError as error:
        return "TypeError"
before = said(lambda: f(x=jnp.ones(2)))
print(json.dumps([before, said(lambda: f(jnp.ones(2))), said(lambda: f(x=jnp.ones(2)))]))
"""
    for _ in range(2):
        assert run(program, tmp_path).value == ["TypeError", [2.0, 2.0], "TypeError"]


def test_leaves_with_one_label_are_told_apart(tmp_path: Path) -> None:
    """A node may give both of its children one name; the types of both count."""
    program = """
import json, sys
import jax, jax.numpy as jnp
import jcache
jcache.enable(sys.argv[1])

class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b

name = jax.tree_util.GetAttrKey("same")
jax.tree_util.register_pytree_with_keys(
    Pair, lambda pair: (((name, pair.a), (name, pair.b)), None), lambda _, both: Pair(*both)
)
f = jcache.jit(lambda pair: pair.a.sum() * 10 + pair.b.sum())
one, two = jnp.ones(1), jnp.ones(2)
print(json.dumps([float(f(Pair(a, b))) for a, b in ((one, two), (two, two), (one, one), (two, one))]))
"""
    for _ in range(2):
        assert run(program, tmp_path).value == [12.0, 22.0, 11.0, 21.0]


VERSIONED = """
import json, sys
import jax.numpy as jnp
import jcache
from jcache.traces import keys
jcache.enable(sys.argv[1])
keys._VERSION = sys.argv[2] or keys._VERSION
traced = []
def step(x):
    traced.append(1)
    return x * 2
jcache.jit(step)(jnp.ones(2))
print(len(traced))
"""


def test_what_weaker_rules_have_stored_is_not_served(tmp_path: Path) -> None:
    """Traces of other rules than today's are traced anew: the number of the rules is in the key."""
    assert [run(VERSIONED, tmp_path, rules).value for rules in ("trace 1", "trace 1", "", "")] == [1, 0, 1, 0]


MOVED = """
import json, sys
import jax, jax.numpy as jnp
import jcache
from jcache.fingerprint import fingerprint
from jcache.traces.arguments import Arguments
from jcache.traces.keys import Statics, make_request

class Codec(jcache.FileCodec):
    name = "codec"
    def save(self, value, path): pass
    def load(self, path): return None

inner, cache, check = jcache.jit(lambda x: x * 2), jcache.GraphCache(), jcache.Kind.GRAPHS
@jcache.graph
def table(n: int, cache: jcache.GraphCache | None = None) -> jcache.Explanation:
    return [1.0] * n
class Holder:
    cache: jcache.GraphCache
    codec = Codec
    error = jcache.JcacheError
def step(tree, x):
    return inner(tree["a"][0]) + x * table(2)[0] + bool(cache) + bool(check) + bool(Holder)

def keys():
    given = Arguments(({"a": [jnp.ones(2)]}, jnp.ones(2)), {})
    return [make_request(step, Statics(step, None, None), given).key, fingerprint(table.build, (3, cache)).key]

before = keys()
for name, module in sorted(sys.modules.items()):
    if name.startswith("jcache."):
        sys.modules[f"jcache.moved.{name[7:]}"] = module
        for value in list(vars(module).values()):
            if isinstance(value, type) and value.__module__ == name:
                value.__module__ = f"jcache.moved.{name[7:]}"
print(json.dumps([before, keys()]))
"""


def test_a_module_of_jcache_may_move(tmp_path: Path) -> None:
    """Keys have jcache's own classes by name, without the module: what was stored before a move is served after it."""
    before, after = run(MOVED, tmp_path, new_interpreter=True).value
    assert before == after
