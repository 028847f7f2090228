"""Commands on a directory with many entries, in CPU time and memory, against ``find -printf`` in the same run.

    JCACHE_SCALE=1000000 pytest tests/benchmarks/test_scale.py --benchmark-only -s

Without the variable there are 100,000 entries. The directory is on tmpfs where there is one. Bounds are those of the
issue of scale where they hold; others say what holds today. Memory, and what ends with the directory, is for a million.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.measure import children_seconds, command, compare, key
from tests.helpers.entries import executable

COUNT = int(os.environ.get("JCACHE_SCALE", "100000"))
SCRIPT = Path(sys.executable).with_name("jcache")
ROUNDS = 3

RESOURCES = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_maxrss // 1024, used.ru_utime + used.ru_stime)
"""


@contextmanager
def filled() -> Iterator[Path]:
    """A plain JAX directory with many small entries of fifty functions, listed and recorded once before."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as place:
        path = Path(place, "root")
        path.mkdir()
        data = executable()
        descriptor = os.open(path, os.O_DIRECTORY)
        for number in range(COUNT):
            file = os.open(f"{key(number)}-cache", os.O_WRONLY | os.O_CREAT, dir_fd=descriptor)
            os.write(file, data)
            os.close(file)
        os.close(descriptor)
        for words in (["ls", "--json", "--limit", "1", "--sort", "seconds"], ["info"]):
            command(SCRIPT, *words, "--root", path)()
        yield path


@pytest.fixture(scope="session")
def root() -> Iterator[Path]:
    """A directory that the benchmarks read."""
    with filled() as path:
        yield path


def peer(root: Path) -> Callable[[], object]:
    return command("find", root, "-name", "*-cache", "-printf", "%f %s %T@\\n")


def used(root: Path, *words: str) -> tuple[int, float]:
    """Return the MiB and the CPU seconds that a command takes."""
    call = [sys.executable, "-c", RESOURCES, str(SCRIPT), *words, "--root", str(root)]
    memory, seconds = subprocess.run(call, capture_output=True, text=True, check=True).stdout.split()
    print(f"{words[0]}: at most {memory} MiB for {COUNT:,} entries, {float(seconds):.1f} s")
    return int(memory), float(seconds)


@pytest.mark.parametrize(
    ("words", "ratio", "most"),
    [
        (["info", "--json"], 0.5, 400),
        (["ls", "--json"], 10.0, 200),
        (["du", "--by", "function"], 6.0, 400),
        (["prune", "--max-entries", str(COUNT // 2), "--dry-run", "-q"], 4.0, 400),
        (["verify", "--quick", "-q"], 13.0, 400),
    ],
    ids=["info", "ls", "du", "prune", "verify"],
)
def test_cpu_time_and_memory(benchmark: Any, root: Path, words: list[str], ratio: float, most: int) -> None:
    """No command takes much more CPU time than listing the files with their sizes and times, nor much memory."""
    found = compare(benchmark, command(SCRIPT, *words, "--root", root), peer(root), children_seconds, ROUNDS)
    memory, _ = used(root, *words)
    start = 0.15 / (COUNT / 1_000_000) / 1.9 if COUNT < 1_000_000 else 0.0  # of a command, against `find`
    assert found <= ratio + start and memory <= most


def test_export_of_named_keys(benchmark: Any, root: Path, tmp_path: Path) -> None:
    """Exporting a thousand named entries of many costs at most twice what it costs where there are no others."""
    keys = [key(number) for number in range(1000)]
    small = tmp_path / "small"
    small.mkdir()
    for each in keys:
        (small / f"{each}-cache").write_bytes((root / f"{each}-cache").read_bytes())

    def export(path: Path) -> Callable[[], object]:
        return command(SCRIPT, "export", "-q", "-o", tmp_path / "archive", "--root", path, *keys)

    assert compare(benchmark, export(root), export(small), children_seconds, ROUNDS) <= 2.0


def test_half_of_it_goes(benchmark: Any) -> None:
    """A prune of half of a million verified entries takes at most 36 s of CPU time and 400 MiB; the ledger follows."""
    with filled() as root:
        command(SCRIPT, "verify", "--quick", "-q", "--root", root)()
        ledger = root / ".jcache" / "ledger.sqlite3"
        sizes = [ledger.stat().st_size]
        half = ("prune", "--max-entries", str(COUNT // 2), "-q")
        memory, seconds = benchmark.pedantic(lambda: used(root, *half), rounds=1)
        sizes.append(ledger.stat().st_size)
        used(root, "clear", "--yes", "-q")
        sizes.append(ledger.stat().st_size)
    print("ledger:", *(f"{size / 1e6:.0f} MB" for size in sizes))
    assert memory <= 400 and seconds <= 1.0 + 36.0 * COUNT / 1_000_000
    removals = 2_000_000  # bytes that the latest 10,000 removals take
    assert sizes[0] <= 260 * COUNT and sizes[1] <= 0.6 * sizes[0] + removals and sizes[2] <= 0.05 * sizes[0] + removals
