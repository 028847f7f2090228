"""Torax's basic configuration with its errors enabled, which are host callbacks, from a warm start.

    pytest tests/benchmarks/test_torax.py --benchmark-only

It takes five minutes on two idle cores.
"""

import importlib.util
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.measure import children_seconds, compare
from tests.helpers.jax_programs import environment

PROGRAM = Path(__file__).parent.parent / "programs" / "torax_basic.py"
ENABLED = """
import runpy, sys
import jcache
_, root, *sys.argv[:] = sys.argv
jcache.enable(root, strict=True)
runpy.run_path(sys.argv[0], run_name="__main__")
"""
ERRORS, NO_ERRORS = {"TORAX_ERRORS_ENABLED": "1"}, {"TORAX_ERRORS_ENABLED": "0"}
ROUNDS = 3
pytestmark = pytest.mark.skipif(importlib.util.find_spec("torax") is None, reason="without torax")


def torax(*command: str | Path, env: Mapping[str, object]) -> Callable[[], object]:
    """Runs the configuration, once now so that it is warm."""

    def run() -> None:
        subprocess.run(
            [sys.executable, *map(str, command)], env=environment(env), capture_output=True, timeout=300, check=True
        )

    before = children_seconds()
    run()
    print(f"\ncold, {env}: {children_seconds() - before:.1f} s")
    return run


def with_jcache(root: Path, env: Mapping[str, object]) -> Callable[[], object]:
    return torax("-c", ENABLED, root, PROGRAM, env=env)


def test_errors_cost_little(benchmark: Any, tmp_path: Path) -> None:
    """Warm, it takes at most 1.3 times the CPU time that it takes without errors."""
    ours, peer = with_jcache(tmp_path, ERRORS), with_jcache(tmp_path, NO_ERRORS)
    assert compare(benchmark, ours, peer, children_seconds, ROUNDS) <= 1.3


def test_against_jax(benchmark: Any, tmp_path: Path) -> None:
    """Warm, it takes at most 0.6 of the CPU time that it takes with JAX's cache up to 0.10.2, without callbacks."""
    import jax

    if jax.__version_info__ >= (0, 11):
        pytest.skip("JAX caches programs with callbacks itself")
    variables = {
        "JAX_COMPILATION_CACHE_DIR": tmp_path / "jax",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": 0,
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": -1,
    }
    ours, peer = with_jcache(tmp_path / "jcache", ERRORS), torax(PROGRAM, env=ERRORS | variables)
    assert compare(benchmark, ours, peer, children_seconds, ROUNDS) <= 0.6
