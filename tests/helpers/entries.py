"""Small roots that look like real ones, and processes that get in the way of others."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jcache.entry import Entry
from jcache.formats.envelope import Codec
from jcache.formats.executable import pack_executable
from jcache.layout import Kind
from jcache.store import files
from tests.helpers.jax_entries import text

SECOND = 1_000_000_000
DAY = 86_400 * SECOND
NOW = 1_700_000_000 * SECOND  # a time for what is pure


def digits(number: int) -> str:
    """64 hexadecimal digits, other ones for each number."""
    return hashlib.sha256(str(number).encode()).hexdigest()


def key(number: int, name: str = "jit_step") -> str:
    return f"{name}-{digits(number)}"


def entry(number: int, size: int = 100, used_ns: int = NOW, **more: Any) -> Entry:
    """Return an entry as a value, for tests of pure functions."""
    return Entry(Kind.EXECUTABLES, key(number), size, used_ns, used_ns, sidecar=True)._replace(**more)


def executable(seconds: int = 3, codec: Codec = Codec.ZSTD) -> bytes:
    """Return an entry as JAX would store it."""
    return pack_executable(xla_program(b"machine code" * 100), seconds, codec)


def xla_program(code: bytes) -> bytes:
    """Return what XLA makes of a program, as far as jcache reads it; the machine code is arbitrary."""
    return text(1, text(1, text(1, b"")) + text(4, code)) + text(2, b"")


def add(
    directory: Path, a_key: str, data: bytes | int = 100, *, used_ns: int | None = None, written_ns: int | None = None
) -> Path:
    """Writes an entry as JAX does, with a sidecar if a recency is given; data may be just a number of bytes."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{a_key}-cache"
    path.write_bytes(b"x" * data if isinstance(data, int) else data)
    if written_ns is not None:
        os.utime(path, ns=(written_ns, written_ns))
    if used_ns is not None:
        (directory / f"{a_key}-atime").write_bytes(used_ns.to_bytes(8, "little"))
    return path


def files_of(directory: Path) -> dict[str, int]:
    """Names and bytes of the entries in a directory, as any tool sees them."""
    return {p.name.removesuffix("-cache"): p.lstat().st_size for p in directory.glob("*-cache")}


def recency_of(directory: Path, a_key: str) -> int:
    return int.from_bytes((directory / f"{a_key}-atime").read_bytes(), "little")


def tree(directory: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Return mode, inode, modification time and bytes of everything below a directory."""
    found = {}
    for path in sorted(directory.rglob("*")):
        status = path.lstat()
        data = os.readlink(path).encode() if path.is_symlink() else files.read(path) if path.is_file() else b""
        found[str(path)] = status.st_mode, status.st_ino, status.st_mtime_ns, data
    return found


def unread(directory: Path) -> None:
    """Sets the access times below a directory, which a test has moved by reading or copying it, to those of writing."""
    for path in directory.rglob("*"):
        if path.is_file() and not path.is_symlink():
            os.utime(path, ns=(path.stat().st_mtime_ns, path.stat().st_mtime_ns))


def copied(source: Path, target: Path, **how: Any) -> Path:
    """Return a copy of a directory whose files were never read, since reading the source may change access times."""
    shutil.copytree(source, target, **how)
    unread(target)
    return target


@contextmanager
def process(code: str, *arguments: object) -> Iterator["subprocess.Popen[str]"]:
    """Start a Python process that prints a line and waits for one; end it afterwards."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdin and child.stdout
    try:
        assert child.stdout.readline(), "the process said nothing"
        yield child
    finally:
        if child.poll() is None:
            child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()


HOLD_LOCK = """
import sys, filelock
with filelock.FileLock(sys.argv[1] + "/.lockfile"):
    print("held", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def mounted_read_only(place: Path) -> Iterator[None]:
    """Mount a directory read-only for the block, which restricts root as well."""
    bind = ["mount", "--bind", str(place), str(place)]
    if os.geteuid() != 0 or subprocess.run(bind, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(place)], check=True)
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)
