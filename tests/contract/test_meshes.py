"""Calls under a mesh in effect, whoever has put it in effect and whatever its axes are: as with JAX, and warm."""

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.conftest import version_of
from tests.helpers.interpreters import with_jax
from tests.helpers.jax_programs import environment

PROGRAM = Path(__file__).parents[1] / "programs" / "meshes.py"
FUNCTIONS = 40
pytestmark = [
    pytest.mark.jax,
    pytest.mark.skipif(
        version_of("jax") < [0, 6], reason="it stores no trace without absl, and its own cache gives wrong numbers"
    ),
]


def said(whose: str, root: Path, seed: int, count: int) -> dict[str, Any]:
    """Return for each call its results, how often it was traced, and what `explain` says."""
    done = with_jax.run([str(PROGRAM), whose, str(root), str(seed), str(count)], environment=environment())
    assert done.returncode == 0, done.stderr
    assert "The program goes on" not in done.stderr, done.stderr
    calls: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return calls


def test_calls_under_meshes(tmp_path: Path, chance: Random, full: bool) -> None:
    """Values, types, shardings, devices and errors are those of `jax.jit`, whether one mesh or another is in effect.

    The second process traces nothing, even where the executables are gone, and `explain` calls each function's first
    call a hit. Not its second call: where only the devices of the mesh differ, JAX uses the first trace once more, so
    that none is stored for them.
    """
    seed, count = chance.randrange(2**32), 2_000 if full else FUNCTIONS
    theirs = said("jax", tmp_path, seed, count)
    cold = said("jcache", tmp_path, seed, count)
    warm = said("jcache", tmp_path, seed, count)
    shutil.rmtree(tmp_path / "executables")
    compiled = said("jcache", tmp_path, seed, count)
    for ours in (cold, warm, compiled):
        assert {name: ours[name][0] for name in theirs if ours[name][0] != theirs[name][0]} == {}
    valid = [name for name, (results, *_) in theirs.items() if not isinstance(results, str)]
    assert len(valid) > count / 6 and any(theirs[name][1] for name in valid)
    for ours in (warm, compiled):
        assert {name: ours[name][2] for name in valid if ours[name][1]} == {}
    first = {name: warm[name][2] for name in valid if ", first" in name}
    assert {name: why for name, why in first.items() if "hit" not in why} == {}
