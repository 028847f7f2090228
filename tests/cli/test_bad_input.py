"""Bad input from users and accidents: one clear sentence, the right exit code, and nothing is lost."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.helpers.command_line import Jcache, call, entry_files, keys, powerless
from tests.helpers.entries import copied

HEX = "0123456789abcdef" * 4
READERS = [
    ["info"],
    ["info", "--json"],
    ["ls"],
    ["ls", "--json"],
    ["ls", "-q"],
    ["du"],
    ["du", "--by", "device"],
    ["stats"],
    ["dir"],
    ["env"],
]
WRITERS = [["prune", "--max-size", "1"], ["clear", "--yes"], ["prune", "--older-than", "1s", "--xla"]]


def snapshot(tree: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file below a tree: inode, mode and bytes."""
    found = {}
    for path in sorted(tree.rglob("*")):
        status = path.lstat()
        data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found[str(path)] = (status.st_ino, status.st_mode, data)
    return found


def odd(kind: str, cache: Path, outside: Path) -> Path:
    """Something named like an entry that is none; returns its path."""
    path = cache / f"jit_odd-{HEX}-cache"
    match kind:
        case "directory":
            path.mkdir()
            (path / "inside").write_text("kept")
        case "dangling symlink":
            path.symlink_to(outside / "nothing")
        case "symlink to a file":
            path.symlink_to(outside / "precious")
        case "symlink to a directory":
            path.symlink_to(outside)
        case "FIFO":
            os.mkfifo(path)
        case "newline in the name":
            path = cache / f"jit_\nodd-{HEX}-cache"
            path.write_bytes(b"x")
        case "invalid UTF-8":
            path = Path(os.fsdecode(os.fsencode(cache) + b"/jit_\xff\xfe-" + HEX.encode() + b"-cache"))
            path.write_bytes(b"x")
        case "no key":
            path = cache / "model-cache"
            path.write_bytes(b"x")
    return path


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A directory that no command may touch."""
    path = tmp_path / "outside"
    path.mkdir()
    (path / "precious").write_text("kept")
    before = snapshot(path)
    yield path
    assert snapshot(path) == before


@pytest.mark.full
@pytest.mark.parametrize(
    "kind",
    [
        "directory",
        "dangling symlink",
        "symlink to a file",
        "symlink to a directory",
        "FIFO",
        "newline in the name",
        "invalid UTF-8",
        "no key",
    ],
)
def test_what_only_looks_like_an_entry_is_listed_and_left_alone(
    jcache: Jcache, cache: Path, outside: Path, kind: str
) -> None:
    """No command opens, follows, counts or removes a file that only looks like an entry, and `info` lists it
    as unknown.
    """
    before = len(entry_files(cache))
    path = odd(kind, cache, outside)
    count = jcache("info", "--json", "--root", cache).json
    assert count["kinds"]["executables"]["entries"] == before
    assert count["neighbours"]["unknown"]["files"] == 1
    for command in READERS:
        assert jcache(*command, "--root", cache).code == 0, command
    for command in WRITERS:
        assert jcache(*command, "--root", cache).code == 0, command
    assert os.path.lexists(path)
    assert not any(p.name.startswith("jit_t") for p in cache.iterdir())


@pytest.mark.full
@pytest.mark.parametrize("size", [0, 1, 3, 1 << 30], ids=["empty", "one byte", "three bytes", "a gigabyte of zeros"])
def test_an_entry_of_nonsense_is_an_entry(jcache: Jcache, cache: Path, size: int) -> None:
    """Its name makes it an entry: it is counted, shown as damaged with exit 1, and can be removed."""
    path = cache / f"jit_odd-{HEX}-cache"
    with path.open("wb") as file:
        file.truncate(size)
    for command in READERS:
        assert jcache(*command, "--root", cache).code == 0, command
    listed = {e["key"]: e for e in jcache("ls", "--json", "--root", cache).json["entries"]}
    assert listed[f"jit_odd-{HEX}"]["bytes"] == size
    assert listed[f"jit_odd-{HEX}"]["build_seconds"] is None
    shown = jcache("show", "jit_odd", "--root", cache)
    assert shown.code == 1 and f"jit_odd-{HEX}" in shown.err
    assert jcache("prune", "--keep-last", "0", "--root", cache).code == 0
    assert not path.exists()


@pytest.mark.full
@pytest.mark.parametrize("name", ["n" * 180, "n" * 184, "jit with spaces", "jit_größe", "jit_[bold]x"])
def test_unusual_names_are_names(jcache: Jcache, cache: Path, name: str) -> None:
    """Long names, blanks, other alphabets and markup are listed, shown and removed like any other."""
    source = next(cache.glob("jit_train-*-cache"))
    path = cache / f"{name}-{HEX}-cache"
    shutil.copy(source, path)
    assert f"{name}-{HEX}" in jcache("ls", "-q", "--root", cache, env={"PYTHONUTF8": "1"}).out.splitlines()
    assert jcache("ls", "--root", cache).code == jcache("show", f"{name}-", "--root", cache).code == 0
    assert (
        jcache("ls", "-v", "--root", cache, env={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}).code
        == 0
    )
    assert jcache("clear", "--yes", "--root", cache).code == 0
    assert not path.exists()


def test_an_unreadable_entry_is_listed_and_cannot_be_shown(cache: Path) -> None:
    """Without permission to read it, an entry has a size and no content."""
    prefix = powerless()
    path = next(cache.glob("jit_train-*-cache"))
    path.chmod(0)
    command = [*prefix, sys.executable, "-m", "jcache"]
    assert call([*command, "ls", "--json", "--root", str(cache)]).code == 0
    assert call([*command, "du", "--by", "device", "--root", str(cache)]).code == 0
    shown = call([*command, "show", "jit_train", "--root", str(cache)])
    assert shown.code == 1 and "permission denied" in shown.err and "Traceback" not in shown.err


def test_an_unreadable_directory_is_one_sentence(cache: Path) -> None:
    """A root that cannot be read is no cache for us: exit 10 and the reason."""
    prefix = powerless()
    cache.chmod(0)
    result = call([*prefix, sys.executable, "-m", "jcache", "info", "--root", str(cache)])
    cache.chmod(0o755)
    assert result.code == 10 and "cannot be read" in result.err and len(result.err.splitlines()) == 1


@pytest.mark.full
def test_a_read_only_root_can_be_looked_at_and_not_changed(cache: Path) -> None:
    """Readers work on a read-only root; writers report the error, exit with 1, and lose nothing."""
    prefix = powerless()
    before = entry_files(cache)
    cache.chmod(0o555)
    try:
        command = [*prefix, sys.executable, "-m", "jcache"]
        for reader in READERS:
            result = call([*command, *reader, "--root", str(cache)])
            assert result.code == 0, (reader, result.err)
        for writer in [*WRITERS, ["pin", "jit_train"], ["stats", "--zero"]]:
            result = call([*command, *writer, "--root", str(cache)])
            assert result.code == (0 if writer[0] == "stats" else 1), (writer, result)
            assert "Traceback" not in result.err
        program = [sys.executable, "-c", "print('ran')"]
        result = call([*command, "run", "--root", str(cache), "--", *program])
        assert (result.code, result.out) == (0, "ran\n")
    finally:
        cache.chmod(0o755)
    assert entry_files(cache) == before


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KiB."""
    path = tmp_path / "small"
    path.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", path], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("mounting a small file system is not allowed here")
    yield path
    subprocess.run(["umount", path], check=True)


