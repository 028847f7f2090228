"""Resources for the faults: interfering processes, and a small file system."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from jcache.formats.envelope import Codec
from jcache.formats.executable import pack_executable
from tests.helpers.command_line import Result, call
from tests.helpers.entries import DAY, add, key, tree, xla_program

OLD = time.time_ns() - DAY
SOUND = pack_executable(xla_program(b"an executable " * 99), 2, Codec.ZSTD)
TORN = SOUND[:-5]

PUT = """
import sys, time
from pathlib import Path
from jcache.errors import JcacheError
from jcache.layout import Kind, Root
from jcache.store.store import Store
root, key, data, ahead_s, bound = Path(sys.argv[1]), sys.argv[2], bytes.fromhex(sys.argv[3]), *map(int, sys.argv[4:6])
now = time.time_ns
time.time_ns = lambda: now() + ahead_s * 10**9
try:
    with Store(Root(root, plain=True), max_bytes=bound or None, lock_timeout=1.5) as store:
        print(store.put(Kind.EXECUTABLES, key, data))
except JcacheError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
"""
TEAR = """
import sys
file = open(sys.argv[1], "wb", buffering=0)
file.write(open(sys.argv[2], "rb").read()[:-100])
print("half", flush=True)
sys.stdin.read()
"""
CHURN = """
import os, select, sys
root, data = sys.argv[1], open(sys.argv[2], "rb").read()
print("ready", flush=True)
number = 0
while number <= 100 or not select.select([sys.stdin], [], [], 0)[0]:
    path = f"{root}/jit_churn-{number % 40:064x}-cache"
    if os.path.exists(path):
        os.unlink(path)
    else:
        with open(f"{root}/_temp_churn", "wb") as file:
            file.write(data)
        os.replace(f"{root}/_temp_churn", path)
    number += 1
print(number)
"""


@pytest.fixture(name="root")
def root_fixture(tmp_path: Path) -> Path:
    """A plain JAX directory of eight small entries of long ago, with sidecars."""
    for i in range(8):
        add(tmp_path / "root", key(i), SOUND, used_ns=OLD + i, written_ns=OLD)
    return tmp_path / "root"


def put(root: Path, number: int, *, data: bytes = SOUND, ahead_s: int = 0, bound: int = 0) -> Result:
    """A process that stores an entry as programs do; its clock may be ahead, and there may be a bound."""
    arguments = [root, key(number), data.hex(), ahead_s, bound]
    return call([sys.executable, "-c", PUT, *map(str, arguments)])


def findings(result: Result) -> list[str]:
    return sorted(finding["damage"] for finding in result.json["findings"])


def kept(root: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Return everything below the root except the lock, its mark, the ledger and the last verification."""
    ours = (".lockfile", ".jcache", ".sqlite3", "-journal", "/unbounded", "/verified.json")
    return {path: what for path, what in tree(root).items() if not path.endswith(ours)}


def age(path: Path) -> None:
    os.utime(path, ns=(OLD, OLD))


class Disk(NamedTuple):
    """A small file system in a separate mount namespace."""

    inside: list[str]  # prefix of a command that is to see it
    path: Path  # in there
    outside: Path  # the same for us

    def run(self, *command: str | Path) -> Result:
        result = call([*self.inside, *map(str, command)])
        assert "Traceback" not in result.err, result.err
        return result

    def jcache(self, *arguments: str) -> Result:
        return self.run(sys.executable, "-m", "jcache", *arguments, "--root", self.path / "root")


@pytest.fixture(name="disk")
def disk_fixture(tmp_path: Path, root: Path) -> Iterator[Disk]:
    """A tmpfs of 192 KiB that root mounts, else somebody who is root in a user namespace; the root is on it."""
    if sys.platform != "linux" or not shutil.which("unshare") or not shutil.which("nsenter"):
        pytest.skip("a small file system takes Linux, unshare and nsenter")
    place = tmp_path / "disk"
    place.mkdir()
    script = 'mount -t tmpfs -o size=192k tmpfs "$0" && cp -a "$1" "$0/root" && echo ready && read line'
    ours = os.geteuid() == 0
    command = ["unshare", "-m" if ours else "-rm", "sh", "-c", script, str(place), str(root)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as keeper:
        assert keeper.stdin and keeper.stdout and keeper.stderr
        if not keeper.stdout.readline():
            pytest.skip(f"mounting a small file system is not allowed here: {keeper.stderr.read().strip()}")
        enter = ["nsenter", "-t", str(keeper.pid), "-m", *([] if ours else ["-U", "--preserve-credentials"])]
        yield Disk(enter, place, Path(f"/proc/{keeper.pid}/root{place}"))
        keeper.stdin.close()
