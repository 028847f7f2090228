"""`depends_on` of `jcache.graph` and `jcache.GraphCache`: what the program says that counts, counts later."""

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import jcache
from jcache.errors import InvalidValue

PROGRAM = """
import json, sys
import jcache
root, table = sys.argv[1:3]
def version():
    if table == "none":
        raise OSError("no such table")
    return [table, 1]

@jcache.graph(root=root, depends_on=version)
def grid(n):
    print("grid")
    return list(range(n))

cache = jcache.GraphCache(root, depends_on=[version])
plain = jcache.GraphCache(root)

def mesh(n):
    print("mesh")
    return [n] * n

def outer(n):
    print("outer")
    return [grid(n), cache.get_or_build(mesh, n)]

said = grid.explain(3)
result = plain.get_or_build(outer, 3)
cache.flush()
print(json.dumps([said.hit, said.reason, said.changes, result]))
"""


def said(root: Path, table: str) -> Any:
    """What a process that has this version of the table says."""
    words = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(root), table]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    *built, last = done.stdout.splitlines()
    return [sorted(built), *json.loads(last)]


def test_what_the_callables_return_counts(tmp_path: Path) -> None:
    """A second process is served, one in which a value differs is not, and what calls such a graph is not either."""
    everything, result = ["grid", "mesh", "outer"], [[0, 1, 2], [3, 3, 3]]
    assert said(tmp_path, "one")[0] == everything
    built, hit, _, _, again = said(tmp_path, "one")
    assert built == [] and hit and again == result
    built, hit, _, changes, _ = said(tmp_path, "two")
    assert built == everything and not hit and [each.partition(" [")[0] for each in changes] == ["depends_on version"]
    assert said(tmp_path, "two")[0] == []


def test_a_callable_that_raises(tmp_path: Path) -> None:
    """The graph is built as ever, and `explain` says which callable raised what."""
    for _ in range(2):
        built, hit, reason, _, result = said(tmp_path, "none")
        assert built == ["grid", "mesh", "outer"] and not hit and result == [[0, 1, 2], [3, 3, 3]]
        assert reason == "depends_on `version` raised OSError: no such table."


def test_what_cannot_be_called() -> None:
    """An option that is no callable is refused, and a cache with one that is can be pickled."""
    with pytest.raises(InvalidValue, match="cannot be called"):
        jcache.GraphCache(depends_on=3)  # type: ignore[arg-type]  # that is what is tested
    again = pickle.loads(pickle.dumps(jcache.GraphCache(depends_on=sys.getrecursionlimit)))
    assert again.__cache_key__() == jcache.GraphCache(depends_on=sys.getrecursionlimit).__cache_key__() != ""
