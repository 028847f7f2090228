"""The key of a trace: a call is keyed as JAX flattens it, and nothing is served that weaker keys have stored."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from jcache.layout import Kind
from jcache.store.roots import open_root
from jcache.store.store import Store
from jcache.verify.verification import Request, verify
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


@pytest.mark.smoke(since="0.6")
def test_a_call_by_name_is_another_trace_than_one_by_position(tmp_path: Path) -> None:
    """`label` sorts before `pred`: JAX takes what is given by name in another order, here and in a second process."""
    assert loss(tmp_path) == {"results": RIGHT, "traced": 2, "built": 1}
    assert loss(tmp_path) == {"results": RIGHT, "traced": 0, "built": 0}
    assert not verify(Store(open_root(tmp_path)), Request(kinds=(Kind.TRACES, Kind.GRAPHS))).findings


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
