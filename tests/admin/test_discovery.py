"""Every cache on the machine, in the places where programs keep them."""

import json
import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from jcache.layout import TAG_TEXT, Kind
from jcache.runs.log import Program, Recording
from jcache.runs.report import report_of
from jcache.store.ledger import Ledger
from jcache.store.roots import create_root
from tests.helpers.command_line import Jcache
from tests.helpers.entries import copied
from tests.helpers.phasic_caches import make_cache


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


@pytest.fixture
def phasic_home(tmp_path: Path) -> Path:
    """A home with a small cache of phasic's in it."""
    make_cache(tmp_path / "home")
    return tmp_path / "home"


def at(path: Path) -> dict[str, str]:
    return {"HOME": str(path)}


def test_info_without_a_root_shows_every_cache(phasic_home: Path, cache: Path, jcache: Jcache) -> None:
    """`info` prints one line for each cache, the totals and the command that shows it; as JSON as well."""
    shutil.copytree(cache, phasic_home / ".jax_cache")
    (phasic_home / ".triton" / "cache").mkdir(parents=True)
    (phasic_home / ".triton" / "cache" / "kernel.cubin").write_bytes(b"x" * 1000)
    result = jcache("info", env=at(phasic_home))
    assert result.code == 0 and "3 caches" in result.out
    for command in ("jcache info --root ~/.jax_cache", "jcache info --root ~/.phasic_cache", "du -sh ~/.triton/cache"):
        assert command in result.out
    found = {one["layout"]: one for one in jcache("info", "--json", env=at(phasic_home)).json["caches"]}
    assert found["triton"]["total_bytes"] == 1000 and found["phasic"]["kinds"]["graphs"]["entries"] == 2
    assert jcache("info", "--json", env=at(phasic_home) | {"JCACHE_DIR": str(cache)}).json["root"] == str(cache)
    every = jcache("info", "--all", "--json", env=at(phasic_home) | {"JAX_COMPILATION_CACHE_DIR": str(cache)}).json
    assert {one["root"] for one in every["caches"]} >= {str(cache), str(phasic_home / ".phasic_cache")}


def test_a_linked_triton_cache_is_counted_where_it_lies(phasic_home: Path, tmp_path: Path, jcache: Jcache) -> None:
    """A link to a larger disk is followed, as `du` would not; one to another cache hides nothing of that."""
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch" / "kernel.cubin").write_bytes(b"x" * 1000)
    (phasic_home / ".triton").mkdir()
    (phasic_home / ".triton" / "cache").symlink_to(tmp_path / "scratch")
    found = {one["layout"]: one for one in jcache("info", "--json", env=at(phasic_home)).json["caches"]}
    assert found["triton"]["total_bytes"] == 1000 and found["triton"]["root"] == str(tmp_path / "scratch")
    (phasic_home / ".triton" / "cache").unlink()
    (phasic_home / ".triton" / "cache").symlink_to(phasic_home / ".phasic_cache")
    assert [one["layout"] for one in jcache("info", "--json", env=at(phasic_home)).json["caches"]] == ["phasic"]


@pytest.mark.skipif(os.geteuid() == 0, reason="no permission hinders root")
def test_a_cache_that_cannot_be_read_is_shown_as_such(phasic_home: Path, jcache: Jcache) -> None:
    """A directory that cannot be read is listed, and the message says that its content is unknown."""
    (phasic_home / ".phasic_cache").chmod(0)
    (one,) = jcache("info", "--json", env=at(phasic_home)).json["caches"]
    (phasic_home / ".phasic_cache").chmod(0o755)
    assert one["layout"] == "unknown" and "cannot be read" in one["problem"]
