"""`jcache sync`: push, then pull; nothing is removed on either side."""

from pathlib import Path

import pytest

from jcache.layout import Kind
from jcache.remote.client import open_remote
from jcache.store.roots import create_root
from tests.helpers.command_line import Jcache
from tests.helpers.entries import add, key
from tests.helpers.imports import content, facts, populated


def test_two_hosts(jcache: Jcache, tmp_path: Path) -> None:
    """After both have synced twice, both have what either had."""
    one, two = populated(tmp_path / "one", count=2), tmp_path / "two"
    url = f"file://{tmp_path}/store"
    assert jcache("sync", url, "--root", one.path).code == 0
    first = jcache("sync", url, "--root", two)
    assert first.code == 0 and "\nPulled 6 entries" in first.out
    add(two / "traces-v1", key(500), content(Kind.TRACES, key(500)), written_ns=1)
    assert "Pushed 1 entry" in jcache("sync", url, "--root", two).out
    dry = jcache("sync", url, "--root", one.path, "--dry-run", "--json").json
    assert dry["push"]["entries"]["new"] == 0 and dry["pull"]["entries"]["new"] == 1
    assert jcache("sync", "--root", one.path, env={"JCACHE_REMOTE": url}).code == 0
    assert len(facts(one)) == 7 == len(list(open_remote(url).list()))
    assert (Kind.TRACES, key(500)) in facts(one)


@pytest.mark.parametrize("command", ["sync", "pull"])
def test_another_build_stays_and_is_a_success(command: str, jcache: Jcache, tmp_path: Path) -> None:
    """Two hosts that have compiled the same program for themselves keep their own; --replace takes the store's."""
    one, two, url = populated(tmp_path / "one", count=2), create_root(tmp_path / "two"), f"file://{tmp_path}/store"
    mine = {}
    for number, kind in enumerate(Kind):
        for each in range(2):
            a_key = key(1000 * number + each)
            path = add(two.directory(kind), a_key, content(kind, a_key, 1), written_ns=1)
            mine[path] = path.read_bytes(), content(kind, a_key)
    assert jcache("push", url, "--root", one.path).code == 0
    done = jcache(command, url, "--root", two.path)
    assert done.code == 0 and "6 present and different, kept" in done.out and f"jcache pull {url} --replace" in done.out
    assert all(path.read_bytes() == own for path, (own, _) in mine.items())
    assert jcache("pull", url, "--root", two.path, "--replace").code == 0
    assert all(path.read_bytes() == others for path, (_, others) in mine.items())
    assert jcache("verify", "--root", two.path).code == 0


def test_nothing_on_either_side(jcache: Jcache, tmp_path: Path) -> None:
    """A directory that does not exist is told to whoever has nothing to push, as by a pull."""
    done = jcache("sync", f"file://{tmp_path}/store", "--root", tmp_path / "root")
    assert done.code == 10 and "There is no directory" in done.err and not (tmp_path / "root").exists()


def test_it_takes_no_keys(jcache: Jcache, tmp_path: Path) -> None:
    """A second word is a usage error."""
    assert jcache("sync", f"file://{tmp_path}/store", key(1), "--root", tmp_path / "root").code == 2


@pytest.mark.parametrize("options", [["--require-signature"], ["--allowed-signers", ""]])
@pytest.mark.parametrize("command", ["sync", "pull"])
def test_signers_must_be_named_before_anything_is_done(
    command: str, options: list[str], jcache: Jcache, tmp_path: Path
) -> None:
    """Nothing is pushed or pulled."""
    root, url = populated(tmp_path / "one", count=2), f"file://{tmp_path}/store"
    result = jcache(command, url, "--root", root.path, *options)
    assert (result.code, result.out) == (2, "") and "needs a list of signers" in result.err
    assert not (tmp_path / "store").exists()
