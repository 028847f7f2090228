"""Programs under `jcache run` get only checked bytes, through `jcache.runtime.checked_reads`."""

import os
import random
import shutil
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from jcache.cli.run_remote import opener_of
from jcache.layout import Kind, Root
from jcache.remote import open_remote
from jcache.remote.run_keys import write_run
from jcache.runtime.checked_reads import SOCKET, CheckedReads, runs_without_recorder, serving
from jcache.store.remote_entries import RemoteEntries
from jcache.store.roots import open_root
from tests.helpers.command_line import call
from tests.helpers.entries import add, executable, key, mounted_read_only
from tests.helpers.imports import content
from tests.helpers.waiting import until


def ask(directory: Path, where: Path, name: str) -> bytes:
    """The answer to one request."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.fspath(directory / SOCKET))
        connection.sendall(os.fsencode(where) + b"\0" + name.encode() + b"\0cpu\0" + b"0.10.2\0cpu\0cpu\n")
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def test_what_is_sound_is_sent(native: Root, tmp_path: Path) -> None:
    """A sound entry is sent after its length, so that a truncated answer is detected."""
    add(native.directory(Kind.EXECUTABLES), key(1), data=executable())
    reads = CheckedReads(native)
    with serving(reads, tmp_path):
        answer = ask(tmp_path, native.directory(Kind.EXECUTABLES), key(1))
        assert answer == b"+%016x" % len(executable()) + executable()
        assert ask(tmp_path, native.directory(Kind.EXECUTABLES), key(2)) == b"-"
        assert ask(tmp_path, tmp_path, key(1)) == b"?"
        for odd in ("../executables/" + key(1), "", "a/b"):
            assert ask(tmp_path, native.directory(Kind.EXECUTABLES), odd) == b"-"
    reads.close()
    assert not reads.damaged


def test_a_system_without_more_threads(native: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry is sent all the same, and so is the next."""
    add(native.directory(Kind.EXECUTABLES), key(1), data=executable())
    with closing(CheckedReads(native)) as reads, serving(reads, tmp_path):
        monkeypatch.setattr(threading.Thread, "start", no_thread)
        for _ in range(2):
            assert ask(tmp_path, native.directory(Kind.EXECUTABLES), key(1))[:1] == b"+"


def no_thread(_thread: threading.Thread) -> None:
    """Fail as Python does where the system has no more threads."""
    raise RuntimeError("can't start new thread")


def test_what_is_damaged_is_not(native: Root, tmp_path: Path) -> None:
    """A damaged entry is not sent, and goes to quarantine."""
    add(native.directory(Kind.EXECUTABLES), key(1), data=executable())
    reads = CheckedReads(native)
    assert reads.get(key(1)) == executable()
    path = native.directory(Kind.EXECUTABLES) / f"{key(1)}-cache"
    path.write_bytes(executable()[:-1] + b"\0")
    assert reads.get(key(1)) is None and list(reads.damaged) == [key(1)]
    assert not path.exists() and len(list(native.quarantine.iterdir())) > 0
    reads.close()


def test_what_is_damaged_stays_where_it_cannot_be_moved(native: Root) -> None:
    """A damaged entry that cannot be moved is not sent, and is known to stay."""
    path = add(native.directory(Kind.EXECUTABLES), key(1), data=b"")
    os.utime(path, (0, 0))
    with mounted_read_only(native.path):
        reads = CheckedReads(native)
        assert reads.get(key(1)) is None and not reads.damaged[key(1)][1]
        reads.close()
    assert path.exists()


def test_all_can_be_checked_before(native: Root) -> None:
    """All entries can be checked before the program starts, within a time limit."""
    for number in range(3):
        add(native.directory(Kind.EXECUTABLES), key(number), data=executable())
    (native.directory(Kind.EXECUTABLES) / f"{key(1)}-cache").write_bytes(b"")
    os.utime(native.directory(Kind.EXECUTABLES) / f"{key(1)}-cache", (0, 0))
    reads = CheckedReads(native)
    assert not reads.check_all(0.0) and not reads.damaged
    assert reads.check_all() and list(reads.damaged) == [key(1)]
    reads.close()


