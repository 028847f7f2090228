"""`jcache clear`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.command_line import Jcache, clean_environment, keys
from tests.helpers.terminals import open_terminal
from tests.helpers.waiting import LIMIT_S


def test_clear_needs_yes_where_nobody_can_be_asked(jcache: Jcache, cache: Path) -> None:
    """Off a terminal, clear without --yes is a usage error that removes nothing."""
    before = keys(cache)
    result = jcache("clear", "--root", cache)
    assert result.code == 2 and "--yes" in result.err and keys(cache) == before


@pytest.mark.full
@pytest.mark.parametrize(("answer", "code", "left"), [("n\n", 1, True), ("\n", 1, True), ("y\n", 0, False)])
def test_clear_asks_on_a_terminal(cache: Path, answer: str, code: int, left: bool) -> None:
    """On a terminal, clear asks, and any answer but yes means no."""
    primary, secondary = open_terminal()
    command = [sys.executable, "-m", "jcache", "clear", "--root", str(cache)]
    process = subprocess.Popen(command, stdin=secondary, stdout=secondary, stderr=secondary, env=clean_environment())
    os.close(secondary)
    seen = b""
    while b"[y/N]" not in seen:
        seen += os.read(primary, 1024)
    os.write(primary, answer.encode())
    assert process.wait(LIMIT_S) == code
    os.close(primary)
    assert bool(keys(cache)) is left


@pytest.mark.full
def test_clear_takes_a_kind(jcache: Jcache, cache: Path) -> None:
    """A kind limits which entries are cleared."""
    before = keys(cache)
    assert jcache("clear", "traces", "graphs", "--yes", "--root", cache).code == 0
    assert keys(cache) == before
    assert jcache("clear", "executables", "--yes", "--root", cache).code == 0
    assert not keys(cache)


def test_links_in_a_root_are_told_and_not_followed(jcache: Jcache, jax_cache: Path, tmp_path: Path) -> None:
    """Executables behind a symbolic link are not read, and a warning says so."""
    root = tmp_path / "root"
    jcache("run", "-q", "--root", root, "--", "true")
    (root / "executables").rmdir()
    (root / "executables").symlink_to(jax_cache)
    result = jcache("clear", "--yes", "--root", root)
    assert "symbolic link" in result.err and list(jax_cache.glob("*-cache"))
