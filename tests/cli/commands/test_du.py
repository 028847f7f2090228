"""`jcache du`."""

import re
from pathlib import Path

import pytest

from tests.helpers.command_line import H200, Jcache, entry_files
from tests.helpers.terminals import WIDTHS, Terminal


@pytest.mark.parametrize(
    ("by", "name"), [("function", "jit_train"), ("kind", "executables"), ("jaxlib", "unknown"), ("run", "unknown")]
)
def test_du_adds_up(jcache: Jcache, jax_cache: Path, by: str, name: str) -> None:
    """The groups of `du` add up to all bytes."""
    du = jcache("du", "--root", jax_cache, "--by", by, "--json").json
    assert du["total_bytes"] == sum(g["bytes"] for g in du["groups"]) == sum(entry_files(jax_cache).values())
    assert name in [group["name"] for group in du["groups"]]


def test_du_sorts_and_limits(jcache: Jcache, jax_cache: Path) -> None:
    """`--sort` and `--limit` choose the groups, the total stays that of all, and a limit is told."""
    groups = jcache("du", "--root", jax_cache, "--json", "--sort", "name").json["groups"]
    assert [group["name"] for group in groups] == sorted(group["name"] for group in groups)
    by_entries = jcache("du", "--root", jax_cache, "--json", "--sort", "entries").json["groups"]
    entries = [group["entries"] for group in by_entries]
    assert entries == sorted(entries, reverse=True)
    limited = jcache("du", "--root", jax_cache, "--json", "--limit", "2").json
    assert len(limited["groups"]) == 2 and limited["total_bytes"] == sum(entry_files(jax_cache).values())
    shown = jcache("du", "--root", jax_cache, "--limit", "2", "--sort", "seconds").out
    assert f"first 2 of {len(groups):,} by seconds" in shown and re.search(r"jit_\w+ .* \d+\.\d\d s +–\n", shown)
    assert jcache("du", "--root", jax_cache, "--sort", "colour").code == 2


@pytest.mark.full
@pytest.mark.parametrize("columns", WIDTHS)
def test_du_on_a_terminal(jax_cache: Path, columns: int) -> None:
    """Lines fit, and numbers are whole at any width; a dash says that no recorded run used a group."""
    code, lines = Terminal("du", "--root", jax_cache, columns=columns).finish()
    assert code == 0 and max(map(len, lines)) <= columns
    assert all(line.split()[-1] == "–" for line in lines[2:] if line.startswith("jit_"))


def test_du_by_device_reads_the_entries(jcache: Jcache) -> None:
    """`du --by device` reads the devices from the entries."""
    groups = jcache("du", "--root", H200, "--by", "device", "--json").json["groups"]
    assert [group["name"] for group in groups] == ["cuda 9.0"]
