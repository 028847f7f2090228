"""What jcache adds to whole processes, in CPU time, against JAX's own warm cache and against the import of Typer.

    pytest tests/benchmarks/test_processes.py --benchmark-only -s

Processes run in turn, and noise only adds to their times: the first quartiles are compared.
"""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import quantiles
from typing import Any

import pytest

from tests.benchmarks.measure import user_environment

NETWORK = Path(__file__).parent.parent / "programs" / "network.py"
ROUNDS = 20
JCACHE = Path(sys.executable).with_name("jcache")
IMPORTS = "import jax, jcache; jcache.enable, jcache.jit"  # the modules of both
# Runs its arguments, and writes the CPU time of that process alone to the file that is named first.
TIMED = """
import os, subprocess, sys
started = subprocess.Popen(sys.argv[2:], stdout=subprocess.DEVNULL)
_, status, used = os.wait4(started.pid, 0)
open(sys.argv[1], "w").write(str(used.ru_utime + used.ru_stime))
sys.exit(os.waitstatus_to_exitcode(status))
"""


def cpu_seconds(command: Sequence[str | Path], env: Mapping[str, str]) -> float:
    """Return the CPU time of a process and of those that it has waited for."""
    started = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(started.pid, 0)
    started.returncode = os.waitstatus_to_exitcode(status)
    assert started.returncode == 0
    return used.ru_utime + used.ru_stime


def compare_ways(benchmark: Any, ways: Mapping[str, Callable[[], float]], peer: str) -> dict[str, float]:
    """Return for each way of a program the ratio of its CPU time to that of the peer."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}

    def all_in_turn() -> None:
        for name, run in ways.items():
            seconds[name].append(run())

    all_in_turn()  # fills the caches
    benchmark.pedantic(all_in_turn, rounds=ROUNDS)
    quartiles = {name: quantiles(each[1:])[0] for name, each in seconds.items()}
    ratios = {name: round(each / quartiles[peer], 3) for name, each in quartiles.items() if name != peer}
    benchmark.extra_info |= ratios | {peer: quartiles[peer]}
    print(f"\n{benchmark.name}: {ratios} x {peer}'s {quartiles[peer]:.3f} s")
    return ratios


def test_the_command_itself(benchmark: Any, tmp_path: Path) -> None:
    """`jcache run` takes at most 1.3 times as long as a Python that imports Typer, its program apart."""
    env = user_environment({"JCACHE_DIR": tmp_path / "root"})
    ways: dict[str, Callable[[], float]] = {
        "typer": lambda: cpu_seconds([sys.executable, "-c", "import typer"], env),
        "run": lambda: cpu_seconds([JCACHE, "run", "--", "true"], env),
    }
    assert compare_ways(benchmark, ways, "typer")["run"] <= 1.3


def test_the_imports(benchmark: Any) -> None:
    """Importing jcache, with what `enable` and `jit` need, adds at most a quarter to the CPU time of importing JAX."""
    ways: dict[str, Callable[[], float]] = {
        "jax": lambda: cpu_seconds([sys.executable, "-c", "import jax"], user_environment()),
        "both": lambda: cpu_seconds([sys.executable, "-c", IMPORTS], user_environment()),
    }
    assert compare_ways(benchmark, ways, "jax")["both"] <= 1.25


@pytest.mark.parametrize(
    ("program", "module"),
    [("layers", "jax"), ("linen", "flax"), ("mlp", "jax"), ("nnx", "flax"), ("svi", "numpyro"),
     *((each, each) for each in ("brax", "chex", "diffrax", "equinox", "jaxopt", "jraph", "lineax", "numpyro",
                                 "optimistix", "torax"))],
)  # fmt: skip
def test_the_program_itself(benchmark: Any, tmp_path: Path, program: str, module: str) -> None:
    """A program's process takes at most 3 % more than with JAX's own warm cache, by either way.

    The order of sets is fixed: without that, numpyro's SVI is compiled anew at some starts, which chance decides.
    """
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"without {module}")
    told = tmp_path / "seconds"

    def started(whose: str, before: Sequence[str | Path], variables: dict[str, object]) -> float:
        timed = [sys.executable, "-c", TIMED, str(told), sys.executable, str(NETWORK), whose, program]
        cpu_seconds([*before, *timed], user_environment({"PYTHONHASHSEED": 0} | variables))
        return float(told.read_text())

    own = {
        "JAX_COMPILATION_CACHE_DIR": tmp_path / "jax",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": 0,
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": -1,
    }
    ways: dict[str, Callable[[], float]] = {
        "jax": lambda: started("jax", [], own),
        "enable": lambda: started("jcache", [], {"JCACHE_DIR": tmp_path / "enable"}),
        "run": lambda: started("run", [JCACHE, "run", "--"], {"JCACHE_DIR": tmp_path / "run"}),
    }
    ratios = compare_ways(benchmark, ways, "jax")
    assert ratios["enable"] <= 1.03 and ratios["run"] <= 1.03
