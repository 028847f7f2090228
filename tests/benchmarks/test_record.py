"""What recording keys costs a program of 200 small jits, in CPU time of the program, against no recording."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest

from tests.helpers.command_line import clean_environment

PROGRAM = """
import sys, time
import jax, jax.numpy as jnp
x = jnp.ones(8)
for number in range(200):
    jax.jit(lambda x, number=number: jnp.sin(x) * number + x.sum())(x)
with open(sys.argv[1], "w") as file:
    file.write(str(time.process_time()))
"""
PAIRS = int(os.environ.get("JCACHE_PAIRS", "10"))


@pytest.mark.parametrize(("is_cold", "ratio"), [(True, 1.03), (False, 1.02)], ids=["cold", "warm"])
def test_recording_costs_little(benchmark: Callable[..., float], tmp_path: Path, is_cold: bool, ratio: float) -> None:
    """Recording keys and modules takes less than 3 % of a cold program's CPU time, and 2 % of a warm one's."""
    roots = {mode: tmp_path / mode for mode in ("off", "modules")}

    def seconds(mode: str) -> float:
        """Return the CPU time of the program, without that of `jcache run`."""
        if is_cold:
            shutil.rmtree(roots[mode], ignore_errors=True)
        said = tmp_path / "seconds"
        command = [sys.executable, "-m", "jcache", "run", "-q", "--root", str(roots[mode]), "--"]
        subprocess.run(
            [*command, sys.executable, "-c", PROGRAM, str(said)],
            env=clean_environment({"JAX_PLATFORMS": "cpu", "JCACHE_RECORD": mode}),
            check=True,
        )
        return float(said.read_text())

    def compared() -> float:
        for mode in roots:
            seconds(mode)
        ratios = []
        for number in range(PAIRS):
            order = list(roots)[:: 1 if number % 2 else -1]
            found = {mode: seconds(mode) for mode in order}
            ratios.append(found["modules"] / found["off"])
        return median(ratios)

    found = benchmark.pedantic(compared, rounds=1)  # type: ignore[attr-defined]
    print(f"{'cold' if is_cold else 'warm'}: {found:.4f} of the program without recording")
    assert found <= ratio
