"""Processes that start cold together: an entry's record fits its file, whichever process published it."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from jcache.layout import Kind, Root
from jcache.runtime.executable_cache import ExecutableCache
from jcache.store import files
from jcache.store.put_result import Outcome
from jcache.store.store import Store
from jcache.verify.result import VerifyRequest
from jcache.verify.verification import verify
from tests.helpers.entries import executable, files_of, key
from tests.helpers.interpreters import base_environment

PROCESSES = 6
COUNT = 60
STARTER = """
import random, sys
from pathlib import Path
from jcache.runtime.executable_cache import ExecutableCache
from jcache.store.roots import open_root
from jcache.formats.envelope import Codec
from jcache.formats.executable import pack_executable
from tests.helpers.entries import key, xla_program
root, seed, count, bound = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
chance = random.Random(seed)
said = []
cache = ExecutableCache(open_root(Path(root)), max_size=bound, warn=said.append)
print("ready", flush=True)
sys.stdin.readline()
for number in range(count):
    if cache.get(key(number)) is None:  # two compilations of one program differ in bytes
        cache.put(key(number), pack_executable(xla_program(chance.randbytes(200)), 0, Codec.ZSTD))
cache.close()
assert not said, said
"""


def start_together(root: Root, bound: int, chance: random.Random) -> None:
    """Several processes that get and put the same keys; none of them warns."""
    command = [sys.executable, "-c", STARTER, os.fspath(root.path)]
    starters = [
        subprocess.Popen(
            [*command, str(chance.randrange(2**32)), str(COUNT), str(bound)],
            cwd=Path(__file__).parents[2],
            env=base_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(PROCESSES)
    ]
    for each in starters:
        assert each.stdout
        assert each.stdout.readline() == "ready\n"
    for each in starters:
        assert each.stdin
        each.stdin.write("\n")
        each.stdin.flush()
    for each in starters:
        _, complaint = each.communicate()
        assert each.returncode == 0, complaint


@pytest.mark.parametrize("bound", [-1, 10**9], ids=["unbounded", "bounded"])
def test_no_entry_is_called_damaged(native: Root, bound: int, chance: random.Random, full: bool) -> None:
    """Each process stores its own bytes under the same keys, and no digest is of another process's file."""
    for _ in range(20 if full else 2):
        start_together(native, bound, chance)
        said: list[str] = []
        cache = ExecutableCache(native, warn=said.append)
        assert all(cache.get(key(number)) is not None for number in range(COUNT))
        assert not said
        cache.clear()
        cache.close()


def refuse(*_: object, **__: object) -> None:
    """Raise the error of `os.link` on a file system without links."""
    raise PermissionError(1, os.strerror(1))


@pytest.mark.parametrize("links", [True, False])
def test_a_file_is_never_published_over_another_one(native: Root, monkeypatch: pytest.MonkeyPatch, links: bool) -> None:
    """The entry of the first process stays, with links and without them."""
    directory = native.directory(Kind.EXECUTABLES)
    fill = files.fill

    def late(temporary: str, data: bytes, **where: int) -> int:
        taken_ns = fill(temporary, data, **where)
        (directory / f"{key(1)}-cache").write_bytes(executable(7))  # by the other process, meanwhile
        return taken_ns

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    with Store(native) as store:
        monkeypatch.setattr(files, "fill", late)
        assert store.put(Kind.EXECUTABLES, key(1), executable(3)) is Outcome.PRESENT
        assert (directory / f"{key(1)}-cache").read_bytes() == executable(7)
        monkeypatch.setattr(files, "fill", fill)
        assert store.put(Kind.EXECUTABLES, key(2), executable(3)) is Outcome.STORED
        assert set(files_of(directory)) == {key(1), key(2)}
        assert not verify(store, VerifyRequest()).findings
