"""The forecast of `jcache import` and `info` for executables, compared with what a real JAX then hits."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from jcache.layout import Kind
from jcache.shipping.archive import ArchiveReader, open_archive
from jcache.store.roots import create_root
from tests.helpers.command_line import Jcache, call, keys, powerless, run_jax
from tests.helpers.entries import add, key
from tests.helpers.imports import content, packed, populated
from tests.jax_internals.test_cache_hook import PATH_IN_KEYS

XLA_CACHES = "xla_gpu_per_fusion_autotune_cache_dir"  # JAX's default, with which it hashes the directory's path
needs_paths = pytest.mark.skipif(not PATH_IN_KEYS, reason="this JAX has no path in its keys")


@pytest.fixture(scope="module", name="keyed")
def keyed_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory whose path is in its keys, filled by JAX alone; not to be changed."""
    path = tmp_path_factory.mktemp("keyed") / "old"
    assert run_jax(path, JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES=XLA_CACHES).code == 0
    return path


@pytest.fixture(name="moved")
def moved_fixture(tmp_path: Path, jcache: Jcache) -> Path:
    """Make an archive of a directory that no longer exists."""
    old = tmp_path / "home" / "old"
    assert run_jax(old, JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES=XLA_CACHES).code == 0
    assert jcache("export", "-q", "--root", old, "-o", tmp_path / "archive").code == 0
    shutil.rmtree(old)
    return tmp_path / "archive"


def interpreter(path: Path, *, hidden: str = "", options: str = "") -> Path:
    """Make an interpreter that reports the installation of the tests' own, but cannot import some module."""
    (path / "site").mkdir(parents=True)
    (path / "site" / "sitecustomize.py").write_text(f"import sys\nsys.modules[{hidden!r}] = None\n" if hidden else "")
    python = path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={path / "site"} exec "{sys.executable}" {options} "$@"\n')
    python.chmod(0o755)
    return python


# -- what is counted


@pytest.mark.jax
@needs_paths
def test_skipped_is_what_cannot_hit(jcache: Jcache, moved: Path, tmp_path: Path) -> None:
    """--skip-incompatible leaves out exactly the executables that the forecast says cannot be hit; --link may
    change these.
    """
    total = jcache("import", moved, "--root", tmp_path / "new", "--dry-run", "--json").json["forecast"]["cannot"]
    assert total >= 8
    skipped = jcache("import", moved, "--root", tmp_path / "new", "--skip-incompatible", "--json").json
    assert skipped["entries"]["incompatible"] == total and skipped["forecast"]["executables"] == 0
    assert any(note.startswith("Left out: ") and "keyed for" in note for note in skipped["notes"])
    linked = jcache("import", moved, "--root", tmp_path / "new", "--skip-incompatible", "--link", "--json").json
    assert linked["entries"]["incompatible"] == 0 and linked["forecast"]["will"] == linked["entries"]["new"] == total


def test_what_did_not_come_is_not_counted(jcache: Jcache, tmp_path: Path) -> None:
    """Entries that stay different, or are refused, are not in the forecast; nor are they on a dry run."""
    archive, target = tmp_path / "archive", tmp_path / "target"
    archive.write_bytes(packed(populated(tmp_path / "source")))
    add(create_root(target).directory(Kind.EXECUTABLES), key(0), content(Kind.EXECUTABLES, key(0), build=1))
    for options, expected in [(("--dry-run",), 3), ((), 3), (("--replace",), 4)]:
        done = jcache("import", archive, "--root", target, "--json", *options).json
        assert done["forecast"]["executables"] == expected
        assert sum(done["forecast"][hit] for hit in ("will", "cannot", "unknown")) == expected


# -- links