def test_a_directory_with_a_long_name_has_its_socket(native: Root, tmp_path: Path) -> None:
    """A directory whose path is longer than a socket's address has its socket."""
    directory = tmp_path / ("x" * 100) / ("y" * 100)
    directory.mkdir(parents=True)
    with serving(CheckedReads(native), directory):
        assert (directory / SOCKET).is_socket()


@pytest.mark.parametrize(
    ("command", "alone"),
    [
        (["python", "-I", "x.py"], True),
        (["/usr/bin/python3.11", "-B", "-W", "error", "-S", "-c", "pass"], True),
        (["python3", "-bsE", "x.py"], True),
        (["python", "x.py", "-I"], False),
        (["python", "-c", "pass", "-I"], False),
        (["python", "-m", "x", "-I"], False),
        (["python", "-W", "-I", "x.py"], False),
        (["python", "-", "-I"], False),
        (["python"], False),
        (["sh", "-I"], False),
    ],
)
def test_a_python_that_reads_by_itself_is_told(command: list[str], alone: bool) -> None:
    """A Python that runs without the recorder is recognised by its own options, not by those of its program."""
    assert runs_without_recorder(command) is alone


PROGRAM = """
import os, subprocess, sys
sys.path += {paths!r}
import jax, jax.numpy as jnp
@jax.jit
def step(x): return jnp.sin(x) * 2 + jnp.cumsum(x)
print(step(jnp.ones(3)).tolist())
"""
STARTER = """
import multiprocessing, os, runpy, subprocess, sys
how, program = sys.argv[1:]
if __name__ == "__main__":
    if how == "execv":
        os.execv(sys.executable, [sys.executable, program])
    if how == "subprocess":
        sys.exit(subprocess.call([sys.executable, program]))
    if how == "the variables of JAX":
        env = {name: value for name, value in os.environ.items() if name.startswith("JAX")}
        sys.exit(subprocess.call([sys.executable, program], env=env))
    if how == "a PYTHONPATH":
        sys.exit(subprocess.call([sys.executable, program], env=os.environ | {"PYTHONPATH": "src"}))
    if how == "without ours":
        for name in [name for name in os.environ if name.startswith("JCACHE")]:
            del os.environ[name]
        runpy.run_path(program)
    else:
        child = multiprocessing.get_context(how).Process(target=runpy.run_path, args=(program,))
        child.start()
        child.join()
        sys.exit(child.exitcode)
"""
LAUNCHERS = [
    [],
    ["env"],
    ["nice"],
    ["sh", "-c", 'exec "$@"', "sh"],
    ["sh", "-c", 'PYTHONPATH=src "$@"', "sh"],
    ["env", "PYTHONPATH=src"],
    ["env", "-i", "JAX_PLATFORMS=cpu"],
    ["env", "-u", "JCACHE_RUN_LOG"],
]
OPTIONS = [[], ["-I"], ["-S"], ["-E"], ["-sB"]]
STARTS = ["spawn", "fork", "forkserver", "subprocess", "execv", "the variables of JAX", "a PYTHONPATH", "without ours"]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a program, a launcher of the program and a command."""
    directory = tmp_path_factory.mktemp("programs")
    text = PROGRAM.format(paths=[str(Path(pytest.__file__).parent.parent)])  # which -S leaves out
    (directory / "program.py").write_text(text)
    (directory / "start.py").write_text(STARTER)
    (directory / "command").write_text(f"#!{sys.executable} -I\n{text}")
    (directory / "command").chmod(0o755)
    return directory


@pytest.fixture(scope="module")
def filled(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return a root with the entries of the program, and the program's output."""
    root = tmp_path_factory.mktemp("filled") / "root"
    done = call(
        [sys.executable, "-m", "jcache", "run", "--root", str(root), "--", sys.executable, str(programs / "program.py")]
    )
    assert done.code == 0, done.err
    return root, done.out


