"""A first call from cold under `jcache.jit` against `jax.jit`, in one run, as ratios of CPU time, compiling included.

pytest tests/benchmarks/test_first_calls.py --benchmark-only -s
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import quantiles
from typing import Any

import pytest

from tests.helpers.jax_programs import environment

PROGRAM = Path(__file__).parent.parent / "programs" / "first_call.py"
ROUNDS = 11


def first_call(whose: str, root: Path, name: str) -> Any:
    """What the program says, from an empty cache of executables."""
    shutil.rmtree(root / "executables", ignore_errors=True)
    words = [sys.executable, str(PROGRAM), whose, str(root), name]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=600, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("name", "outcome", "at_most"),
    [("mlp", "stored", 1.2), ("operations", "stored", 1.2), ("refused", "bypassed", 1.05)],
)
def test_a_first_call(benchmark: Any, tmp_path: Path, name: str, outcome: str, at_most: float) -> None:
    """Storing a trace adds at most a fifth to a first call; a function that was refused before is called plainly."""
    cpu: dict[str, list[float]] = {"jax": [], "jcache": []}
    if outcome == "bypassed":
        first_call("jcache", tmp_path / "jcache", name)

    def once(whose: str) -> None:
        if outcome == "stored":
            shutil.rmtree(tmp_path / whose, ignore_errors=True)
        said = first_call(whose, tmp_path / whose, name)
        assert whose == "jax" or said["outcomes"] == [outcome], said
        cpu[whose].append(said["cpu"])

    benchmark.pedantic(lambda: once("jcache"), setup=lambda: once("jax"), rounds=ROUNDS)
    ours, theirs = (quantiles(cpu[whose])[0] for whose in ("jcache", "jax"))
    benchmark.extra_info |= {"ratio to the peer": round(ours / theirs, 3), "seconds": ours}
    print(f"\n{name}: {ours * 1000:.0f} ms, {ours / theirs:.3f} x the {theirs * 1000:.0f} ms of jax.jit")
    assert ours / theirs <= at_most
