"""`jcache info`."""

import json
import shutil
import sys
from contextlib import closing
from pathlib import Path

import pytest

from jcache.layout import TAG_TEXT, Kind
from jcache.runs.log import Program, Recording
from jcache.runs.report import report_of
from jcache.store.ledger import Ledger
from jcache.store.roots import create_root
from tests.helpers.command_line import H200, LEGACY, Jcache, entry_files
from tests.helpers.entries import copied


def test_json_counts_entries_and_bytes_as_the_file_system_does(jcache: Jcache, jax_cache: Path) -> None:
    """The numbers of `info --json` are those of the files themselves."""
    info = jcache("info", "--root", jax_cache, "--json").json
    sizes = entry_files(jax_cache)
    assert info["schema_version"] == 1
    assert info["root"] == str(jax_cache)
    assert info["kinds"]["executables"]["entries"] == len(sizes) > 10
    assert info["kinds"]["executables"]["bytes"] == sum(sizes.values())
    assert info["kinds"]["traces"] == info["kinds"]["graphs"] | {"entries": 0, "bytes": 0}


def test_total_bytes_is_the_sum_of_kinds_and_neighbours(jcache: Jcache, bounded_cache: Path) -> None:
    """`total_bytes` adds up kinds and neighbours, sidecars among them."""
    info = jcache("info", "--root", bounded_cache, "--json").json
    parts = [kind["bytes"] for kind in info["kinds"].values()] + [n["bytes"] for n in info["neighbours"].values()]
    assert info["total_bytes"] == sum(parts) == sum(p.stat().st_size for p in bounded_cache.rglob("*") if p.is_file())
    assert info["neighbours"]["sidecars"]["files"] == info["kinds"]["executables"]["entries"]


def test_a_mixed_directory_is_counted_part_by_part(jcache: Jcache, cache: Path) -> None:
    """Legacy entries, XLA's sub-caches, orphaned sidecars, temporary and foreign files each have their line."""
    entries = len(entry_files(cache))
    sidecars = len(list(cache.glob("*-atime")))  # old JAX writes one to every cache
    (cache / ("jit_old-" + "0" * 64)).write_bytes(LEGACY)
    (cache / ("1" * 64)).write_bytes(LEGACY)
    (cache / ("sha256-" + "3" * 64)).write_bytes(b"a layer of an image")
    (cache / "xla_gpu_per_fusion_autotune_cache_dir" / "hash").mkdir(parents=True)
    (cache / "xla_gpu_per_fusion_autotune_cache_dir" / "hash" / "a.pb").write_bytes(b"x" * 30)
    (cache / "xla_gpu_kernel_cache_file").write_bytes(b"x" * 40)
    (cache / ("jit_gone-" + "2" * 64 + "-atime")).write_bytes(b"x" * 8)
    (cache / "_temp_jit_half").write_bytes(b"x" * 50)
    (cache / "notes.txt").write_bytes(b"x" * 60)
    info = jcache("info", "--root", cache, "--json").json
    found = {name: (group["files"], group["bytes"]) for name, group in info["neighbours"].items()}
    assert found == {
        "autotune": (1, 30),
        "kernels": (1, 40),
        "legacy": (2, 2 * len(LEGACY)),
        "sidecars": (sidecars, 8 * sidecars),
        "orphans": (1, 8),
        "temporary": (1, 50),
        "unknown": (2, 79),
        "quarantine": (0, 0),
        "state": (0, 0),
    }
    assert info["neighbours"]["unknown"]["names"] == ["notes.txt", "sha256-" + "3" * 64]
    assert info["kinds"]["executables"]["entries"] == entries
    text = jcache("info", "--root", cache).out
    assert "notes.txt" in text and "XLA autotune" in text and "--legacy" in text


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


def test_the_one_cache_there_is(cache: Path, tmp_path: Path, jcache: Jcache) -> None:
    """If the root in the user's cache directory is the only cache, it is shown as if it were named."""
    default = tmp_path / "home" / ".cache" / "jcache"
    copied(cache, default)
    (tmp_path / "home" / ".jax_cache").mkdir()  # which holds none
    env = {"HOME": str(tmp_path / "home")}
    named, found = jcache("info", "--root", default, env=env), jcache("info", env=env)
    assert found.code == 0 and found.out.splitlines()[0] == named.out.splitlines()[0] and "health  ok" in found.out
    (one,) = jcache("info", "--all", "--json", env=env).json["caches"]
    assert one["root"] == str(default) and one["command"] == "jcache info --root ~/.cache/jcache"


