"""No command touches a file outside of the root, whatever in the root is a link, or becomes one while it runs.

Outside lies a copy of the root, so that each name is there as well; it must stay as it is, to the last modification
time. Links are planted in one place after the other, and exchanged with it at full speed by another process.
"""

import ctypes
import os
import random
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jcache.formats.envelope import seal
from jcache.layout import Kind, Root
from jcache.store.ledger import Known
from jcache.store.roots import create_root
from jcache.store.store import Store
from tests.helpers.command_line import call
from tests.helpers.entries import DAY, NOW, add, executable, key, process, tree

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no path leads to an open directory")

EXCHANGE = 2  # RENAME_EXCHANGE of renameat2(2)
SWAPPER = """
import ctypes, os, select, sys
renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
there, link = (os.fsencode(path) for path in sys.argv[1:])
print("ready", flush=True)
swapped = False
while swapped or not select.select([sys.stdin], [], [], 0)[0]:
    for _ in range(20):
        swapped ^= renameat2(-100, there, -100, link, 2) == 0
"""
ROUNDS, ROUNDS_FULL = 1, 20
PLACES = (
    "executables", "traces-v1", "graphs-v1", ".jcache", ".jcache/pins", ".jcache/pins/executables",
    ".jcache/quarantine", ".jcache/handed", ".jcache/building", ".jcache/verdicts",
    "executables/xla_gpu_per_fusion_autotune_cache_dir",
)  # fmt: skip
FILES = (
    ".jcache/ledger.sqlite3", ".jcache/ledger.sqlite3-journal", ".jcache/unbounded", "executables/.lockfile",
    "CACHEDIR.TAG", f"executables/{key(1)}-cache", f"executables/{key(1)}-atime", f".jcache/pins/executables/{key(2)}",
    "executables/xla_gpu_kernel_cache_file",
)  # fmt: skip
COMMANDS = (
    ("prune", "--max-entries", "3"),
    ("prune", "--older-than", "1d", "--xla"),
    ("clear", "--yes", "--xla"),
    ("verify", "--repair"),
    ("pin", key(1)),
    ("unpin", "--all"),
    ("quarantine", "restore", "--all"),
    ("quarantine", "drop", "--all"),
    ("import", "ARCHIVE"),
    ("stats", "--zero"),
)


def fill(path: Path) -> Root:
    """A root with something in each place."""
    root = create_root(path)
    executables = root.directory(Kind.EXECUTABLES)
    for number in range(12):
        add(executables, key(number), executable(), used_ns=NOW + number * DAY, written_ns=NOW)
    add(executables, key(50), b"torn", written_ns=NOW)
    for kind in (Kind.TRACES, Kind.GRAPHS):
        for number in range(3):
            data = seal(b"payload", kind=kind, name="jit_step", key=key(number), build_seconds=1.0, created_ns=NOW)
            add(root.directory(kind), key(number), data, used_ns=NOW, written_ns=NOW)
    (executables / "xla_gpu_per_fusion_autotune_cache_dir").mkdir()
    (executables / "xla_gpu_per_fusion_autotune_cache_dir" / "a.pb").write_bytes(b"autotuned")
    (executables / "xla_gpu_kernel_cache_file").write_bytes(b"kernels")
    for place in (root.handed, root.building, root.verdicts):
        place.mkdir(parents=True)
        (place / key(7)).write_bytes(b"of another entry")
    root.unbounded_mark.touch()
    with Store(root) as store:
        store.pins.add([(Kind.EXECUTABLES, key(2))])
        store.ledger.record(Known(Kind.EXECUTABLES, key(n), seconds=1.0) for n in range(12))
    assert call([sys.executable, "-m", "jcache", "verify", "--repair", "--root", str(path)]).code in (0, 1)
    (executables / ".lockfile").touch()
    add(executables, key(51), b"torn again", written_ns=NOW)
    return root


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a root, and an archive of it."""
    place = tmp_path_factory.mktemp("made")
    fill(place / "root")
    done = call([sys.executable, "-m", "jcache", "export", "-o", str(place / "all.jca"), "--root", str(place / "root")])
    assert done.code in (0, 3), done.err
    return place


@pytest.fixture
def outside(made: Path, tmp_path: Path) -> Path:
    """The root's copy outside of it, beside the root."""
    for name in ("root", "outside"):
        shutil.copytree(made / "root", tmp_path / name, symlinks=True)
    (tmp_path / "outside" / ".jcache" / "ledger.sqlite3-journal").write_bytes(b"somebody else's")
    return tmp_path / "outside"


