"""What the names that code looks up stand for."""

import builtins
import contextlib
import functools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jcache.fingerprint import origins
from jcache.fingerprint.name_resolution import ABSENT, Resolved, Unimported, content_of, find, is_made_of_users
from tests.helpers.fingerprints import executed, imported, write
from tests.helpers.jax_programs import run as jax_run

SOURCES = Path(__file__).parents[2] / "src"


LAZY = """
def build():
    import json.decoder, scipy.sparse as sp, jax.numpy as jnp
    from numpy import pi, linalg, sin
    from jax import lax, config
    import jax, numpy.random
    return [sp.eye(2).sum(), jnp.sin(pi), sin(pi), linalg.norm([pi]), lax.add(1, 2), jax.nn.relu(1.0), jnp.inf,
            numpy.random.default_rng(1).random(), json.decoder.JSONDecoder(), jax.jit(sin), sp.linalg, jnp.linalg,
            sp.csr_array.todense, jax.sharding.PartitionSpec.index, sp.__dict__["eye"]]
"""


@pytest.mark.jax
def test_a_library_need_not_be_imported_for_a_key(tmp_path: Path) -> None:
    """The key is the same before and after the function has imported what it needs."""
    write(tmp_path, LAZY)
    program = """
import sys, json, model
from jcache.fingerprint import fingerprint
before = fingerprint(model.build)
assert "jax" not in sys.modules and "numpy" not in sys.modules
try: model.build()
except Exception: pass
after = fingerprint(model.build)
assert "scipy.sparse" in sys.modules and "jax" in sys.modules
print(json.dumps([before.hash == after.hash, dict(before.parts) == dict(after.parts)]))
"""
    path = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{SOURCES}"}
    assert jax_run(program, env=path, new_interpreter=True).value == [True, True]


def chained(source: str, *chain: str) -> Resolved:
    """What a chain of names stands for in the namespace of some source."""
    return find(chain, executed(source, "model.py", __name__="model"), vars(builtins))


def test_a_name_is_a_global_or_else_a_builtin() -> None:
    """One that is neither is absent."""
    assert chained("n = 1", "n")[:3] == (1, "model", "n")
    assert chained("len = 2", "len").value == 2
    assert chained("", "len")[:4] == (len, None, "len", origins.STDLIB)
    assert chained("", "missing").value is ABSENT


def test_attributes_are_followed_through_modules_alone() -> None:
    """Of any other object all counts, and so does all of a module that is asked for its dictionary."""
    found = chained("import os", "os", "path", "join", "__name__")
    assert found[:3] == (os.path.join, os.path.__name__, "join")
    assert found.origin == origins.STDLIB and found.path == "os.path.join"
    assert chained("import os", "os", "__dict__").value is os
    assert chained("class C: n = 1", "C", "n").value.n == 1


MODULES = {
    "model.py": "",
    "pack/__init__.py": "rate = 1\ndef __getattr__(name):\n  if name == 'lazy': return 5\n  raise AttributeError(name)",
    "pack/deep/__init__.py": "",
    "pack/deep/near.py": "n = 2",
    "pack/deep/broken.py": "1 / 0",
}
IMPORTED: list[tuple[tuple[str, ...], object]] = [
    (("import:0:pack", "rate"), 1),
    (("import:0:pack", "lazy"), 5),
    (("import:0:pack", "missing"), ABSENT),
    (("import:0:pack.deep.near", "n"), 2),
    (("import:0:pack", "deep", "near", "n"), 2),
    (("import:1:near", "n"), 2),
    (("import:1:", "near", "n"), 2),
    (("import:2:", "rate"), 1),
    (("import:2:deep.near", "n"), 2),
    (("import:1:broken",), ABSENT),
    (("import:0:no_such_module", "n"), ABSENT),
]


@pytest.mark.parametrize(("chain", "value"), IMPORTED)
def test_what_a_function_would_import_is_imported(chain: tuple[str, ...], value: object, tmp_path: Path) -> None:
    """By its name or relative to its package; what cannot be imported is absent."""
    with imported(tmp_path, MODULES):
        found = find(chain, {"__name__": "pack.deep.model", "__package__": "pack.deep"}, {})
    assert found.value is value
    assert bool(found.loader) is (chain[-1] in {"lazy", "missing"})


def test_a_library_that_a_function_would_import_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its names stand for themselves."""
    write(tmp_path / "site-packages", {"grid_c/__init__.py": "1 / 0"})
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    found = find(("import:0:grid_c.cells", "Cell", "area"), {}, {})
    assert found.value == Unimported("grid_c.cells.Cell.area", "grid_c") and found.origin == "grid_c"


def mine() -> None: ...


def yielding() -> Iterator[None]:
    yield


class Mine:
    def run(self) -> None: ...


USERS: list[Any] = [
    mine, lambda: 1, Mine, Mine(), Mine().run, functools.partial(mine), functools.partial(functools.partial(mine)),
    functools.lru_cache(mine), functools.wraps(json.dumps)(mine), contextlib.contextmanager(yielding),
]  # fmt: skip
OTHERS: list[Any] = [
    json.dumps,
    json.JSONDecoder,
    json.JSONDecoder().decode,
    functools.partial(json.dumps),
    len,
    1,
    np.sin,
    dict,
]


@pytest.mark.parametrize("value", OTHERS + USERS)
def test_what_is_made_of_the_users_code_is_known(value: object) -> None:
    """Wherever it is kept: a function, a class or an object, and what a library has made around one of them."""
    assert is_made_of_users(value) is any(value is each for each in USERS)


def test_what_a_library_compiles_on_its_first_call_is_its_own() -> None:
    """As networkx does with decorated functions, unless one of them is the user's."""
    networkx = pytest.importorskip("networkx")
    users = networkx.utils.argmap(str, 0)(lambda value: value)
    assert len(networkx.complete_graph(3)) == 3 and users(1) == "1"
    assert not is_made_of_users(networkx.complete_graph) and is_made_of_users(users)


def test_an_empty_variable_of_a_closure_holds_nothing() -> None:
    """It may get its value later."""

    def inner() -> object:
        return later, there

    there = 1
    cells = dict(zip(inner.__code__.co_freevars, inner.__closure__ or (), strict=True))
    assert (content_of(cells["later"]), content_of(cells["there"])) == (None, 1)
    later = 2
    assert content_of(cells["later"]) == later
