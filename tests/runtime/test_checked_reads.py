"""Tests for `jcache.runtime.checked_reads`: programs under `jcache run` get what was checked, and nothing else."""

import os
import socket
import sys
from pathlib import Path

import pytest

from jcache.layout import Kind, Root
from jcache.runtime.checked_reads import SOCKET, CheckedReads, is_alone, serving
from jcache.store.roots import open_root
from jcache.store.store import Store
from jcache.verify.verification import Request, verify
from tests.helpers.command_line import Jcache
from tests.helpers.entries import add, executable, key, mounted_read_only


def ask(directory: Path, where: Path, name: str) -> bytes:
    """The answer to one request."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.fspath(directory / SOCKET))
        connection.sendall(os.fsencode(where) + b"\0" + name.encode() + b"\0cpu\n")
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def test_what_is_sound_is_sent(native: Root, tmp_path: Path) -> None:
    """With its length before it, so that an answer that is cut off can be told."""
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


def test_what_is_damaged_is_not(native: Root, tmp_path: Path) -> None:
    """It goes to quarantine."""
    add(native.directory(Kind.EXECUTABLES), key(1), data=executable())
    reads = CheckedReads(native)
    assert reads.get(key(1)) == executable()
    path = native.directory(Kind.EXECUTABLES) / f"{key(1)}-cache"
    path.write_bytes(executable()[:-1] + b"\0")
    assert reads.get(key(1)) is None and list(reads.damaged) == [key(1)]
    assert not path.exists() and len(list(native.quarantine.iterdir())) > 0
    reads.close()


def test_what_is_damaged_stays_where_it_cannot_be_moved(native: Root) -> None:
    """It is not served all the same, and that it stays is known."""
    path = add(native.directory(Kind.EXECUTABLES), key(1), data=b"")
    os.utime(path, (0, 0))
    with mounted_read_only(native.path):
        reads = CheckedReads(native)
        assert reads.get(key(1)) is None and not reads.damaged[key(1)][1]
        reads.close()
    assert path.exists()


def test_all_can_be_checked_before(native: Root) -> None:
    """As long as there is time for it."""
    for number in range(3):
        add(native.directory(Kind.EXECUTABLES), key(number), data=executable())
    (native.directory(Kind.EXECUTABLES) / f"{key(1)}-cache").write_bytes(b"")
    os.utime(native.directory(Kind.EXECUTABLES) / f"{key(1)}-cache", (0, 0))
    reads = CheckedReads(native)
    assert not reads.check_all(0.0) and not reads.damaged
    assert reads.check_all() and list(reads.damaged) == [key(1)]
    reads.close()


def test_a_directory_with_a_long_name_has_its_socket(native: Root, tmp_path: Path) -> None:
    """Longer than a socket's address."""
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
    """By its options, not by those of its program."""
    assert is_alone(command) is alone


PROGRAM = """
import jax, jax.numpy as jnp
@jax.jit
def step(x): return jnp.sin(x) * 2
print(step(jnp.ones(3)).tolist())
"""


@pytest.mark.jax
@pytest.mark.parametrize("options", [[], ["-I"], ["-S"], ["-E"]])
def test_a_flipped_bit_reaches_no_program(options: list[str], jcache: Jcache, tmp_path: Path) -> None:
    """Wherever it is: the program computes the right numbers, and what is damaged goes to quarantine."""
    root = tmp_path / "root"
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    if options == ["-S"]:
        site = Path(pytest.__file__).parent.parent
        script.write_text(f"import sys; sys.path.append({str(site)!r})\n{PROGRAM}")
    first = jcache("run", "--root", root, "--", sys.executable, script)
    assert first.code == 0, first.err
    directory = open_root(root).directory(Kind.EXECUTABLES)
    entries = sorted(directory.glob("jit_step-*-cache"))
    for path in entries:
        data = bytearray(path.read_bytes())
        data[len(data) * 2 // 3] ^= 1
        path.write_bytes(data)
    second = jcache("run", "--root", root, "--", sys.executable, *options, script)
    assert (second.code, second.out) == (0, first.out) and "Error reading" not in second.err
    assert second.err.count("was damaged") == len(entries) > 0
    assert not verify(Store(open_root(root)), Request(kinds=(Kind.EXECUTABLES,))).findings
