"""A warm start from a store against one from the root, and push and pull against the client alone, as ratios.

pytest tests/benchmarks/test_remote.py --benchmark-only -s
"""

import itertools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import pytest

from jcache.formats.envelope import Codec
from jcache.formats.executable import pack_executable
from jcache.runtime.executable_cache import ExecutableCache
from jcache.store.roots import create_root
from tests.benchmarks.measure import user_environment
from tests.helpers.entries import key, xla_program
from tests.helpers.remote_servers import DirectoryHandler, S3Server, seaweed, web_server

PROGRAMS = Path(__file__).parent.parent / "programs"
PROGRAM = PROGRAMS / "thirty.py"
ENTRIES = 10_000
ENTRY_BYTES = 6000
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


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with many small entries, as a program has stored them."""
    chance, root = Random(1), create_root(tmp_path_factory.mktemp("filled") / "root")
    with closing(ExecutableCache(root, max_size=-1, warn=print)) as cache:
        for number in range(ENTRIES):
            cache.put(key(number), pack_executable(xla_program(chance.randbytes(ENTRY_BYTES)), 0, Codec.ZSTD))
    return root.path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with seaweed(tmp_path_factory.mktemp("seaweed") / "data") as running:
        yield running


def seconds(variables: Mapping[str, str], *words: object) -> float:
    """Run Python with some words; return how long that takes."""
    began = time.monotonic()
    environment = user_environment({"JAX_PLATFORMS": "cpu", **variables})
    subprocess.run([sys.executable, *map(str, words)], env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def in_turns(benchmark: Any, peer: Callable[[int], float], ours: Callable[[int], float]) -> float:
    """Return how many times as fast as the peer ours moves the same, in clock time, in rounds of both."""
    numbers, told, peers = itertools.count(), list[float](), list[float]()

    def round_of_ours() -> None:
        told.append(ours(len(peers)))

    benchmark.pedantic(round_of_ours, setup=lambda: peers.append(peer(next(numbers))), rounds=3)
    ratio = median(peers) / median(told)
    benchmark.extra_info["of the client alone"] = round(ratio, 2)
    print(f"\n{benchmark.name}: {median(told):.1f} s, {ratio:.2f} of the client alone")
    return ratio


@pytest.mark.parametrize(("sort", "least"), [("first", 0.6), ("known", 0.8)])
def test_a_push(benchmark: Any, filled: Path, server: S3Server, sort: str, least: float) -> None:
    """10,000 entries go as fast as with the client alone, nearly; where each must be checked first, at 0.6 of that."""

    def peer(number: int) -> float:
        return seconds(server.writer, PROGRAMS / "bare_client.py", "push", f"{sort}-peer{number}",
                       filled / "executables")  # fmt: skip

    def ours(number: int) -> float:
        if sort == "first":
            shutil.rmtree(filled / ".jcache")
        return seconds(server.writer, "-m", "jcache", "push", f"s3://jcache/{sort}{number}", "--root", filled)

    if sort == "known":
        jcache("verify", "--root", filled)
    assert in_turns(benchmark, peer, ours) >= least


def test_a_pull(benchmark: Any, filled: Path, server: S3Server, tmp_path: Path) -> None:
    """10,000 entries come as fast as with the client alone, which writes the same files, nearly."""
    seconds(server.writer, "-m", "jcache", "push", "s3://jcache/pull", "--root", filled)

    def peer(number: int) -> float:
        return seconds(server.writer, PROGRAMS / "bare_client.py", "pull", "pull", tmp_path / f"peer{number}")

    def ours(number: int) -> float:
        return seconds(server.writer, "-m", "jcache", "pull", "s3://jcache/pull", "--root", tmp_path / f"root{number}")

    assert in_turns(benchmark, peer, ours) >= 0.8
