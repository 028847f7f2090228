"""The report of `jcache export`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands.test_export import JCACHE, exported
from tests.helpers.command_line import (
    PROGRAM,
    Jcache,
    call,
    clean_environment,
    entry_files,
    keys,
)
from tests.helpers.entries import add, key


@pytest.mark.jax
def test_keys_with_a_path_are_announced(jcache: Jcache, tmp_path: Path) -> None:
    """If keys contain the directory, the summary names it and counts them."""
    root = tmp_path / "default"
    env = {"JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES": "all", "JAX_COMPILATION_CACHE_DIR": str(root)}
    assert call([sys.executable, str(PROGRAM)], env=env | {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}).code == 0
    manifest, result = exported(jcache, root, "--json")
    announced = json.loads(result.out)["keyed_for"]
    from jcache.jax_internals.path_keys import version_numbers

    puts = version_numbers(manifest.jaxlib or "") >= (0, 4, 36)
    assert announced == ({str(root): len(manifest.items)} if puts else {})
    assert (
        f"The keys of {len(manifest.items)} of them contain"
        in jcache("export", "--root", root, "-o", tmp_path / "x").err
    ) is puts


class TestDamage:
    def test_it_stays_behind(self, jcache: Jcache, cache: Path) -> None:
        """A damaged entry is named on stderr, with the next command; the others are exported, with exit 3."""
        (path := cache / f"{min(keys(cache))}-cache").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(500))
        os.utime(path, (10**9, 10**9))
        manifest, result = exported(jcache, cache)
        assert result.code == 3 and len(manifest.items) == len(keys(cache)) - 1 and result.out == ""
        assert "Damaged (compression): " in result.err or "Damaged (torn): " in result.err
        assert "1 damaged entry not exported: `jcache verify --repair --root" in result.err
        manifest, result = exported(jcache, cache, "--json", "-q")
        assert result.code == 3 and [one["key"] for one in result.json["damaged"]] == [path.name[:-6]]

    @pytest.mark.full
    def test_what_is_being_written(self, jcache: Jcache, cache: Path) -> None:
        """An entry that is being written is named and not exported, with exit 3."""
        (path := cache / f"{min(keys(cache))}-cache").write_bytes(path.read_bytes()[:-9])
        manifest, result = exported(jcache, cache)
        assert result.code == 3 and len(manifest.items) == len(keys(cache)) - 1
        assert f"Being written: {path.name[:-6]}" in result.err and "run the export again" in result.err
        manifest, result = exported(jcache, cache, "--json", "-q")
        assert result.json["being_written"] == [{"kind": "executables", "key": path.name[:-6]}]

    def test_many(self, jcache: Jcache, tmp_path: Path) -> None:
        """Of many findings, forty are printed, and with -v all."""
        for i in range(50):
            add(tmp_path / "root", key(i), b"nothing", written_ns=10**18)
        lines = {}
        for verbose in ("-q", "-v"):
            result = jcache("export", "--root", tmp_path / "root", "-o", tmp_path / "x", verbose)
            assert result.code == 3
            lines[verbose] = result.err.count("Damaged (codec)")
        assert lines == {"-q": 40, "-v": 50}

    def test_legacy_entries(self, jcache: Jcache, cache: Path) -> None:
        """Legacy entries are reported and not exported."""
        from tests.helpers.command_line import LEGACY

        (cache / key(1)).write_bytes(LEGACY)
        manifest, result = exported(jcache, cache)
        assert result.code == 0 and "1 legacy entry not exported" in result.err
        assert len(manifest.items) == len(keys(cache))

    def test_no_cache(self, jcache: Jcache, tmp_path: Path) -> None:
        """A missing cache is exit 10; an empty root gives an archive without entries, and a warning."""
        assert jcache("export", "--root", tmp_path / "none", "-o", tmp_path / "x").code == 10
        assert not (tmp_path / "x").exists()
        assert jcache("run", "-q", "--root", tmp_path / "root", "--", "true").code == 0
        manifest, result = exported(jcache, tmp_path / "root")
        assert result.code == 0 and not manifest.items and "warning: There is no entry" in result.err


def test_json(jcache: Jcache, cache: Path, tmp_path: Path) -> None:
    """The JSON summary goes to stdout if the archive is a file, and to stderr if it is a stream."""
    summary = jcache("export", "--root", cache, "-o", tmp_path / "a", "--json").json
    assert summary["entries"] == len(keys(cache)) and summary["bytes"] == sum(entry_files(cache).values())
    assert summary["archive_bytes"] == (tmp_path / "a").stat().st_size and summary["schema_version"] == 1
    done = subprocess.run(
        [*JCACHE, "export", "--root", cache, "--json"], capture_output=True, env=clean_environment(), check=True
    )
    assert json.loads(done.stderr) == summary | {"output": None} and done.stdout == (tmp_path / "a").read_bytes()


def test_quiet_and_verbose(jcache: Jcache, cache: Path, tmp_path: Path) -> None:
    """`-q` prints nothing on success; `-v` prints exact bytes."""
    assert jcache("export", "--root", cache, "-o", tmp_path / "a", "-q").err == ""
    assert (
        f"({sum(entry_files(cache).values()):,})" in jcache("export", "--root", cache, "-o", tmp_path / "a", "-v").err
    )
