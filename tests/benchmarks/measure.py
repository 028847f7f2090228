"""Measure ours and the peer in turns, in CPU time, as the ratio of the medians."""

import hashlib
import resource
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from tests.helpers.jax_programs import environment


def children_seconds() -> float:
    """CPU seconds of all child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def user_environment(more: Mapping[str, object] | None = None) -> dict[str, str]:
    """Return the environment of the tests, but that Python keeps compiled modules, as it does for users."""
    env = environment(more)
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return env


def command(*words: str | Path) -> Callable[[], object]:
    return lambda: subprocess.run(list(map(str, words)), stdout=subprocess.DEVNULL, check=True)


def compare(
    benchmark: Any, ours: Callable[[], object], peer: Callable[[], object], clock: Callable[[], float], rounds: int
) -> float:
    """Benchmark ours, with a round of the peer before each round; return the ratio of the medians."""
    peers: list[float] = []

    def run_peer() -> None:
        start = clock()
        peer()
        peers.append(clock() - start)

    benchmark._timer = clock
    benchmark.pedantic(ours, setup=run_peer, rounds=rounds, warmup_rounds=2)
    ratio: float = benchmark.stats.stats.median / median(peers)
    benchmark.extra_info["ratio to the peer"] = round(ratio, 2)
    print(f"\n{benchmark.name}: {ratio:.2f} x its peer")
    return ratio


def key(i: int) -> str:
    return f"jit_f{i % 50}-{hashlib.sha256(str(i).encode()).hexdigest()}"


def fill(path: Path, count: int, *, sidecars: bool = False) -> Path:
    """Make a plain JAX directory with so many small entries."""
    path.mkdir(parents=True)
    now = time.time_ns()
    for i in range(count):
        (path / f"{key(i)}-cache").write_bytes(b"x" * (i % 997))
        if sidecars:
            (path / f"{key(i)}-atime").write_bytes((now - i).to_bytes(8, "little"))
    return path