def test_one_cache_elsewhere(cache: Path, tmp_path: Path, jcache: Jcache) -> None:
    """A cache in a usual place is found, and the printed command shows it."""
    copied(cache, tmp_path / "home" / ".jax_cache")
    env = {"HOME": str(tmp_path / "home")}
    result = jcache("info", env=env)
    assert result.code == 0 and "in 1 cache" in result.out and "jcache info --root ~/.jax_cache" in result.out
    assert jcache("info", "-q", env=env).out == jcache("info", "--root", "~/.jax_cache", "-q", env=env).out


def test_a_root_is_listed_once(cache: Path, tmp_path: Path, jcache: Jcache) -> None:
    """A root whose runs name its directory of executables is listed once; another directory of a run is listed, too."""
    root = create_root(tmp_path / "home" / ".cache" / "jcache")
    shutil.copytree(cache, root.directory(Kind.EXECUTABLES), dirs_exist_ok=True, symlinks=True)
    recording = Recording()
    recording.programs = [
        Program("jit_f-1", "jit_f", "hit", None, 1.0, directory=str(directory))
        for directory in (root.directory(Kind.EXECUTABLES), cache, tmp_path / "gone")
    ]
    report = report_of([recording], run_id="one", command=["train.py"], started_ns=1, seconds=1.0)
    with closing(Ledger(root.ledger)) as ledger:
        ledger.add_run(report.id, report.started_ns, json.dumps(report.to_json()))
    found = jcache("info", "--all", "--json", env={"HOME": str(tmp_path / "home")}).json["caches"]
    assert sorted(one["root"] for one in found) == sorted(map(str, (root.path, cache)))


def test_no_cache_at_all(tmp_path: Path, jcache: Jcache) -> None:
    """Without any cache, a sentence says so, and the exit code is 10."""
    for words in (["info"], ["info", "--all"], ["info", "--all", "--json"]):
        result = jcache(*words, env={"HOME": str(tmp_path)})
        assert result.code == 10 and not result.out and "There is no cache" in result.err


def test_what_is_wrong_with_one_is_told(cache: Path, tmp_path: Path, jcache: Jcache) -> None:
    """A root whose directory is a link is counted without it, with a warning, and the others as ever."""
    copied(cache, tmp_path / "home" / ".jax_cache")
    odd = tmp_path / "home" / ".cache" / "jcache"
    odd.mkdir(parents=True)
    (odd / "CACHEDIR.TAG").write_text(TAG_TEXT)
    (odd / "executables").symlink_to(cache)
    result = jcache("info", "--all", env={"HOME": str(tmp_path / "home")})
    assert result.code == 0 and "in 2 caches" in result.out and "is a symbolic link" in result.err


@pytest.mark.jax
def test_an_empty_root_names_jaxs_threshold(jcache: Jcache, tmp_path: Path) -> None:
    """`info` says why nothing may be stored, and how many compilations of the last run were too fast."""
    root = tmp_path / "root"
    env = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "1000"}
    assert jcache("run", "--root", root, "--", sys.executable, "-c", "print(1)").code == 0
    note = jcache("info", "--root", root, "--json").json["note"]
    assert "stores only programs that take over 1 s to compile" in note and "last run" not in note
    program = "import jax; jax.jit(lambda x: x + 1)(1.0)"
    assert jcache("run", "--root", root, "--", sys.executable, "-c", program, env=env).code == 0
    report = jcache("stats", "--run", "last", "--root", root, "--json").json["runs"][0]
    note = jcache("info", "--root", root, "--json").json["note"]
    assert report["not_stored"] >= 1
    assert f": {report['not_stored']} of the {report['not_stored']} compilations of the last run took less;" in note
    assert note in jcache("info", "--root", root).out


def test_an_empty_directory_names_jaxs_threshold(jcache: Jcache, tmp_path: Path) -> None:
    """A directory that JAX was given and that stayed empty is no cache yet, and the message says why it may be."""
    (tmp_path / "empty").mkdir()
    result = jcache("info", "--root", tmp_path / "empty")
    assert result.code == 10 and "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" in result.err