@pytest.mark.skipif(not shutil.which("mount") or os.geteuid() != 0, reason="mounting a small file system takes root")
def test_a_full_disk_hinders_only_what_writes(jcache: Jcache, jax_cache: Path, small_disk: Path) -> None:
    """On a full disk, jcache reads, runs programs and frees space."""
    root = copied(jax_cache, small_disk / "cache")
    try:
        with (small_disk / "ballast").open("wb") as file:
            while True:
                file.write(b"x" * 4096)
                file.flush()
    except OSError:
        pass
    for reader in READERS:
        assert jcache(*reader, "--root", root).code == 0, reader
    pinned = jcache("pin", "jit_train", "--root", root)
    assert pinned.code == 0 or "no space left" in pinned.err
    ran = jcache("run", "--root", root, "--", sys.executable, "-c", "print('ran')")
    assert (ran.code, ran.out) == (0, "ran\n")
    result = jcache("prune", "--keep-last", "2", "--root", root)
    assert result.code == 0, result.err
    assert len(keys(root)) in ((2,) if pinned.code else (2, 3))  # the pinned one need not be among the last


@pytest.mark.jax
@pytest.mark.skipif(not shutil.which("mount") or os.geteuid() != 0, reason="mounting a small file system takes root")
def test_a_full_disk_costs_no_report(jcache: Jcache, jax_cache: Path, small_disk: Path) -> None:
    """On a full disk, `run` prints its report, and says once what could not be written."""
    root = copied(jax_cache, small_disk / "cache")
    (root / ".lockfile").touch()
    for sidecar in root.glob("*-atime"):
        sidecar.unlink()
    with suppress(OSError), (small_disk / "ballast").open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    ran = jcache("run", "--root", root, "--", sys.executable, "-c", "import jax; jax.jit(lambda x: x + 1)(1.0)")
    assert ran.code == 0 and "0 hits, 0 misses (stored), 1 not stored" in ran.err
    assert ran.err.count("Cannot make sidecars") == 1