def ways(programs: Path, chance: random.Random) -> Iterator[list[str]]:
    """Ways to start the program: each launcher, option and kind of child once, then any of them together."""
    program, start = str(programs / "program.py"), [sys.executable, str(programs / "start.py")]
    yield [str(programs / "command")]
    for options in OPTIONS:
        yield [sys.executable, *options, program]
    for how in STARTS:
        yield [*start, how, program]
    for launcher in LAUNCHERS[1:]:
        yield [*launcher, sys.executable, program]
    while True:
        words = [*chance.choice(LAUNCHERS), *chance.choice(LAUNCHERS)]
        how = chance.choice(["", *STARTS])
        started = [start[1], how, program] if how else [program]
        yield [*words, sys.executable, *chance.choice(OPTIONS), *started]


def flip(root: Path, chance: random.Random) -> int:
    """Flips a bit in each executable of a root; returns how many there are."""
    paths = sorted(open_root(root).directory(Kind.EXECUTABLES).glob("*-cache"))
    for path in paths:
        data = bytearray(path.read_bytes())
        bit = chance.randrange(2 * len(data), 8 * len(data))  # damage that XLA does not see is the worst
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
    return len(paths)


@pytest.mark.jax
def test_a_flipped_bit_reaches_no_program(
    filled: tuple[Path, str], programs: Path, tmp_path: Path, chance: random.Random, full: bool
) -> None:
    """However Python is started, the program computes the right numbers, and damaged entries are in quarantine."""
    kinds = len(OPTIONS) + len(STARTS) + len(LAUNCHERS)
    for number, way in enumerate(islice(ways(programs, chance), 100 if full else kinds)):
        root = tmp_path / str(number)
        shutil.copytree(filled[0], root)
        plain = chance.random() < 0.3  # with the user's own variable, which all processes get
        place = open_root(root).directory(Kind.EXECUTABLES)
        flipped = flip(root, chance)
        env = {"JAX_COMPILATION_CACHE_DIR": str(place)} if plain else {"JCACHE_DIR": str(root)}
        done = call([sys.executable, "-m", "jcache", "run", "--", *way], env=env, cwd=programs)
        assert (done.code, done.out) == (0, filled[1]) and "Error reading" not in done.err, (way, env, done)
        if "misses" in done.err or way[1:2] in (["-I"], ["-S"], ["-E"]):  # it was recorded, or checked before
            assert done.err.count("was damaged") == flipped or "no usable" in done.err, (way, env, done)
        else:
            assert "has no cache" in done.err and "was damaged" not in done.err, (way, env, done)
        shutil.rmtree(root)


@pytest.mark.jax
@pytest.mark.parametrize("options", OPTIONS[1:4])
def test_a_python_that_is_the_command_is_warm(options: list[str], filled: tuple[Path, str], programs: Path) -> None:
    """A Python without the recorder uses entries that were checked before it started."""
    text = (
        "import jax.monitoring as m; m.register_event_listener(lambda e, **_: print(e)); exec(open(sys.argv[1]).read())"
    )
    start = f"import sys; sys.path.append({str(Path(pytest.__file__).parent.parent)!r}); {text}"
    command = [sys.executable, *options, "-c", start, str(programs / "program.py")]
    done = call([sys.executable, "-m", "jcache", "run", "--root", str(filled[0]), "--", *command])
    assert done.code == 0 and "/jax/compilation_cache/cache_hits" in done.out, done
    assert "/jax/compilation_cache/cache_misses" not in done.out


def test_what_cannot_be_checked_is_hidden(native: Root) -> None:
    """A damaged entry that cannot be moved, or one that may be unfinished, is never sent unchecked."""
    path = add(native.directory(Kind.EXECUTABLES), key(1), data=executable())
    reads = CheckedReads(native)
    assert reads.check_all()
    torn = add(native.directory(Kind.EXECUTABLES), key(2), data=b"")
    os.utime(torn)  # just now
    assert not reads.check_all() and torn.exists()
    os.utime(torn, (0, 0))
    with mounted_read_only(native.path):
        assert not reads.check_all()
    assert reads.check_all() and path.exists() and not torn.exists()
    reads.close()


