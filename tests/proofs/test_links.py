"""No command touches a file outside of the root, whatever in the root is a link, or becomes one while it runs.

Outside lies a copy of the root, so that each name is there as well; it must stay as it is, to the last modification
time. Symbolic links are planted in one place after the other, and exchanged with it at full speed by another process.
Hard links are planted in one place after the other, and in all at once, as ``cp -al`` makes a backup.
"""

import ctypes
import itertools
import os
import random
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from jcache.errors import CannotWrite, Locked
from jcache.formats.envelope import seal
from jcache.layout import LOCK_NAME, Kind, Root
from jcache.store.ledger import Known
from jcache.store.locking import locked
from jcache.store.roots import create_root, open_root
from jcache.store.sidecar import write_recency
from jcache.store.store import Store
from jcache.traces.hints import Hints
from tests.helpers.command_line import call
from tests.helpers.entries import DAY, NOW, add, executable, key, process, recency_of, tree

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
    ("run", "--", sys.executable, "-c", "pass"),
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
    verb, *rest = (str(made / "all.jca") if argument == "ARCHIVE" else argument for argument in command)
    words = [sys.executable, "-m", "jcache", verb, "--root", str(root), *rest]
    done = call(words, env={"JCACHE_LOCK_TIMEOUT": "1"})
    assert done.code in (0, 1, 2, 3, 10, 11, 12) and "Traceback" not in done.err, (command, done)


def look(directory: Path) -> dict[str, object]:
    """Return everything that must not change, including the directory itself."""
    return {".": directory.stat().st_mtime_ns, **tree(directory)}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("place", [*PLACES, *FILES])
def test_planted_links_are_not_followed(made: Path, outside: Path, place: str, command: tuple[str, ...]) -> None:
    """If any directory or file of the root is a link to its copy outside, no command follows it."""
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
    """If a directory or file is exchanged with a link again and again during a command, the command never
    follows it.
    """
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


def linked(outside: Path, place: str) -> None:
    """Makes a file of the root a hard link to the one outside."""
    there = outside.parent / "root" / place
    there.unlink(missing_ok=True)
    there.parent.mkdir(parents=True, exist_ok=True)
    os.link(outside / place, there, follow_symlinks=False)


def files_in(directory: Path) -> list[str]:
    return [str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()]


def use_as_a_program(root: Path) -> None:
    """Write to a root as a program with `jcache.enable` or `jcache.jit` does."""
    with Store(open_root(root), max_bytes=1 << 20) as store:
        store.get(Kind.EXECUTABLES, key(1))
        store.touch(Kind.EXECUTABLES, [key(3)], time.time_ns())
        store.put(Kind.EXECUTABLES, key(99), executable())
        store.put(Kind.GRAPHS, key(99), executable())
        hints = Hints(store.root)
        for name in ("call", "key"):
            hints.add_slower([name])
            hints.refuse(name, "it calls back")
            hints.expect(name, "another executable")


def plant_hints(outside: Path) -> None:
    """Counts and notes in the copy outside, under the names that a program is going to write."""
    use_as_a_program(outside)
    for number in (1, 3):
        write_recency(outside / "executables" / f"{key(number)}-atime", NOW)


@pytest.mark.parametrize("command", [*COMMANDS, ("program",)], ids=" ".join)
@pytest.mark.parametrize("lock", [False, True], ids=["but the lock", "with the lock"])
def test_a_backup_of_hard_links_stays_as_it_is(made: Path, outside: Path, command: tuple[str, ...], lock: bool) -> None:
    """Every file of the root is one with the backup's, whatever is done to the root."""
    plant_hints(outside)
    for place in files_in(outside):
        if lock or not place.endswith(LOCK_NAME):
            linked(outside, place)
    before = look(outside)
    if command != ("program",):
        run(command, outside.parent / "root", made)
    elif not lock:
        use_as_a_program(outside.parent / "root")
    assert look(outside) == before


def test_files_of_a_backup_can_be_changed(made: Path, outside: Path) -> None:
    """Each file with a second name is copied before it is changed, together with its record."""
    for place in files_in(outside):
        if not place.endswith(LOCK_NAME):
            linked(outside, place)
    root = outside.parent / "root"
    with Store(open_root(root)) as store, Store(open_root(outside)) as backup:
        assert store.get(Kind.EXECUTABLES, key(1)) is not None
        assert recency_of(root / "executables", key(1)) > NOW + 100 * DAY
        known = backup.ledger.known(Kind.EXECUTABLES)
        assert len(known) >= 12
        store.ledger.record([Known(Kind.EXECUTABLES, key(1), seconds=9.0)])
        now = store.ledger.known(Kind.EXECUTABLES)
        assert now == known | {key(1): now[key(1)]} and now[key(1)].seconds == 9.0
        os.link(store.root.ledger, outside.parent / "taken since")  # while it is open
        before = (outside.parent / "taken since").read_bytes()
        store.ledger.record([Known(Kind.EXECUTABLES, key(2), seconds=8.0)])
        assert (outside.parent / "taken since").read_bytes() == before
        assert store.ledger.known(Kind.EXECUTABLES)[key(2)].seconds == 8.0


@pytest.mark.parametrize("place", [*FILES, ".jcache/moved", ".jcache/verified.json"])
def test_planted_hard_links_are_not_written_to(
    made: Path, outside: Path, place: str, full: bool, chance: random.Random
) -> None:
    """If a file of the root has another name outside, jcache never writes to it, whatever it holds."""
    root = outside.parent / "root"
    cases = list(itertools.product(COMMANDS, (b"a thesis\n" * 150, b"\0" * 8, b"")))
    for command, thesis in cases if full else chance.sample(cases, 3):
        (outside / place).write_bytes(thesis)
        shutil.rmtree(root)
        shutil.copytree(made / "root", root, symlinks=True)
        linked(outside, place)
        before = look(outside)
        run(command, root, made)
        assert look(outside) == before, (command, thesis)


def test_a_root_may_be_a_link(made: Path, outside: Path, tmp_path: Path) -> None:
    """A root may itself be a link, which is followed."""
    (tmp_path / "by-link").symlink_to(tmp_path / "root")
    run(("prune", "--max-entries", "3"), tmp_path / "by-link", made)
    assert len(list((tmp_path / "root" / "executables").glob("*-cache"))) <= 4
    run(("clear", "--yes", "--xla"), tmp_path / "by-link", made)
    assert [path.name for path in (tmp_path / "root" / "executables").glob("*-cache")] == [f"{key(2)}-cache"]


def test_no_lock_is_made_through_a_link(tmp_path: Path, full: bool) -> None:
    """A lock file is made in the directory that was opened, also if a link takes its place at any moment."""
    root = create_root(tmp_path / "root")
    there, outside, link = root.directory(Kind.GRAPHS), tmp_path / "outside", tmp_path / "link"
    there.mkdir(exist_ok=True)
    outside.mkdir()
    link.symlink_to(outside)
    before = look(outside)
    wanted, held = 100_000 if full else 5_000, 0
    with swapping(there, link):
        while held < wanted:
            with suppress(CannotWrite, Locked), locked(root, Kind.GRAPHS, timeout=0):
                held += 1
            for place in (there, link):
                if not place.is_symlink():
                    with suppress(OSError):
                        os.unlink(place / LOCK_NAME)
    assert look(outside) == before
