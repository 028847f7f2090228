"""`jcache info`."""

from pathlib import Path

import pytest

from tests.helpers.command_line import H200, Jcache, entry_files
from tests.helpers.entries import copied
from tests.helpers.terminals import WIDTHS, Terminal


def test_json_counts_entries_and_bytes_as_the_file_system_does(jcache: Jcache, jax_cache: Path) -> None:
    """The numbers of `info --json` are those of the files themselves."""
    info = jcache("info", "--root", jax_cache, "--json").json
    sizes = entry_files(jax_cache)
    assert info["schema_version"] == 1
    assert info["root"] == str(jax_cache)
    assert info["kinds"]["executables"]["entries"] == len(sizes) >= 8
    assert info["kinds"]["executables"]["bytes"] == sum(sizes.values())
    assert info["kinds"]["traces"] == info["kinds"]["graphs"] | {"entries": 0, "bytes": 0}


def test_total_bytes_is_the_sum_of_kinds_and_neighbours(jcache: Jcache, bounded_cache: Path) -> None:
    """`total_bytes` adds up kinds and neighbours, sidecars among them."""
    info = jcache("info", "--root", bounded_cache, "--json").json
    parts = [kind["bytes"] for kind in info["kinds"].values()] + [n["bytes"] for n in info["neighbours"].values()]
    assert info["total_bytes"] == sum(parts) == sum(p.stat().st_size for p in bounded_cache.rglob("*") if p.is_file())
    assert info["neighbours"]["sidecars"]["files"] == info["kinds"]["executables"]["entries"]


def test_the_table_fits_eighty_columns(jcache: Jcache, cache: Path) -> None:
    """No line for people is wider than 80 columns, and nothing in it is cut."""
    (cache / "notes.txt").write_bytes(b"x")
    shown = jcache("info", "--root", cache, cwd=cache.parent).out
    lines = shown.replace(str(cache), "ROOT").splitlines()
    assert max(map(len, lines)) <= 80, shown
    assert "executables" in shown and "…" not in shown


def test_a_cap_is_shown_as_a_bar(jcache: Jcache, cache: Path) -> None:
    """JAX's own bound in the environment is the cap that the bar is about."""
    for sidecar in cache.glob("*-atime"):  # old JAX writes one to every cache
        sidecar.unlink()
    result = jcache("info", "--root", cache, env={"JAX_COMPILATION_CACHE_MAX_SIZE": "1048576"})
    assert "of 1.0 MiB used" in result.out
    assert "no -atime file" in result.out


@pytest.mark.parametrize("columns", WIDTHS)
def test_the_command_for_a_cache_can_be_copied(cache: Path, columns: int) -> None:
    """The command for a cache is never shortened: it stands in a line of its own where the table is too wide."""
    long = cache.rename(cache.with_name("a directory with a long name " * 3))
    code, lines = Terminal("info", "--all", "--root", long, columns=columns).finish()
    wanted = f"jcache info --root '{long}'"
    assert code == 0 and any(line.endswith(wanted) for line in lines)
    assert all(len(line) <= columns or line.endswith(wanted) or len(line.split()) <= 2 for line in lines), lines


def test_gpu_entries_need_no_gpu(jcache: Jcache, tmp_path: Path) -> None:
    """A cache from a GPU machine, zlib entries and all, is listed like any other."""
    root = tmp_path / "gpu"
    copied(H200, root)
    info = jcache("info", "--root", root, "--json").json
    assert info["kinds"]["executables"]["entries"] == len(entry_files(root)) > 0


@pytest.mark.parametrize("variable", ["JCACHE_DIR", "JAX_COMPILATION_CACHE_DIR"])
def test_the_environment_names_the_root(jcache: Jcache, jax_cache: Path, variable: str) -> None:
    """Without --root, the environment names it."""
    assert jcache("info", "--json", env={variable: str(jax_cache)}).json["root"] == str(jax_cache)


def test_root_comes_before_jcache_dir_before_jax(jcache: Jcache, jax_cache: Path, bounded_cache: Path) -> None:
    """--root comes before $JCACHE_DIR, and that before $JAX_COMPILATION_CACHE_DIR."""
    env = {"JCACHE_DIR": str(jax_cache), "JAX_COMPILATION_CACHE_DIR": "/nowhere"}
    assert jcache("info", "--json", env=env).json["root"] == str(jax_cache)
    assert jcache("info", "--json", "--root", bounded_cache, env=env).json["root"] == str(bounded_cache)


def test_home_is_expanded(jcache: Jcache, jax_cache: Path) -> None:
    """`~` means the home directory, in an option and in a variable."""
    env = {"HOME": str(jax_cache.parent), "JCACHE_DIR": "~/jax"}
    assert jcache("info", "--json", "--root", "~/jax", env=env).json["root"] == str(jax_cache)
    assert jcache("info", "--json", env=env).json["root"] == str(jax_cache)


def test_the_default_root_is_in_the_users_cache_directory(jcache: Jcache, tmp_path: Path) -> None:
    """Without any setting, the root is jcache in the user's cache directory; if it is missing, the exit code is 10."""
    result = jcache("info", env={"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "xdg")})
    assert result.code == 10
    assert str(tmp_path / "xdg" / "jcache") in result.err
    assert "jcache run" in result.err


def test_quiet_prints_one_number(jcache: Jcache, jax_cache: Path) -> None:
    """-q prints only how large the root is."""
    assert len(jcache("info", "-q", "--root", jax_cache).out.splitlines()) == 1
