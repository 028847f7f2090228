"""`jcache push`: what it prints, its exit codes, and what a killed one leaves."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from jcache.layout import Kind
from jcache.remote.client import Remote, open_remote
from tests.helpers.command_line import Jcache, clean_environment
from tests.helpers.entries import add, key
from tests.helpers.imports import Facts, content, facts, populated
from tests.helpers.remote_servers import S3Server, credentials, faulty_server, hanging, refusing, web_server
from tests.helpers.signatures import needs_openssh, new_key


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return populated(tmp_path / "root", count=3).path


def test_what_it_says(jcache: Jcache, root: Path, tmp_path: Path) -> None:
    """A dry run changes nothing and tells what the push then does; the second one finds everything there."""
    url = f"file://{tmp_path}/store"
    dry = jcache("push", url, "--root", root, "--dry-run")
    assert dry.code == 0 and dry.out.startswith("Would push 9 entries, ") and not (tmp_path / "store").exists()
    done = jcache("push", url, "--root", root)
    assert done.code == 0 and done.out == dry.out.replace("Would push", "Pushed")
    again = jcache("push", "--root", root, "--json", env={"JCACHE_REMOTE": url})
    assert again.json["entries"] == {"new": 0, "present": 9, "different": 0, "replaced": 0, "omitted": 0}
    assert again.json["remote"] == url and again.json["root"] == str(root) and again.json["bytes"] == 0
    assert jcache("push", url, "--root", root, "-q").out == ""


def test_selections(jcache: Jcache, root: Path, tmp_path: Path) -> None:
    """Keys, kinds and filters choose as in `ls`."""
    url = f"file://{tmp_path}/store"
    assert jcache("push", url, key(1), "--root", root, "--json").json["entries"]["new"] == 1
    assert jcache("push", url, "--kind", "traces", "--root", root, "--json").json["entries"]["new"] == 3
    assert jcache("push", url, "--filter", "kind=graphs", "--root", root, "--json").json["entries"]["new"] == 3
    assert jcache("push", url, "nothing", "--root", root).code == 1
    assert jcache("push", url, "--run", "last", "--root", root).code == 1


def test_damage_stays_behind(jcache: Jcache, root: Path, tmp_path: Path) -> None:
    """What is damaged is told with exit code 3, and the rest goes."""
    add(root / "executables", key(70), b"no entry", written_ns=1)
    done = jcache("push", f"file://{tmp_path}/store", "--root", root)
    assert done.code == 3 and "Pushed 9 entries" in done.out and "1 damaged entry not pushed" in done.err


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ((), 2, "No store is named: write one"),
        (("ftp://h/x",), 2, "begins with none of s3://"),
        (("http://user:hush@h:x/",), 2, "is no URL"),
        (("s3://key:hush@bucket/x",), 2, "credentials and endpoints come from the environment"),
        (("file:///tmp/x", "--as", "a/b"), 2, "is no name of a generation"),
        (("file:///tmp/x", "--filter", "size>"), 2, "has no value"),
    ],
)
def test_bad_input(jcache: Jcache, root: Path, arguments: tuple[str, ...], code: int, sentence: str) -> None:
    """It is one sentence, with the documented exit code, and without secrets."""
    done = jcache("push", *arguments, "--root", root)
    assert done.code == code and sentence in done.err.replace("\n", " ") and "hush" not in done.err


def test_stores_that_fail(jcache: Jcache, root: Path) -> None:
    """Refusing and hanging stores end a push with exit code 1 and one sentence."""
    done = jcache("push", f"http://{refusing()}/x", "--root", root)
    assert done.code == 1 and "no connection could be made" in done.err.replace("\n", " ")
    endpoint = credentials(f"http://{refusing()}", "K")
    done = jcache("push", "s3://bucket/x", "--root", root, env=endpoint)
    assert done.code == 1 and "no connection could be made" in done.err.replace("\n", " ") and "secret" not in done.err


def test_a_generation(jcache: Jcache, root: Path, tmp_path: Path) -> None:
    """One archive is stored under a name, once."""
    url = f"file://{tmp_path}/store"
    done = jcache("push", url, "--as", "night", "--root", root)
    assert done.code == 0 and done.out.startswith("Pushed 9 entries, ") and done.out.endswith(" as night\n")
    again = jcache("push", url, "--as", "night", "--root", root)
    assert again.code == 3 and "has a generation night already" in again.err.replace("\n", " ")


@needs_openssh
def test_a_signed_push(jcache: Jcache, root: Path, tmp_path: Path) -> None:
    """The manifest is signed, and a reader that asks for the signer takes all."""
    url, mine = f"file://{tmp_path}/store", new_key(tmp_path / "mine")
    signers = tmp_path / "signers"
    signers.write_text(f"me@here {Path(f'{mine}.pub').read_text()}")
    assert jcache("push", url, "--root", root).code == 0
    wanted = ("pull", url, "--require-signature", "--allowed-signers", signers, "--root", tmp_path / "target")
    first = jcache(*wanted, "--json")
    assert first.json["remote"]["unsigned"] == 9 and not (tmp_path / "target" / "traces-v1").exists()
    assert jcache("push", url, "--sign", mine, "--root", root, "--json").json["signed"]
    taken = jcache(*wanted)
    assert taken.code == 0 and "Pulled 9 entries" in taken.out and "Signed by me@here" in taken.out


@pytest.mark.full
def test_killed_pushers(tmp_path: Path, chance: Random, full: bool) -> None:
    """Whenever a push is killed, everything in the store is whole, and the next push adds the rest."""
    root = populated(tmp_path / "root", count=60)
    before = facts(root)
    command = [sys.executable, "-m", "jcache", "push", "--root", str(root.path), "-q"]
    for attempt in range(70 if full else 6):
        store = tmp_path / f"store{attempt}"
        child = subprocess.Popen([*command, f"file://{store}"], env=clean_environment(), stderr=subprocess.PIPE)
        time.sleep(chance.uniform(0.1, 0.9))
        child.send_signal(signal.SIGKILL)
        child.communicate()
        with open_remote(f"file://{store}") as remote:
            check_store(remote, before)
            subprocess.run([*command, f"file://{store}"], env=clean_environment(), check=True)
            assert check_store(remote, before) == len(before)


def check_store(remote: Remote, before: dict[tuple[Kind, str], Facts]) -> int:
    """Assert that each entry of a store is one of a root's, and return how many there are."""
    found = {(one.kind, one.key): remote.get(one.kind, one.namespace, one.key) for one in remote.list()}
    assert all(data == before[name].data for name, data in found.items())
    return len(found)