def test_entries_that_vanish_meanwhile_are_no_failure(jcache: Jcache, cache: Path) -> None:
    """Another process that removes and adds entries while jcache looks costs no command anything."""
    done = threading.Event()
    source = next(cache.glob("jit_train-*-cache")).read_bytes()

    def churn() -> None:
        i = 0
        while not done.is_set():
            path = cache / f"jit_churn-{i % 50:064x}-cache"
            path.unlink(missing_ok=True) if path.exists() else path.write_bytes(source)  # prune removes, too
            i += 1

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(4):
            for command in (
                ["info", "--json"],
                ["ls", "--json"],
                ["du", "--by", "device"],
                ["prune", "--keep-last", "20"],
            ):
                assert jcache(*command, "--root", cache).code == 0
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("missing", "no cache at"),
        ("empty", "is empty"),
        ("foreign", "neither"),
        ("file", "not a directory"),
    ],
)
@pytest.mark.parametrize(
    "command",
    [
        ["info"],
        ["ls", "--json"],
        ["prune", "--max-size", "1"],
        ["clear", "--yes"],
        ["show", "x"],
        ["pin", "x"],
        ["stats"],
    ],
)
def test_no_cache_is_exit_10(jcache: Jcache, tmp_path: Path, path: str, says: str, command: list[str]) -> None:
    """A path that is neither a root nor a cache is named in the message, with the reason, and stays unchanged."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "foreign" / "executables").mkdir(parents=True)
    (tmp_path / "foreign" / "executables" / "a.out").write_text("mine")
    (tmp_path / "file").write_text("mine")
    before = snapshot(tmp_path)
    result = jcache(*command, "--root", tmp_path / path)
    assert (result.code, result.out) == (10, "")
    assert says in result.err and path in result.err and len(result.err.splitlines()) == 1
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("command", [["clear", "--yes"], ["show", "x"], ["pin", "x"], ["stats"]])
def test_what_is_about_directories_takes_no_store(jcache: Jcache, command: list[str]) -> None:
    """A URL as the root is named in the message, with the reason."""
    result = jcache(*command, "--root", "s3://bucket/x")
    assert (result.code, result.out) == (10, "")
    assert "remote" in result.err and "s3://bucket/x" in result.err and len(result.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["ls", "--kind", "programs"], "executables, traces, graphs"),
        (["clear", "programs", "--yes"], "'programs' is not a kind"),
        (["dir", "programs"], "'programs' is not a kind"),
        (["ls", "--filter", "colour=red"], "'colour' is not a field"),
        (["ls", "--filter", "size>"], "no value"),
        (["ls", "--filter", "non sense"], "is not a filter"),
        (["ls", "--filter", "name~("], "not a regular expression"),
        (["ls", "--filter", "name>a"], "cannot be compared"),
        (["ls", "--filter", "size>12 parsecs"], "'12 parsecs' is not a size"),
        (["ls", "--sort", "colour"], "'colour' is not a field to sort by"),
        (["ls", "--limit", "-1"], "whole number"),
        (["prune"], "--max-size"),
        (["prune", "--max-size", "lots"], "'lots' is not a size"),
        (["prune", "--max-size", "-5"], "'-5' is not a size"),
        (["prune", "--older-than", "3m"], "3min for minutes or 3mo for months"),
        (["prune", "--older-than", "7"], "is not an age"),
        (["prune", "--max-size", "1", "--order", "random"], "lru, cost"),
        (["du", "--by", "colour"], "function, kind, device"),
        (["completion", "tcsh"], "bash, zsh, fish, powershell"),
        (["env", "--shell", "tcsh"], "sh, fish, powershell"),
        (["run"], "run needs a program"),
        (["warm"], "warm needs a program"),
        (["show", "jit_train", "--root", ""], "empty"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_read_is_a_usage_error(jcache: Jcache, jax_cache: Path, arguments: list[str], says: str) -> None:
    """An unknown kind, field, size, age, order or shell is exit 2, and one sentence names the alternatives."""
    result = jcache(*arguments, env={"JCACHE_DIR": str(jax_cache)})
    assert (result.code, result.out) == (2, "")
    assert says in result.err and len(result.err.splitlines()) == 1


@pytest.mark.parametrize("arguments", [["frobnicate"], ["ls", "--frobnicate"], ["show"], ["pin"]])
def test_unknown_commands_and_options_are_usage_errors(jcache: Jcache, arguments: list[str]) -> None:
    """An unknown or missing command or option is exit 2."""
    assert jcache(*arguments).code == 2


def test_a_damaged_ledger_is_said_and_begun_anew(jcache: Jcache, cache: Path) -> None:
    """Readers and pins work without a damaged ledger and report it; the next writer replaces it."""
    jcache("pin", "jit_train", "--root", cache)
    ledger = cache / ".jcache" / "ledger.sqlite3"
    ledger.write_bytes(b"not a database, though it is long enough to be looked at as one" * 99)
    listed = jcache("ls", "--json", "--root", cache)
    assert listed.code == 0 and "damaged" in listed.err and listed.json["entries"]
    assert jcache("pin", "jit_train", "--root", cache).code == 0
    assert jcache("verify", "--root", cache, "--repair").code == 0
    assert jcache("ls", "--json", "--root", cache).err == ""
    assert list(ledger.parent.glob("ledger.sqlite3.damaged-*"))


@pytest.mark.full
def test_a_reader_that_has_enough_is_no_failure(cache: Path) -> None:
    """`jcache ls -q | head -1` ends quietly."""
    for i in range(3000):
        (cache / f"jit_many-{i:064x}-cache").write_bytes(b"x")
    command = f"'{sys.executable}' -m jcache ls -q --root '{cache}' | head -1"
    result = call(["bash", "-c", command])
    assert result.code == 0 and len(result.out.splitlines()) == 1 and not result.err
