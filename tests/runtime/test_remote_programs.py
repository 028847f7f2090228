"""Programs with a store behind their roots: hits on another host, and nothing but misses if the store fails."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from jcache.layout import Kind
from jcache.remote import open_remote
from tests.helpers.command_line import Jcache
from tests.helpers.interpreters import anew
from tests.helpers.jax_programs import Said, environment, run
from tests.helpers.remote_servers import S3Server, answering, faulty_server, hanging, refusing, web_server
from tests.helpers.signatures import allowed, needs_openssh, new_key, public
from tests.runtime.test_enable import clean

pytestmark = pytest.mark.jax

PROGRAM = """
import json, sys, time
import jcache
root, remote, writes = sys.argv[1:]
cpu, began = time.process_time(), time.monotonic()
enabled = jcache.enable(root, remote=remote or None, remote_write=writes == "True")
import jax, jax.numpy as jnp

@jcache.jit(check="never")
def traced(x):
    return jnp.cos(x).sum() * 3

@jcache.graph(check="never")
def graph(n):
    return {"numbers": list(range(n))}

values = [float(jax.jit(lambda x, i=i: jnp.sin(x).sum() + i)(jnp.arange(8.0))) for i in range(5)]
values += [float(traced(jnp.arange(8.0))), sum(graph(10)["numbers"])]
stats = jcache.stats()
jcache.disable()
print(json.dumps({
    "values": values, "hits": stats.hits, "misses": stats.misses, "traces": stats.traces.hits,
    "graphs": stats.graphs.hits, "remote": enabled.remote, "warnings": enabled.warnings,
    "notes": enabled.notes, "notices": stats.notices,
    "seconds": time.monotonic() - began, "cpu": time.process_time() - cpu,
    "imported": [name for name in sys.modules if name.startswith(("obstore", "jcache.remote"))],
}))
"""


def program(root: Path, remote: str, *, writes: bool = False, **env: str) -> Said:
    """Run the program from its file, as traces and graphs need, in a fresh interpreter."""
    file = root.parent / "program.py"
    file.write_text(PROGRAM)
    done = anew([str(file), str(root), remote, str(writes)], environment=environment({"JAX_PLATFORMS": "cpu", **env}))
    assert done.returncode == 0, done.stderr
    return Said(json.loads(done.stdout.splitlines()[-1]), done.stderr)


def check_hits(first: dict[str, Any], second: dict[str, Any]) -> None:
    """Whether the second program has hit everything that the first one has made, with the same results."""
    assert second["values"] == first["values"]
    assert (first["hits"], second["misses"]) == (0, 0) and second["hits"] == first["misses"] > 5
    assert (second["traces"], second["graphs"]) == (1, 1)


@pytest.mark.full
@pytest.mark.smoke(since="0.6")  # which stores traces
def test_hits_on_another_host(tmp_path: Path) -> None:
    """With an empty root, executables, traces and graphs come from the store; afterwards they are in the root."""
    with web_server(tmp_path / "web") as server:
        url = f"{server.url}/a"
        first = program(tmp_path / "one", url, writes=True)
        second = program(tmp_path / "two", "", JCACHE_REMOTE=url)
        check_hits(first.value, second.value)
        assert first.value["remote"] == second.value["remote"] == url
        asked = len(server.log)
        check_hits(first.value, program(tmp_path / "two", url).value)
        assert len(server.log) == asked
    without = program(tmp_path / "two", "").value
    check_hits(first.value, without)
    assert without["imported"] == [] and without["remote"] is None
    assert "Warning" not in first.err + second.err


def cut_off(connection: socket.socket) -> None:
    connection.recv(1 << 16)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\nhalf")


FAULTS = {"503": answering(503), "403": answering(403), "hanging": hanging, "cut off": cut_off,
          "lies": answering(200, body=b"digest nothing")}  # fmt: skip


@pytest.mark.parametrize("fault", ["refusing", *FAULTS])
def test_a_store_that_fails(fault: str, tmp_path: Path) -> None:
    """The program computes what it computes without a store, with one warning at most and hardly later."""
    plain = program(tmp_path / "plain", "").value

    def check(place: str) -> None:
        done = program(tmp_path / "root", f"http://{place}/x", writes=True)
        found = done.value
        assert (found["values"], found["misses"]) == (plain["values"], plain["misses"])
        assert found["warnings"] == [] and done.err.count("Warning: ") <= 1, done.err
        assert found["seconds"] < plain["seconds"] * 3 + 12  # of a machine that is busy; a deadline of 4 s once
        assert found["cpu"] < plain["cpu"] * 2 + 2
        check_hits(found, program(tmp_path / "root", "").value)

    if fault == "refusing":
        check(refusing())
    else:
        serve: Callable[[socket.socket], None] = FAULTS[fault]
        with faulty_server(serve) as place:
            check(place)


def test_a_damaged_store(tmp_path: Path) -> None:
    """What is damaged in the store is compiled again, with the same results, and mended by who may write."""
    with web_server(tmp_path / "web") as server:
        first = program(tmp_path / "one", server.url, writes=True).value
        for file in (tmp_path / "web").rglob("*-cache"):
            data = bytearray(file.read_bytes())
            data[len(data) // 2] ^= 1
            file.write_bytes(data)
        second = program(tmp_path / "two", server.url, writes=True).value
        assert second["values"] == first["values"] and second["hits"] == 0
        check_hits(first, program(tmp_path / "three", server.url).value)


def test_what_is_no_store(tmp_path: Path) -> None:
    """A wrong URL in the environment is a warning; a wrong argument is an error."""
    found = program(tmp_path / "one", "", JCACHE_REMOTE="ftp://user:secret@host/x")
    assert found.value["misses"] > 5 and found.value["remote"] is None
    assert "No store is used" in str(found.value["warnings"]) and "secret" not in found.err + str(found.value)
    text = "import jcache\ntry: jcache.enable(remote='ftp://x')\nexcept jcache.InvalidValue as e: print('\"no\"')"
    assert run(text).value == "no"


def test_who_also_writes_is_told_what_that_means(tmp_path: Path) -> None:
    """A program that reads from a store and writes there is told once that whoever writes there has code run by all."""
    url = (tmp_path / "store").as_uri()
    writer, reader = (program(tmp_path / str(writes), url, writes=writes).value for writes in (True, False))
    (note,) = writer["notes"]
    assert "can run code in all programs that read" in note and writer["notices"].count(note) == 1
    assert reader["notes"] == [] == reader["notices"] and writer["warnings"] == []


@needs_openssh
def test_programs_that_require_signatures(jcache: Jcache, tmp_path: Path) -> None:
    """They hit what a signer has pushed, and compile what nobody has signed or what was replaced, with a warning."""
    url, mine = (tmp_path / "store").as_uri(), new_key(tmp_path / "mine")
    signers = str(allowed(tmp_path, f"me@here {public(mine)}"))
    first = program(tmp_path / "one", "").value
    assert jcache("push", url, "--root", tmp_path / "one").code == 0
    unsigned = program(tmp_path / "two", url, JCACHE_REMOTE_SIGNERS=signers)
    assert unsigned.value["values"] == first["values"] and unsigned.value["hits"] == unsigned.value["graphs"] == 0
    assert unsigned.err.count("Warning: ") == 1 and "0 of 1 manifests count" in unsigned.err, unsigned.err
    assert jcache("push", url, "--root", tmp_path / "one", "--sign", mine).code == 0
    signed = program(tmp_path / "three", url, JCACHE_REMOTE_SIGNERS=signers)
    check_hits(first, signed.value)
    assert "Warning: " not in signed.err, signed.err
    with open_remote(url) as remote:
        entries = [one[:3] for one in remote.list(Kind.EXECUTABLES)]
        sound = [remote.get(*entry) or b"" for entry in entries]
        for entry, data in zip(entries, sound[1:] + sound[:1], strict=True):
            remote.put(*entry, data, replace=True)
    swapped = program(tmp_path / "four", url, JCACHE_REMOTE_SIGNERS=signers)
    assert swapped.value["values"] == first["values"] and swapped.value["hits"] == 0 and swapped.value["graphs"] == 1
    assert swapped.err.count("Warning: ") == 1 and "other bytes than its signer has pushed" in swapped.err


@needs_openssh
def test_signers_that_cannot_be_required(tmp_path: Path) -> None:
    """Over plain HTTP they are an error as an argument; in the environment, the program runs without the store."""
    text = "import jcache\ntry: jcache.enable(remote='http://x', remote_signers='y')\n"
    assert run(text + "except jcache.InvalidValue as e: print(int('plain HTTP' in str(e)))").value == 1
    url = (tmp_path / "store").as_uri()
    for where, missing in (("http://x", str(allowed(tmp_path))), (url, str(tmp_path / "missing"))):
        found = program(tmp_path / "root", where, JCACHE_REMOTE_SIGNERS=missing).value
        assert found["remote"] is None and "No store is used" in str(found["warnings"])


@pytest.mark.full
@pytest.mark.whole
def test_killed_programs(tmp_path: Path, chance: Random, full: bool) -> None:
    """Whenever a program that writes to a store is killed, all that is in the store and in its root is whole."""
    store, file = (tmp_path / "store").as_uri(), tmp_path / "program.py"
    promised = program(tmp_path / "root", store, writes=True).value
    file.write_text(PROGRAM.replace("values = [", "print(flush=True)\nvalues = [", 1))
    for attempt in range(60 if full else 4):
        place, root = tmp_path / f"store{attempt}", tmp_path / f"root{attempt}"
        command = [sys.executable, str(file), str(root), place.as_uri(), "True"]
        child = subprocess.Popen(command, env=environment({"JAX_PLATFORMS": "cpu"}), stdout=subprocess.PIPE)
        assert child.stdout is not None and child.stdout.readline()
        time.sleep(chance.uniform(0, promised["seconds"]))
        child.send_signal(signal.SIGKILL)
        child.communicate()
        place.mkdir(exist_ok=True)
        with open_remote(place.as_uri()) as remote:
            assert all(remote.get(one.kind, one.namespace, one.key) for one in remote.list())
        clean(root)
        found = program(tmp_path / f"other{attempt}", place.as_uri()).value
        assert found["values"] == promised["values"] and found["warnings"] == []
        clean(tmp_path / f"other{attempt}")


@pytest.mark.full
def test_a_real_store(s3: S3Server, tmp_path: Path) -> None:
    """S3: a host that writes and one that may only read, which says once that its uploads are refused."""
    url = f"s3://jcache/programs-{tmp_path.name}"
    first = program(tmp_path / "one", url, writes=True, **s3.writer).value
    second = program(tmp_path / "two", url, writes=True, **s3.reader)
    check_hits(first, second.value)
    assert second.err.count("Warning: ") == 1 and "does not allow" in second.err
