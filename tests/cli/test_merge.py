"""`jcache merge` as users run it."""

import shutil
from pathlib import Path

import pytest

from jcache.layout import Kind
from tests.helpers.command_line import Jcache, entry_files, keys, run_jax
from tests.helpers.entries import add, copied, key, tree
from tests.helpers.imports import content, populated


@pytest.mark.smoke
@pytest.mark.jax
def test_real_caches(jcache: Jcache, cache: Path, bounded_cache: Path, tmp_path: Path) -> None:
    """Two caches of JAX become one in which a program finds everything."""
    target, bounded = tmp_path / "target", copied(bounded_cache, tmp_path / "bounded")
    result = jcache("merge", cache, bounded, "--root", target, "--json")
    first, second = result.json["merged"]
    assert result.code == (3 if second["entries"]["different"] else 0), result.err  # compiling is not deterministic
    assert first["entries"]["new"] == len(keys(cache))
    assert second["entries"]["new"] + second["entries"]["present"] + second["entries"]["different"] == len(
        keys(bounded_cache)
    )
    run_jax(target / "executables")
    assert keys(target / "executables") == keys(cache) | keys(bounded_cache)
    assert jcache("verify", "--root", target).code == 0


def test_dry_run(jcache: Jcache, tmp_path: Path) -> None:
    """A dry run makes nothing and tells what would be brought."""
    source, target = populated(tmp_path / "source"), tmp_path / "target"
    before = tree(source.directory(Kind.EXECUTABLES))
    result = jcache("merge", source.path, "--root", target, "--dry-run")
    assert result.code == 0 and "Would merge 12 entries" in result.out and not target.exists()
    assert jcache("merge", source.path, "--root", target).code == 0
    assert tree(source.directory(Kind.EXECUTABLES)) == before


def test_different(jcache: Jcache, tmp_path: Path) -> None:
    """Of two builds of one program the first stays, by exit code 3, unless the later is to replace it."""
    source, other = populated(tmp_path / "source"), populated(tmp_path / "other")
    build = content(Kind.EXECUTABLES, key(0), build=1)
    add(other.directory(Kind.EXECUTABLES), key(0), build)
    target = tmp_path / "target"
    planned, done = (jcache("merge", source.path, other.path, "--root", target, *n) for n in (["--dry-run"], []))
    assert planned.code == done.code == 3 and "Merged 12 entries" in done.out and "mport" not in done.out
    assert planned.out.replace("Would merge", "Merged") == done.out
    sentences = [line for line in done.out.splitlines() if not line.startswith(("Merged", "  "))]
    assert len(set(sentences)) == len(sentences)
    place = target / "executables" / f"{key(0)}-cache"
    assert place.read_bytes() != build
    assert jcache("merge", other.path, "--replace", "--dry-run", "--root", target).code == 0
    assert jcache("merge", other.path, "--replace", "--root", target).code == 0
    assert place.read_bytes() == build


def test_damaged(jcache: Jcache, tmp_path: Path) -> None:
    """A damaged entry is not brought, and told of by exit code 3."""
    source, target = populated(tmp_path / "source"), tmp_path / "target"
    add(source.directory(Kind.EXECUTABLES), key(0), b"garbage", written_ns=1)
    result = jcache("merge", source.path, "--root", target)
    assert result.code == 3 and "Damaged" in result.out
    assert key(0) not in keys(target / "executables") and len(entry_files(target / "executables")) == 3


def test_what_cannot_be_meant(jcache: Jcache, tmp_path: Path) -> None:
    """A root is not merged into itself, and what is none is said to be none, before anything is made."""
    source = populated(tmp_path / "source").path
    assert jcache("merge", source, "--root", source).code == 2
    (tmp_path / "link").symlink_to(source)
    assert jcache("merge", tmp_path / "link", "--root", source).code == 2
    missing = jcache("merge", source, tmp_path / "none", "--root", tmp_path / "target")
    assert missing.code == 10 and missing.err.rstrip().endswith("or name another ROOT.")
    assert not (tmp_path / "target").exists()
    assert jcache("merge", "--root", source).code == 2
    shutil.rmtree(source)
