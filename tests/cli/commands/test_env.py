"""`jcache env` and `dir`: what a shell evaluates; no warm program is made cold without a word."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import pytest

from jcache.jax_internals.path_keys import in_keys
from tests.helpers.command_line import Jcache, clean_environment, entry_files, run_jax

Test = TypeVar("Test", bound=Callable[..., None])
VARIABLE = "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES"
MARKS = (
    pytest.mark.jax,
    pytest.mark.contract,
    pytest.mark.skipif(not in_keys(version("jax")), reason="keys of this JAX do not depend on the path"),
)


def with_jax(test: Test) -> Test:
    """Mark a test of what a real JAX hits afterwards."""
    for mark in MARKS:
        test = mark(test)
    return test


def fill(path: Path, environment: Mapping[str, str]) -> None:
    """Run a program with JAX alone in an environment, with XLA's default caches unless the environment says
    otherwise.
    """
    default = {VARIABLE: "xla_gpu_per_fusion_autotune_cache_dir"}
    settings: dict[str, Any] = {**default, **environment, "JAX_COMPILATION_CACHE_DIR": str(path)}
    assert run_jax(path, **settings).code == 0


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A directory that JAX alone has filled with its default settings."""
    path = tmp_path / "cache"
    fill(path, {})
    return path


@with_jax
def test_a_directory_of_jax_stays_warm(jcache: Jcache, filled: Path) -> None:
    """If JAX has stored keys with the path, `env` leaves XLA's setting unchanged, and one sentence says so."""
    told = jcache("env", "--root", filled, "--json")
    assert VARIABLE not in told.json["environment"]
    assert len(told.err.splitlines()) == 1 and f"{VARIABLE}=none" in told.err and "jcache run --root" in told.err
    before = entry_files(filled)
    fill(filled, told.json["environment"])
    assert entry_files(filled) == before


@pytest.mark.parametrize("caches", ["all", "xla_gpu_kernel_cache_file"])
@with_jax
def test_a_directory_of_jax_with_other_caches_of_xla_stays_warm(jcache: Jcache, tmp_path: Path, caches: str) -> None:
    """Where JAX was set to use other caches of XLA, the environment has that setting, since it hits only with it."""
    fill(tmp_path / "cache", {VARIABLE: caches})
    told = jcache("env", "--root", tmp_path / "cache", "--json")
    assert told.json["environment"][VARIABLE] == caches and f"only with {VARIABLE}={caches}" in told.err
    before = entry_files(tmp_path / "cache")
    fill(tmp_path / "cache", told.json["environment"])
    assert entry_files(tmp_path / "cache") == before
    fill(tmp_path / "cache", {})
    told = jcache("env", "--root", tmp_path / "cache", "--json")
    assert VARIABLE not in told.json["environment"] and "with other values of this variable" in told.err


@with_jax
def test_other_directories_get_keys_without_the_path(jcache: Jcache, filled: Path, tmp_path: Path) -> None:
    """For a new root, a copy, or one that was filled in this environment, nothing is lost, and no sentence is
    printed.
    """
    copy = shutil.copytree(filled, tmp_path / "copy")
    for root in (tmp_path / "new", copy, tmp_path / "again"):
        told = jcache("env", "--root", root, "--json")
        assert told.json["environment"][VARIABLE] == "none" and not told.err
        fill(tmp_path / "again", told.json["environment"])


@with_jax
def test_another_path_of_the_directory(jcache: Jcache, filled: Path) -> None:
    """If JAX has stored entries under another path of the directory, a sentence says that it misses them
    under this one.
    """
    (filled.parent / "link").symlink_to(filled)
    told = jcache("env", "--root", filled.parent / "link", "--json")
    assert told.json["environment"][VARIABLE] == "none" and f"another path, {filled}: " in told.err


@with_jax
def test_where_not_all_was_read(jcache: Jcache, filled: Path) -> None:
    """If only some entries were read, and none of these is JAX's own, a sentence says so."""
    hidden = filled.parent / "hidden"
    filled.rename(hidden)
    filled.mkdir()
    for number in range(600):
        (filled / f"jit_f-{number:064x}-cache").write_bytes(b"x" * 9)
    told = jcache("env", "--root", filled, "--json")
    assert told.json["environment"][VARIABLE] == "none" and "Only some entries" in told.err


@with_jax
def test_the_setting_of_the_user_stays(jcache: Jcache, filled: Path) -> None:
    """A setting of the user is not printed again, and no sentence is printed."""
    told = jcache("env", "--root", filled, "--json", env={VARIABLE: "all"})
    assert VARIABLE not in told.json["environment"] and not told.err


@pytest.mark.parametrize(
    ("shell", "line"), [("sh", "export {}={}"), ("fish", "set -gx {} '{}'"), ("powershell", "$env:{} = '{}'")]
)
def test_env_prints_assignments(jcache: Jcache, jax_cache: Path, shell: str, line: str) -> None:
    """`env` prints what each shell can evaluate."""
    lines = jcache("env", "--root", jax_cache, "--shell", shell).out.splitlines()
    assert line.format("JAX_COMPILATION_CACHE_DIR", jax_cache) in lines


def test_env_is_evaluated_by_a_shell(jcache: Jcache, tmp_path: Path) -> None:
    """A root with blanks and quotes in its path survives `eval "$(jcache env)"`."""
    root = tmp_path / "it's a root"
    command = f'eval "$(\'{sys.executable}\' -m jcache env)"; echo "$JAX_COMPILATION_CACHE_DIR"'
    env = clean_environment({"JCACHE_DIR": str(root)})
    done = subprocess.run(["bash", "-c", command], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == f"{root}/executables\n"


def test_env_and_the_root_are_one(jcache: Jcache, tmp_path: Path) -> None:
    """In a shell that has evaluated `env`, every command uses the same root as outside, from the first one on."""
    root = tmp_path / "root"
    inside = jcache("env", "--root", root, "--json").json["environment"]
    assert inside["JAX_COMPILATION_CACHE_DIR"] == f"{root}/executables"
    assert jcache("dir", env=inside).out == f"{root}\n"
    (root / "CACHEDIR.TAG").unlink()
    (root / "executables" / ("jit_f-" + "0" * 64 + "-cache")).write_bytes(b"x")
    jcache("run", "-q", "--root", root, "--", "true")
    assert (root / "CACHEDIR.TAG").exists()


def test_dir_prints_a_bare_path(jcache: Jcache, jax_cache: Path, tmp_path: Path) -> None:
    """`dir` prints the root, or a kind's directory, whether or not it is there yet."""
    assert jcache("dir", "--root", jax_cache).out == f"{jax_cache}\n"
    assert jcache("dir", "executables", "--root", jax_cache).out == f"{jax_cache}\n"
    assert jcache("dir", "traces", "--root", jax_cache).out == f"{jax_cache}/traces-v1\n"
    assert jcache("dir", "executables", "--root", tmp_path / "none").out == f"{tmp_path}/none/executables\n"
