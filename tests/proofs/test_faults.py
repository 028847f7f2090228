"""Faults by name, with the real command line and real processes: messages and repairs are right, and nothing is lost.

The full form (--full) waits for a foreign holder of a lock as long as jcache does by default.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.test_company import hits_and_stores
from tests.helpers.command_line import Jcache, entry_files, keys, run_jax
from tests.helpers.entries import DAY, HOLD_LOCK, add, copied, key, process, recency_of, tree
from tests.helpers.waiting import LIMIT_S
from tests.proofs.faults import (
    CHURN,
    OLD,
    PUT,
    SOUND,
    TEAR,
    TORN,
    Disk,
    age,
    disk_fixture as disk_fixture,
    findings,
    kept,
    put,
    root_fixture as root_fixture,
)


@pytest.mark.jax
def test_torn_write(jcache: Jcache, cache: Path, tmp_path: Path) -> None:
    """A writer killed in the middle leaves half an entry: found, left while young, then taken out and rewritten."""
    number, victim = len(keys(cache)), next(cache.glob("jit_train-*-cache"))
    whole = shutil.copy(victim, tmp_path / "whole")
    victim.unlink()
    with process(TEAR, victim, whole) as writer:
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    result = jcache("verify", "--repair", "--json", "--root", cache)
    assert (result.code, findings(result)) == (1, ["torn"])
    assert result.json["findings"][0]["outcome"] == "left" and victim.exists()
    age(victim)
    assert jcache("verify", "--repair", "--root", cache).code == 0
    (record,) = jcache("quarantine", "--json", "--root", cache).json["quarantine"]
    assert record["damage"] == "torn" and record["bytes"] == os.path.getsize(whole) - 100
    assert jcache("verify", "--root", cache).code == 0
    assert hits_and_stores(cache, None) == (number - 1, 1)
    assert hits_and_stores(cache, None) == (number, 0)


def test_bit_flip(jcache: Jcache, root: Path) -> None:
    """A flipped bit of a recorded entry is found even if only the digest shows it, and the entry can be restored."""
    assert jcache("verify", "--root", root).code == 0
    path = root / f"{key(3)}-cache"
    flipped = bytearray(SOUND)
    flipped[-3] ^= 16
    path.write_bytes(flipped)
    age(path)
    before = entry_files(root)
    result = jcache("verify", "--json", "--root", root)
    assert (result.code, [finding["key"] for finding in result.json["findings"]]) == (1, [key(3)])
    assert entry_files(root) == before and path.read_bytes() == flipped
    assert jcache("prune", "--older-than", "5d", "--root", root).code == 0 and path.exists()
    assert jcache("verify", "--repair", "--root", root).code == 0 and not path.exists()
    assert put(root, 3).out == "stored\n" and jcache("verify", "--root", root).code == 0
    assert jcache("quarantine", "restore", "--all", "--root", root).code == 1  # never over a new one
    assert jcache("prune", "--keep-last", "0", "--root", root).code == 0
    assert jcache("quarantine", "restore", key(3), "--root", root).code == 0 and path.read_bytes() == flipped


@pytest.mark.jax
def test_missing_atime(jcache: Jcache, bounded_cache: Path, tmp_path: Path) -> None:
    """One missing sidecar stops a bounded JAX <= 0.11.1 from storing; repair makes it, and JAX stores again."""
    cache = copied(bounded_cache, tmp_path / "cache")
    number = len(keys(cache)) + 1
    removed = next(cache.glob("jit_train-*-cache"))
    bare = Path(shutil.copy(removed, cache / f"{key(1, 'jit_train')}-cache"))  # which this program does not look up
    age(bare)
    for path in (removed, removed.with_name(removed.name[:-6] + "-atime")):
        path.unlink()
    warned = run_jax(cache, bounded=10**9)
    assert warned.code == 0
    if warned.err:  # jax <= 0.11.1
        assert not removed.exists()
    result = jcache("verify", "--json", "--root", cache)
    assert (result.code, findings(result)) == (1, ["missing_sidecar"])
    assert result.json["findings"][0]["key"] == bare.name[:-6]
    mended = jcache("verify", "--repair", "--json", "--root", cache)
    assert (mended.code, mended.json["repaired"]) == (0, {"sidecar_made": 1})
    assert recency_of(cache, bare.name[:-6]) == bare.stat().st_mtime_ns
    assert jcache("verify", "--root", cache).code == 0
    stored = 1 if warned.err else 0
    assert hits_and_stores(cache, 10**9) == (number - 1 - stored, stored)
    assert len(keys(cache)) == number and jcache("verify", "--root", cache).code == 0


def test_no_space(disk: Disk) -> None:
    """On a full disk, verify finds damage, put and repair report the error and change nothing, and prune
    frees space.
    """
    root = disk.outside / "root"
    torn = root / f"{key(7)}-cache"
    torn.write_bytes(TORN)
    age(torn)
    disk.run("sh", "-c", f'dd if=/dev/zero of="{disk.path}/ballast" bs=1k >/dev/null 2>&1; true')
    before = kept(root)
    found = disk.jcache("verify", "--json")
    assert (found.code, findings(found)) == (1, ["torn"]) and "warning" in found.err
    stored = disk.run(sys.executable, "-c", PUT, disk.path / "root", key(99), (SOUND * 500).hex(), "0", "0")
    assert stored.code == 1 and "no space left" in stored.err
    mended = disk.jcache("verify", "--repair")
    assert mended.code == 1 and "o space left" in mended.out + mended.err
    empty = ("quarantine", "pins")  # directories that were made and could not be filled
    assert {path: what for path, what in kept(root).items() if not path.endswith(empty)} == before
    assert disk.jcache("prune", "--keep-last", "3").code == 0
    assert keys(root) == {key(i) for i in (5, 6, 7)}
    assert disk.jcache("verify", "--repair").code == 0 and disk.jcache("verify").code == 0
    assert keys(root) == {key(5), key(6)}
    (disk.outside / "ballast").unlink()
    assert disk.jcache("quarantine", "restore", key(7)).code == 0 and torn.read_bytes() == TORN


def test_read_only(disk: Disk) -> None:
    """On a read-only file system, verify finds damage, and commands that write exit with 1 and change nothing."""
    torn = disk.outside / "root" / f"{key(1)}-cache"
    torn.write_bytes(TORN)
    age(torn)
    assert disk.run("mount", "-o", "remount,bind,ro", disk.path).code == 0
    before = tree(disk.outside)
    found = disk.jcache("verify", "--json")
    assert (found.code, findings(found)) == (1, ["torn"]) and "warning" in found.err
    for command in (["verify", "--repair"], ["prune", "--keep-last", "1"], ["clear", "--yes"], ["pin", "jit_"]):
        result = disk.jcache(*command)
        assert result.code == 1 and result.err.strip(), command
    stored = disk.run(sys.executable, "-c", PUT, disk.path / "root", key(99), SOUND.hex(), "0", "0")
    assert stored.code == 1 and "read-only" in stored.err
    assert tree(disk.outside) == before


def test_held_lock(jcache: Jcache, root: Path, full: bool) -> None:
    """A foreign holder is waited for and named, then exit 11 and nothing changed; looking needs no lock at all."""
    for i in (1, 2):
        add(root, key(i), TORN, written_ns=OLD)
    assert jcache("verify", "--repair", "--kind", "executables", "--root", root).code == 0
    add(root, key(3), TORN, written_ns=OLD)
    before = kept(root)
    limit, more = ("10 s", {}) if full else ("2 s", {"JCACHE_LOCK_TIMEOUT": "2s"})
    commands = [["verify", "--repair"], ["prune", "--keep-last", "1"], ["quarantine", "restore", key(1)]]
    with process(HOLD_LOCK, root) as holder:
        env = os.environ | more
        waiting = [
            subprocess.Popen(
                [sys.executable, "-m", "jcache", *command, "--root", str(root)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=env,
            )
            for command in commands
        ]
        looked = jcache("verify", "--json", "--subset", "1/1", "--root", root)
        assert looked.code == 1 and findings(looked) == ["torn"]
        for command, one in zip(commands, waiting, strict=True):
            _, said = one.communicate(timeout=LIMIT_S)
            assert one.returncode == 11, (command, said)
            assert "Waiting for" in said and said.count(f"process {holder.pid}") == 2 and f" for {limit}: " in said
        assert put(root, 99, bound=10**9).code == 11
        assert kept(root) == before
        assert holder.poll() is None
        command = [sys.executable, "-m", "jcache", "verify", "--repair", "--root", str(root)]
        patience = os.environ | {"JCACHE_LOCK_TIMEOUT": str(LIMIT_S)}
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=patience
        ) as patient:
            assert patient.stderr
            assert any("Waiting for" in line for line in patient.stderr)
            holder.communicate("\n")
            patient.communicate(timeout=LIMIT_S)
        assert patient.returncode == 0
    assert jcache("verify", "--root", root).code == 0


def test_vanishing_file(jcache: Jcache, root: Path, tmp_path: Path) -> None:
    """Entries that come and go all the time are no failure of any command and no finding, and cost no other entry."""
    (tmp_path / "data").write_bytes(SOUND)
    with process(CHURN, root, tmp_path / "data") as churn:
        for command in (["verify"], ["verify", "--repair"], ["verify", "--quick"], ["verify", "--subset", "1/2"]):
            result = jcache(*command, "--root", root)
            assert result.code == 0, (command, result)
        assert put(root, 77).out == "stored\n"
        assert jcache("prune", "--keep-last", "1000", "--root", root).code == 0
        ignored = [
            ["--ignore", f"{what}_sidecar"] for what in ("missing", "orphaned")
        ]  # prune makes a bounded root of it
        assert jcache("verify", *ignored[0], *ignored[1], "--root", root).code == 0
        out, _ = churn.communicate("\n")
    assert int(out.split()[-1]) > 100
    assert {key(i) for i in (*range(8), 77)} <= keys(root)
    assert jcache("quarantine", "-q", "--root", root).out == ""


def test_clock_in_future(jcache: Jcache, root: Path) -> None:
    """An entry of a process whose clock is a year ahead would never be evicted: it is found, and repaired to
    the present.
    """
    year = 365 * 86_400
    assert put(root, 50, ahead_s=year).out == "stored\n"
    assert recency_of(root, key(50)) > time.time_ns() + DAY
    path = root / f"{key(3)}-cache"
    os.utime(path, ns=(0, time.time_ns() + 400 * DAY))
    result = jcache("verify", "--json", "--root", root)
    assert (result.code, findings(result)) == (1, ["sidecar_future"])
    assert jcache("verify", "--repair", "--json", "--root", root).json["repaired"] == {"sidecar_made": 1}
    assert abs(time.time_ns() - recency_of(root, key(50))) < DAY
    assert jcache("verify", "--root", root).code == 0
    path.write_bytes(TORN)  # being from the future does not protect damage
    os.utime(path, ns=(0, time.time_ns() + 400 * DAY))
    assert jcache("verify", "--repair", "--root", root).code == 0 and not path.exists()
    assert jcache("prune", "--keep-last", "1", "--root", root).code == 0
    assert keys(root) == {key(50)}


def test_ledger_corrupt(jcache: Jcache, root: Path) -> None:
    """A damaged ledger is a finding: verify leaves it, readers and puts work, and repair replaces it and says so."""
    assert jcache("pin", key(1), "--root", root).code == 0
    assert jcache("verify", "--root", root).code == 0
    ledger = root / ".jcache" / "ledger.sqlite3"
    data = bytearray(ledger.read_bytes())
    data[100:] = b"\xa5" * (len(data) - 100)
    ledger.write_bytes(data)
    before = kept(root)
    for _ in range(2):
        result = jcache("verify", "--json", "--root", root)
        assert (result.code, findings(result)) == (1, ["ledger"])
        assert kept(root) == before and ledger.read_bytes() == data
    for command in (["info"], ["ls"], ["du"]):
        assert jcache(*command, "--root", root).code == 0
    mended = jcache("verify", "--repair", "--root", root)
    assert mended.code == 0 and "pin" in mended.out
    assert [path.read_bytes() for path in ledger.parent.glob("*.damaged-*")] == [data]
    assert jcache("verify", "--root", root).code == 0
    assert put(root, 60).out == "stored\n"
    listed = json.loads(jcache("ls", "--json", "--root", root).out)["entries"]
    assert {entry["key"] for entry in listed} == {key(i) for i in (*range(8), 60)}