@pytest.mark.jax
@needs_paths
def test_a_link_that_is_not_made(jcache: Jcache, moved: Path, tmp_path: Path) -> None:
    """A link that cannot be made is one sentence, exit 3, and no announced hit; the entries are imported."""
    old, target = tmp_path / "home" / "old", tmp_path / "new"
    foreseen = jcache("import", moved, "--root", target, "--link", "--dry-run", "--json").json
    assert any(note.startswith(f"Would link {old} to {target}") for note in foreseen["notes"])
    old.mkdir()
    (old / "something").touch()
    for option in ("--dry-run", "--json"):
        done = jcache("import", moved, "--root", target, "--link", "--json", option)
        assert done.code == 3 and done.json["forecast"]["will"] == 0
        assert any("a directory with something in it is there; move it" in note for note in done.json["notes"])
    assert done.json["entries"]["new"] == done.json["forecast"]["cannot"] > 0
    shutil.rmtree(old)
    made = jcache("import", moved, "--root", target, "--link")
    assert made.code == 0 and f"Linked {old} to {target}" in made.out
    again = jcache("import", moved, "--root", target, "--link")
    assert again.code == 0 and f"{old} already leads to {target / 'executables'}" in again.out


@pytest.mark.jax
@needs_paths
def test_a_link_that_may_not_be_made(moved: Path, tmp_path: Path) -> None:
    """If the user may not write at the old path, the forecast counts no hit that needs the link."""
    home, target = tmp_path / "home", tmp_path / "new"
    home.chmod(0o555)
    command = [*powerless(), sys.executable, "-m", "jcache", "import", str(moved), "--root", str(target), "--link"]
    done = call([*command, "--json"])
    home.chmod(0o755)
    assert done.code == 3 and done.json["forecast"]["will"] == 0, done.err
    assert any(f"{home} is read-only, or you may not write in it" in note for note in done.json["notes"])


def test_nothing_to_link(jcache: Jcache, tmp_path: Path) -> None:
    """--link reports it if no executable misses only because of its path."""
    archive = tmp_path / "archive"
    archive.write_bytes(packed(populated(tmp_path / "source")))
    done = jcache("import", archive, "--root", tmp_path / "target", "--link")
    assert done.code == 0 and "No link was made: " in done.out


# -- the interpreter that JAX lives in


@pytest.mark.jax
def test_export_asks_the_named_interpreter(jcache: Jcache, cache: Path, tmp_path: Path) -> None:
    """The manifest has the versions of the JAX that `JCACHE_PYTHON` names, as the forecast has."""
    other = interpreter(tmp_path / "other", options="-S")  # without site-packages, and so without JAX
    site = tmp_path / "other" / "site" / "jaxlib-0.6.2.dist-info"
    site.mkdir()
    (site / "METADATA").write_text("Metadata-Version: 2.1\nName: jaxlib\nVersion: 0.6.2\n")
    env = {"JCACHE_PYTHON": str(other)}
    assert jcache("export", "-q", "--root", cache, "-o", tmp_path / "archive", env=env).code == 0
    with (tmp_path / "archive").open("rb") as stream:
        reader = open_archive(stream)
        assert isinstance(reader, ArchiveReader)
        manifest = reader.head().manifest
    assert (manifest.jax, manifest.jaxlib) == (None, "0.6.2")
    told = jcache("import", tmp_path / "archive", "--root", tmp_path / "new", "--dry-run", "--json")
    assert told.json["forecast"]["unknown"] == len(keys(cache))  # that JAX, without zstandard, has not made them
    foreign = jcache("import", tmp_path / "archive", "--root", tmp_path / "new", "--dry-run", "--json", env=env)
    assert foreign.json["forecast"]["will"] == 0


@pytest.mark.parametrize("command", ["export", "import"])
def test_no_interpreter(jcache: Jcache, tmp_path: Path, command: str) -> None:
    """If `JCACHE_PYTHON` names no Python, one sentence says so, and nothing is written."""
    archive, env = tmp_path / "archive", {"JCACHE_PYTHON": "/bin/true"}
    source = populated(tmp_path / "source")
    archive.write_bytes(packed(source))
    where = (
        ["--root", source.path, "-o", tmp_path / "x"] if command == "export" else [archive, "--root", tmp_path / "x"]
    )
    done = jcache(command, *where, env=env)
    assert done.code == 2 and not (tmp_path / "x").exists()
    assert len(done.err.splitlines()) == 1 and "JCACHE_PYTHON is /bin/true, which is no Python" in done.err


