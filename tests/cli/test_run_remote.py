"""`jcache run --remote`: programs that know nothing of jcache hit what a store has."""

import json
import sys
from pathlib import Path

import pytest

from jcache.cli.run_remote import opener_of
from jcache.errors import InvalidValue
from jcache.layout import DIRECTORY_NAMES, Kind
from tests.helpers.command_line import PROGRAM, Jcache, entry_files
from tests.helpers.imports import populated
from tests.helpers.remote_servers import refusing, web_server
from tests.helpers.signatures import allowed, needs_openssh, new_key, public


@pytest.mark.jax
def test_a_run_on_another_host(jcache: Jcache, tmp_path: Path) -> None:
    """With an empty root, everything that another host has pushed is a hit, and then it is in the root."""
    first, second, url = tmp_path / "first", tmp_path / "second", f"file://{tmp_path}/store"
    cold = jcache("run", "--root", first, "--", sys.executable, PROGRAM)
    entries = len(entry_files(first / "executables"))
    assert jcache("push", url, "--root", first).code == 0
    warm = jcache("run", "--root", second, "--remote", url, "--", sys.executable, PROGRAM)
    assert f"{entries} hits, 0 misses (stored)" in warm.err and "warning" not in warm.err
    assert f"  from {url}: {entries} executables, " in warm.err and "from file" not in cold.err
    assert warm.out == cold.out
    again = jcache("run", "--root", second, "--remote", "", "--", sys.executable, PROGRAM, env={"JCACHE_REMOTE": url})
    assert f"{entries} hits, 0 misses (stored)" in again.err and "from file" not in again.err
    assert jcache("verify", "--root", second).code == 0


@pytest.mark.jax
def test_a_run_after_a_run(jcache: Jcache, tmp_path: Path) -> None:
    """What the last run of the command used is fetched with the first request, and each object once."""
    root = tmp_path / "root"
    with web_server(tmp_path / "store") as server:
        jcache("run", "--root", root, "--", sys.executable, PROGRAM)
        names = [Path(name).name for name in entry_files(root / "executables")]
        assert jcache("push", server.url, "--root", root).code == 0
        assert jcache("clear", "--root", root, "--yes").code == 0
        del server.log[:]
        warm = jcache("run", "--root", root, "--remote", server.url, "--", sys.executable, PROGRAM)
    assert f"{len(names)} hits, 0 misses (stored)" in warm.err and "warning" not in warm.err
    assert [sum(name in line for line in server.log) for name in names] == [1] * len(names)
    assert jcache("verify", "--root", root).code == 0


@pytest.mark.jax
def test_what_a_program_with_jcache_gets_is_told(jcache: Jcache, tmp_path: Path) -> None:
    """Traces count as well as executables, in the text and in the JSON report, and the next run gets nothing."""
    program, url = tmp_path / "program.py", f"file://{tmp_path}/store"
    program.write_text(
        "import jcache, jax.numpy as jnp\njcache.enable()\n"
        "@jcache.jit\ndef f(x):\n    return jnp.tanh(x @ x.T).sum()\n"
        "print(float(f(jnp.ones((64, 64)))))\n"
    )
    command, file = ("--", sys.executable, program), tmp_path / "report.json"
    first = jcache("run", "--root", tmp_path / "first", *command)
    assert jcache("push", url, "--root", tmp_path / "first").code == 0
    second = jcache("run", "--root", tmp_path / "second", "--remote", url, "--report", file, *command)
    assert second.out == first.out
    told = json.loads(file.read_text())["remote"]
    there = {kind: list((tmp_path / "second" / DIRECTORY_NAMES[kind]).glob("*-cache")) for kind in Kind}
    assert {kind: told[kind] for kind in Kind} == {kind: len(entries) for kind, entries in there.items()}
    assert told["bytes"] == sum(entry.stat().st_size for entries in there.values() for entry in entries)
    assert told["url"] == url and told["executables"] and told["traces"]
    assert f"  from {url}: {told['executables']} executables, {told['traces']} trace" in second.err
    third = jcache("run", "--root", tmp_path / "second", "--remote", url, "--json", *command)
    assert json.loads(third.err)["remote"] == {"url": url, "executables": 0, "traces": 0, "graphs": 0, "bytes": 0}


