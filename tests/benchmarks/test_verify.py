"""The throughput of `jcache verify` against that of `zstd -t` on the same files, in one run.

    pytest tests/benchmarks/test_verify.py --benchmark-only -s

The entries are those of a real training step at two depths, and of the small programs around it, copied under other
keys until there are two gigabytes of them. The peer is one process on one core; ours has all of them.
"""

import hashlib
import shutil
import time
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from jcache.parallel import cores
from tests.benchmarks.test_promises import SCRIPT, command
from tests.cli.conftest import run_jax

BYTES = 2 << 30
PROGRAM = Path(__file__).parent.parent / "programs" / "transformer.py"
ROUNDS = 5


@pytest.fixture(scope="module")
def real_entries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two gigabytes of entries that JAX wrote, in the proportion in which it wrote them."""
    if not shutil.which("zstd"):
        pytest.skip("there is no zstd to compare with")
    made = tmp_path_factory.mktemp("made")
    for layers in (6, 12):
        result = run_jax(made, program=(str(PROGRAM), str(layers)))
        assert result.code == 0, result.err
    originals = {path: path.read_bytes() for path in made.glob("*-cache")}
    assert all(data[:4] == b"\x28\xb5\x2f\xfd" for data in originals.values())
    path = tmp_path_factory.mktemp("entries") / "cache"
    path.mkdir()
    size = number = 0
    while size < BYTES:
        for original, data in originals.items():
            number, size = number + 1, size + len(data)
            (path / f"{original.name[:-71]}-{hashlib.sha256(str(number).encode()).hexdigest()}-cache").write_bytes(data)
    print(f"\n{number:,} entries, {size / 1e9:.2f} GB, {len(originals)} different ones, {cores()} cores")
    return path


def seconds(run: Any) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


@pytest.mark.parametrize("known", [False, True], ids=["first look", "again"])
def test_verify_against_zstd(benchmark: Any, real_entries: Path, known: bool) -> None:
    """Verifying two gigabytes of entries is at least 0.8 times as fast as `zstd -t` on each core."""
    ours = command(SCRIPT, "verify", "--root", real_entries)
    peer = command("sh", "-c", f"find {real_entries} -name '*-cache' -print0 | xargs -0 zstd -t -q")
    peers: list[float] = []

    def prepare() -> None:
        if not known:
            shutil.rmtree(real_entries / ".jcache", ignore_errors=True)
        peers.append(seconds(peer))

    ours()
    benchmark.pedantic(ours, setup=prepare, rounds=ROUNDS)
    ratio = median(peers) / median(benchmark.stats.stats.data) / cores()
    gigabytes = sum(p.stat().st_size for p in real_entries.glob("*-cache")) / 1e9
    benchmark.extra_info["ratio"] = ratio
    print(f"\n{gigabytes / median(peers):.2f} GB/s zstd -t, {ratio:.2f} of it on each of {cores()} cores by verify")
    assert ratio >= 0.8