def run(command: tuple[str, ...], root: Path, made: Path) -> None:
    """Runs a command, whose exit code is one of those that are documented."""
    arguments = [str(made / "all.jca") if argument == "ARCHIVE" else argument for argument in command]
    done = call([sys.executable, "-m", "jcache", *arguments, "--root", str(root)], env={"JCACHE_LOCK_TIMEOUT": "1"})
    assert done.code in (0, 1, 2, 3, 10, 11, 12) and "Traceback" not in done.err, (command, done)


def look(directory: Path) -> dict[str, object]:
    """All that must not change, the directory itself included."""
    return {".": directory.stat().st_mtime_ns, **tree(directory)}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("place", [*PLACES, *FILES])
def test_planted_links_are_not_followed(made: Path, outside: Path, place: str, command: tuple[str, ...]) -> None:
    """Whatever directory or file of the root is a link to the same one elsewhere."""
    root = outside.parent / "root"
    there = root / place
    if there.is_dir():
        shutil.rmtree(there)
    else:
        there.unlink(missing_ok=True)
    there.symlink_to(outside / place)
    before = look(outside)
    run(command, root, made)
    assert look(outside) == before


@contextmanager
def swapping(there: Path, link: Path) -> Iterator[None]:
    """Exchanges a directory or file with a link, as fast as can be, during the block."""
    with process(SWAPPER, there, link):
        yield
    if there.is_symlink():
        ctypes.CDLL(None).renameat2(-100, os.fsencode(there), -100, os.fsencode(link), EXCHANGE)


@pytest.mark.parametrize("place", [*PLACES, *FILES])
def test_links_that_come_and_go_are_not_followed(
    made: Path, outside: Path, tmp_path: Path, place: str, full: bool, chance: random.Random
) -> None:
    """However often a directory or file is exchanged with a link while a command runs."""
    for _ in range(ROUNDS_FULL if full else ROUNDS):
        for command in COMMANDS if full else chance.sample(COMMANDS, 4):
            shutil.rmtree(tmp_path / "root")
            shutil.copytree(made / "root", tmp_path / "root", symlinks=True)
            there, link = tmp_path / "root" / place, tmp_path / "link"
            if link.is_dir() and not link.is_symlink():
                shutil.rmtree(link)  # the command has removed the place while it was here
            link.unlink(missing_ok=True)
            link.symlink_to(outside / place)
            if not there.exists():
                there.write_bytes(b"")
            before = look(outside)
            with swapping(there, link):
                run(command, tmp_path / "root", made)
            after = look(outside)
            changed = sorted(set(after.items()) ^ set(before.items()), key=str)
            assert after == before, (command, changed)


def test_a_root_may_be_a_link(made: Path, outside: Path, tmp_path: Path) -> None:
    """It is followed; what lies in it is treated as always."""
    (tmp_path / "by-link").symlink_to(tmp_path / "root")
    run(("prune", "--max-entries", "3"), tmp_path / "by-link", made)
    assert len(list((tmp_path / "root" / "executables").glob("*-cache"))) <= 4
    run(("clear", "--yes", "--xla"), tmp_path / "by-link", made)
    assert [path.name for path in (tmp_path / "root" / "executables").glob("*-cache")] == [f"{key(2)}-cache"]
