"""The throughput of `jcache verify` against that of `zstd -t` on the same files, in one run.

    pytest tests/benchmarks/test_verify.py --benchmark-only -s

The entries are those of a real training step at two depths, and of the small programs around it, copied under other
keys until there are two gigabytes of them. The peer is one process on one core, ours has all of them: what counts is
the CPU time that each takes in all its processes. The time on the clock is printed, too.
"""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from jcache.verify.pool import usable_cores
from tests.benchmarks.measure import children_seconds, command, compare
from tests.benchmarks.test_promises import SCRIPT

ROUNDS = 3


def timed(run: Callable[[], object], seconds: list[float]) -> Callable[[], object]:
    """The same, noting how long it takes on the clock."""

    def both() -> None:
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)

    return both


@pytest.mark.parametrize("known", [False, True], ids=["first look", "again"])
def test_verify_against_zstd(benchmark: Any, real_entries: Path, known: bool) -> None:
    """For each second of CPU time, verify checks at least 0.8 times as many bytes as `zstd -t`."""
    zstd = command("sh", "-c", f"find {real_entries} -name '*-cache' -print0 | xargs -0 zstd -t -q")
    our_clock: list[float] = []
    zstd_clock: list[float] = []

    def ours() -> None:
        if not known:
            shutil.rmtree(real_entries / ".jcache", ignore_errors=True)
        verify()

    verify = timed(command(SCRIPT, "verify", "--root", real_entries), our_clock)
    ratio = 1 / compare(benchmark, ours, timed(zstd, zstd_clock), children_seconds, ROUNDS)
    on_the_clock = median(zstd_clock) / median(our_clock[-ROUNDS:]) / usable_cores()
    gigabytes = sum(p.stat().st_size for p in real_entries.glob("*-cache")) / 1e9
    benchmark.extra_info["throughput of zstd -t"] = round(ratio, 2)
    print(
        f"\n{gigabytes / median(zstd_clock):.2f} GB/s zstd -t; verify has {ratio:.2f} of it for the same CPU time, "
        f"{on_the_clock:.2f} of it on the clock for each of {usable_cores()} cores"
    )
    assert ratio >= 0.8