@pytest.mark.jax
def test_check_load_by_the_named_interpreter(jcache: Jcache, cache: Path, tmp_path: Path) -> None:
    """--check-load loads the archive's entries with the JAX of `JCACHE_PYTHON`, including those that were
    present; without a JAX it says so.
    """
    archive, target = tmp_path / "archive", tmp_path / "new"
    assert jcache("export", "-q", "--root", cache, "-o", archive).code == 0
    without = interpreter(tmp_path / "other", options="-S")
    env = {"JCACHE_PYTHON": str(without)}
    failed = jcache("import", archive, "--root", target, "--check-load", env=env)
    assert failed.code == 3 and f"{without} cannot open executables with JAX" in failed.out
    again = jcache("import", archive, "--root", target, "--check-load", "--json")
    assert again.code == 0 and again.json["entries"]["present"] == again.json["loads"]["loads"] == len(keys(cache))
    dry = jcache("import", archive, "--root", target, "--check-load", "--dry-run")
    assert "Nothing was loaded" in dry.out


# -- a directory that is there


@pytest.mark.jax
@needs_paths
def test_info_of_a_copied_directory(jcache: Jcache, keyed: Path, tmp_path: Path) -> None:
    """In a copied directory, `info` says that executables cannot be hit, and with a ledger how many; -v
    prints the remedies.
    """
    total = len(keys(keyed))
    assert jcache("info", "--root", keyed, "--json").json["health"].startswith("ok (")
    copy = Path(shutil.copytree(keyed, tmp_path / "copy"))
    assert f"1 of 1 executables read ({total} in all) cannot be hit at this path, since their keys contain {keyed}" in (
        jcache("info", "--root", copy).out
    )
    verbose = jcache("info", "-v", "--root", copy)
    assert f"{total} of {total} executables cannot be hit at this path, since their keys contain {keyed}" in verbose.out
    assert f'`eval "$(jcache env --root {copy})"`' in verbose.out
    run_jax(copy, JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES=XLA_CACHES)
    assert len(keys(copy)) == 2 * total  # so it is: nothing was hit
    assert jcache("export", "-q", "--root", copy, "-o", tmp_path / "archive").code == 0
    known = jcache("info", "--root", copy, "--json").json
    assert known["keyed_elsewhere"] == {"directories": {str(keyed): total}, "looked_at": 2 * total}
    assert known["health"].startswith(f"{total} of {2 * total} executables cannot be hit at this path")


@pytest.mark.jax
@needs_paths
def test_info_of_a_copy_made_with_all_of_xlas_caches(jcache: Jcache, tmp_path: Path) -> None:
    """The way out names the setting under which they were stored, read from one or remembered of all."""
    old, copy = tmp_path / "old", tmp_path / "copy"
    run_jax(old, JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES="all")
    shutil.copytree(old, copy)
    told = f"export JAX_COMPILATION_CACHE_DIR={old} && export JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES=all`"
    for _ in range(2):
        shutil.rmtree(old, ignore_errors=True)
        assert told in jcache("info", "-v", "--root", copy).out
        assert jcache("export", "-q", "--root", copy, "-o", os.devnull).code == 0


@pytest.mark.jax
@needs_paths
def test_info_after_an_import(jcache: Jcache, moved: Path, tmp_path: Path) -> None:
    """After an import, `info` counts executables that cannot be hit, until a link is made."""
    target = tmp_path / "new"
    total = jcache("import", moved, "--root", target, "--json").json["forecast"]["cannot"]
    assert f"{total} of {total} executables cannot be hit" in jcache("info", "--root", target, "--json").json["health"]
    assert "ln -s" in jcache("info", "-v", "--root", target).out
    assert jcache("import", moved, "--root", target, "--link").code == 0
    assert jcache("info", "--root", target, "--json").json["health"].startswith("ok (")


@pytest.mark.jax
def test_info_of_portable_keys(jcache: Jcache, cache: Path) -> None:
    """A copied directory whose keys have no path in them is as well as any."""
    assert jcache("info", "--root", cache, "--json").json["health"].startswith("ok (")
