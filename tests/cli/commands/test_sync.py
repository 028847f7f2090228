"""`jcache sync`: push, then pull; nothing is removed on either side."""

from pathlib import Path

import pytest

from jcache.layout import Kind
from jcache.remote.client import open_remote
from tests.helpers.command_line import Jcache
from tests.helpers.entries import add, key
from tests.helpers.imports import content, facts, populated


def test_two_hosts(jcache: Jcache, tmp_path: Path) -> None:
    """After both have synced twice, both have what either had."""
    one, two = populated(tmp_path / "one", count=2), tmp_path / "two"
    url = f"file://{tmp_path}/store"
    assert jcache("sync", url, "--root", one.path).code == 0
    first = jcache("sync", url, "--root", two)
    assert first.code == 0 and first.out.startswith("Pulled 6 entries")
    add(two / "traces-v1", key(500), content(Kind.TRACES, key(500)), written_ns=1)
    assert "Pushed 1 entry" in jcache("sync", url, "--root", two).out
    dry = jcache("sync", url, "--root", one.path, "--dry-run", "--json").json
    assert dry["push"]["entries"]["new"] == 0 and dry["pull"]["entries"]["new"] == 1
    assert jcache("sync", "--root", one.path, env={"JCACHE_REMOTE": url}).code == 0
    assert len(facts(one)) == 7 == len(list(open_remote(url).list()))
    assert (Kind.TRACES, key(500)) in facts(one)


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
