"""`jcache run --remote`: programs that know nothing of jcache hit what a store has."""

import sys
from pathlib import Path

import pytest

from jcache.cli.run_remote import opener_of
from jcache.errors import InvalidValue
from tests.helpers.command_line import PROGRAM, Jcache, entry_files
from tests.helpers.remote_servers import refusing, web_server


@pytest.mark.jax
def test_a_run_on_another_host(jcache: Jcache, tmp_path: Path) -> None:
    """With an empty root, everything that another host has pushed is a hit, and then it is in the root."""
    first, second, url = tmp_path / "first", tmp_path / "second", f"file://{tmp_path}/store"
    cold = jcache("run", "--root", first, "--", sys.executable, PROGRAM)
    entries = len(entry_files(first / "executables"))
    assert jcache("push", url, "--root", first).code == 0
    warm = jcache("run", "--root", second, "--remote", url, "--", sys.executable, PROGRAM)
    assert f"{entries} hits, 0 misses (stored)" in warm.err and "warning" not in warm.err
    assert warm.out == cold.out
    again = jcache("run", "--root", second, "--remote", "", "--", sys.executable, PROGRAM, env={"JCACHE_REMOTE": url})
    assert f"{entries} hits, 0 misses (stored)" in again.err
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