@pytest.mark.jax
@needs_openssh
def test_a_run_that_requires_signatures(jcache: Jcache, tmp_path: Path) -> None:
    """Before a signed push everything is compiled, and the report says once why; after it everything is a hit."""
    first, url, mine = tmp_path / "first", f"file://{tmp_path}/store", new_key(tmp_path / "mine")
    signers = allowed(tmp_path, f"me@here {public(mine)}")
    wanted = ("--require-signature", "--allowed-signers", signers, "--", sys.executable, PROGRAM)
    jcache("run", "--root", first, "--", sys.executable, PROGRAM)
    entries = len(entry_files(first / "executables"))
    assert jcache("push", url, "--root", first).code == 0
    unsigned = jcache("run", "--root", tmp_path / "second", "--remote", url, *wanted)
    assert "0 hits" in unsigned.err and unsigned.err.count("warning:") == 1, unsigned.err
    assert jcache("push", url, "--root", first, "--sign", mine).code == 0
    signed = jcache("run", "--root", tmp_path / "third", "--remote", url, *wanted)
    assert f"{entries} hits, 0 misses (stored)" in signed.err and "warning" not in signed.err
    variables = {"JCACHE_REMOTE": url, "JCACHE_REMOTE_SIGNERS": str(signers)}
    again = jcache("run", "--root", tmp_path / "fourth", "--", sys.executable, PROGRAM, env=variables)
    assert f"{entries} hits, 0 misses (stored)" in again.err and "warning" not in again.err


@pytest.mark.jax
def test_a_store_that_is_gone(jcache: Jcache, tmp_path: Path) -> None:
    """The program runs as without a store, and the report says once what is wrong."""
    place = refusing()
    done = jcache(
        "run", "--root", tmp_path / "root", "--", sys.executable, PROGRAM, env={"JCACHE_REMOTE": f"http://{place}/x"}
    )
    assert done.code == 0 and done.out.startswith("loss ") and "0 hits" in done.err
    assert done.err.count("warning:") == 1 and place in done.err


def test_what_is_no_store(jcache: Jcache, tmp_path: Path) -> None:
    """A URL on the command line that is none is an error; in the environment it is a warning."""
    assert jcache("run", "--root", tmp_path / "root", "--remote", "ftp://x", "--", "true").code == 2
    done = jcache("run", "--root", tmp_path / "root", "--", "true", env={"JCACHE_REMOTE": "ftp://x"})
    assert done.code == 0 and "runs without it" in done.err
    with pytest.raises(InvalidValue):
        opener_of("ftp://x", is_default=False)
    assert opener_of("", is_default=True) is None


def test_signers_that_cannot_be_required(jcache: Jcache, tmp_path: Path) -> None:
    """A missing file of signers, none, or plain HTTP is an error of the options, and a warning of the environment."""
    url, signers = f"file://{tmp_path}/store", allowed(tmp_path)
    command = ("run", "--root", tmp_path / "root", "--remote")
    for store, *options in (
        (url, "--require-signature"),
        (url, "--allowed-signers", ""),
        (url, "--allowed-signers", tmp_path / "missing"),
        ("http://x", "--allowed-signers", signers),
    ):
        done = jcache(*command, store, *options, "--", "true")
        assert done.code == 2 and ("signers" in done.err or "plain HTTP" in done.err.replace("\n", " ")), done.err
    for store, file in ((url, tmp_path / "missing"), ("http://x", signers)):
        variables = {"JCACHE_REMOTE": store, "JCACHE_REMOTE_SIGNERS": str(file)}
        done = jcache("run", "--root", tmp_path / "root", "--", "true", env=variables)
        assert done.code == 0 and "runs without it" in done.err


@pytest.mark.full
def test_pull_and_sync_take_signers_from_the_environment(jcache: Jcache, tmp_path: Path) -> None:
    """Where the environment names signers, what nobody has signed is left out, as with the option."""
    populated(tmp_path / "root", count=1)
    url, signers = f"file://{tmp_path}/store", allowed(tmp_path)
    assert jcache("push", url, "--root", tmp_path / "root").code == 0
    for number, command in enumerate(("pull", "sync")):
        words = (command, url, "--root", tmp_path / str(number), "--json")
        assert jcache(*words, env={"JCACHE_REMOTE_SIGNERS": str(signers)}).code == 0
        assert not list((tmp_path / str(number)).glob("*/*-cache"))
        assert jcache(*words).code == 0 and list((tmp_path / str(number)).glob("*/*-cache"))
