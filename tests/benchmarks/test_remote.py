"""A warm start of `jcache run` from a store against one from the root, in one run, as ratios.

pytest tests/benchmarks/test_remote.py --benchmark-only -s
"""

import itertools
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks.measure import user_environment
from tests.helpers.remote_servers import DirectoryHandler, web_server

PROGRAM = Path(__file__).parent.parent / "programs" / "thirty.py"
ROUNDS = 5
LATENCY_S = 0.02


class SlowHandler(DirectoryHandler):
    """A server that is 20 ms away."""

    def do_GET(self) -> None:
        time.sleep(LATENCY_S)
        super().do_GET()

    def do_HEAD(self) -> None:
        time.sleep(LATENCY_S)
        super().do_HEAD()


def jcache(*words: object) -> str:
    command = [sys.executable, "-m", "jcache", *map(os.fspath, map(str, words))]
    done = subprocess.run(command, env=user_environment({"JAX_PLATFORMS": "cpu"}), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_warm_start_from_a_store(benchmark: Any, tmp_path: Path) -> None:
    """From an empty root and a store that is 20 ms away, the first results take at most 1.3 times as long."""
    local, numbers, ours, peers = tmp_path / "local", itertools.count(), list[float](), list[float]()
    start = ["--", sys.executable, PROGRAM]
    with web_server(tmp_path / "store", SlowHandler) as server:
        jcache("run", "--root", local, *start)
        jcache("push", server.url, "--root", local)

        def from_store() -> None:
            empty = tmp_path / f"empty{next(numbers)}"
            ours.append(float(jcache("run", "--root", empty, "--remote", server.url, *start)))

        def from_root() -> None:
            peers.append(float(jcache("run", "--root", local, *start)))

        benchmark.pedantic(from_store, setup=from_root, rounds=ROUNDS)
    ratio = median(ours) / median(peers)
    benchmark.extra_info["ratio to the peer"] = round(ratio, 2)
    print(f"\n{benchmark.name}: {median(ours):.2f} s, {ratio:.2f} x a start from the root")
    assert ratio <= 1.3