def test_what_is_not_there_comes_from_a_store(native: Root, tmp_path: Path) -> None:
    """An entry that the root lacks is fetched for the program that asks, and stays in the root."""
    url, a_key = f"file://{tmp_path}/store", key(1)
    data = content(Kind.EXECUTABLES, a_key)
    open_remote(url).put(Kind.EXECUTABLES, "0.10.2_cpu_cpu", a_key, data)
    open_remote(url).put(Kind.EXECUTABLES, "0.10.3_cpu_cpu", key(2), content(Kind.EXECUTABLES, key(2)))
    said: list[str] = []
    reads = CheckedReads(native, opener_of(url, is_default=False), said.append)
    with serving(reads, tmp_path):
        for _ in range(2):
            assert ask(tmp_path, native.directory(Kind.EXECUTABLES), a_key) == b"+%016x" % len(data) + data
            assert ask(tmp_path, native.directory(Kind.EXECUTABLES), key(2)) == b"-"
    assert reads.check_all() and said == []
    reads.close()
    assert (native.directory(Kind.EXECUTABLES) / f"{a_key}-cache").read_bytes() == data


def test_what_is_expected_is_fetched_ahead(native: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its first request, all that the program is expected to ask for comes, once each; what is there does not."""
    url, names = f"file://{tmp_path}/store", [key(number) for number in range(1, 7)]
    for name in names[:5]:  # the store lacks the last one
        open_remote(url).put(Kind.EXECUTABLES, "0.10.2_cpu_cpu", name, content(Kind.EXECUTABLES, name))
    directory = native.directory(Kind.EXECUTABLES)
    add(directory, names[1], data=(there := content(Kind.EXECUTABLES, names[1])))
    asked: list[str] = []
    opens = opener_of(url, is_default=False)

    def counted(*given: Any) -> RemoteEntries:
        assert opens is not None
        tier = opens(*given)
        find = tier.get

        def get(kind: Kind, name: str) -> Any:
            asked.append(name)
            return find(kind, name)

        monkeypatch.setattr(tier, "get", get)
        return tier

    reads = CheckedReads(native, counted, pytest.fail, lambda remote: [*names, names[0]])
    with closing(reads), serving(reads, tmp_path):
        assert ask(tmp_path, directory, names[0])[17:] == content(Kind.EXECUTABLES, names[0])
        until(lambda: len(asked) == 5)
        for name in names[1:5]:
            assert ask(tmp_path, directory, name)[17:] == content(Kind.EXECUTABLES, name)
        assert ask(tmp_path, directory, names[5]) == b"-" and ask(tmp_path, directory, key(9)) == b"-"
    assert (directory / f"{names[1]}-cache").read_bytes() == there
    assert sorted(asked) == sorted([*names[:1], *names[2:], key(9)])


def test_what_another_host_used_is_fetched_ahead(native: Root, tmp_path: Path) -> None:
    """From an empty root, the store tells what the last run of the command used, as the host told that pushed it."""
    url, names = f"file://{tmp_path}/store", [key(number) for number in range(1, 7)]
    remote, command = open_remote(url), ["python", "train.py"]
    for name in names:
        remote.put(Kind.EXECUTABLES, "0.10.2_cpu_cpu", name, content(Kind.EXECUTABLES, name))
    write_run(remote, command, names[:5])
    opens, directory = opener_of(url, is_default=False), native.directory(Kind.EXECUTABLES)
    reads = CheckedReads(native, opens, pytest.fail, lambda remote: remote.used_by(command))
    with closing(reads), serving(reads, tmp_path):
        assert ask(tmp_path, directory, names[2])[17:] == content(Kind.EXECUTABLES, names[2])
        until(lambda: {path.name for path in directory.glob("*-cache")} == {f"{name}-cache" for name in names[:5]})