@pytest.mark.full
def test_s3(jcache: Jcache, root: Path, s3: S3Server, tmp_path: Path) -> None:
    """A real server takes a push, a reader may pull and not push, and a stranger neither."""
    url = f"s3://jcache/{tmp_path.name}"
    assert jcache("push", url, "--root", root, env=s3.writer).code == 0
    target = tmp_path / "target"
    assert jcache("pull", url, "--root", target, env=s3.reader, cwd=tmp_path).code == 0
    add(target / "traces-v1", key(900), content(Kind.TRACES, key(900)), written_ns=1)
    refused = jcache("push", url, "--root", target, env=s3.reader)
    assert refused.code == 1 and "it does not allow that" in refused.err.replace("\n", " ")
    stranger = credentials(s3.endpoint, "WRITER", "hush")
    for name in ("push", "pull", "sync"):
        done = jcache(name, url, "--root", root, env=stranger)
        assert done.code == 1 and "knows no such credentials" in done.err.replace("\n", " ")
        assert "hush" not in done.err + done.out


def test_plain_http(jcache: Jcache, root: Path, tmp_path: Path) -> None:
    """A server that cannot list takes a push, which asks for each entry, and gives what is named."""
    with web_server(tmp_path / "web") as server:
        assert jcache("push", server.url, "--root", root, "--json").json["entries"]["new"] == 9
        assert jcache("push", server.url, "--root", root, "--json").json["entries"]["present"] == 9
        target = tmp_path / "target"
        taken = jcache("pull", server.url, key(1001), key(2001), "--root", target)
        assert taken.code == 0 and taken.out.startswith("Pulled 2 entries")
        for name in ("pull", "sync"):
            refused = jcache(name, server.url, "--root", target)
            assert refused.code == 2 and "cannot list" in refused.err.replace("\n", " ")


def test_an_interrupted_push(root: Path) -> None:
    """Ctrl-C ends a push that waits, with exit code 130."""
    with faulty_server(hanging) as host:
        command = [sys.executable, "-m", "jcache", "push", f"http://{host}/x", "--root", str(root)]
        child = subprocess.Popen(command, env=clean_environment(), stderr=subprocess.PIPE, text=True)
        time.sleep(1.5)
        os.kill(child.pid, signal.SIGINT)
        _, err = child.communicate(timeout=60)
        assert child.returncode == 130 and "Traceback" not in err, err


def test_json_is_one_document(jcache: Jcache, root: Path, tmp_path: Path) -> None:
    """With --json, stdout is a document with a schema version."""
    assert json.loads(jcache("push", f"file://{tmp_path}/s", "--root", root, "--json").out)["schema_version"] == 1
