"""JAX's cache under `jcache run`: checked reads, sidecars, and settings of the program that hold."""

import shutil
import time
from ast import literal_eval
from importlib.metadata import version
from pathlib import Path

import pytest

from jcache.runs.environment import environment
from jcache.runs.report import RunReport
from tests.runs.recorder.test_sitecustomize import BASE, JAX, ONE, THREE, cold as cold, keys, report, run, served


@pytest.mark.jax
@pytest.mark.parametrize("has_lock", [False, True])
def test_each_entry_has_its_sidecar_where_jax_is_bounded(tmp_path: Path, has_lock: bool) -> None:
    """Every entry gets a sidecar at its put, so that a bounded JAX can store in the same directory, even after a
    SIGKILL.
    """
    cache_dir = tmp_path / "cache"
    cache_dir.mkdir()
    if has_lock:
        (cache_dir / ".lockfile").touch()
    program = f"{ONE}; import os; print(sorted(os.listdir({str(cache_dir)!r})))"
    (tmp_path / "log").mkdir()
    with served(cache_dir, tmp_path / "log"):
        told = run(program, environment(cache_dir, tmp_path / "log", BASE)).stdout
    names = literal_eval(told)
    entries = [name for name in names if name.endswith("-cache")]
    sidecars = [name for name in names if name.endswith("-atime")]
    assert len(entries) == 1
    if has_lock or JAX < (0, 5) or version("jax") == "0.5.0":  # which always writes them
        assert sidecars == [entries[0].replace("-cache", "-atime")]
        age = time.time_ns() - int.from_bytes((cache_dir / sidecars[0]).read_bytes(), "little")
        assert 0 <= age < 600e9
    else:
        assert not sidecars


@pytest.mark.jax
@pytest.mark.parametrize("change", [{"JAX_COMPILATION_CACHE_DIR": "{}"}, {"JAX_ENABLE_COMPILATION_CACHE": "0"}])
def test_what_is_set_inside_the_run_holds(tmp_path: Path, change: dict[str, str]) -> None:
    """If a script in the run sets its own directory, or turns the cache off, before JAX is imported, this holds."""
    own = tmp_path / "own"
    inside = {name: value.format(own) for name, value in change.items()}
    (tmp_path / "log").mkdir()
    run(ONE, environment(tmp_path / "cache", tmp_path / "log", BASE) | inside)
    found = report(tmp_path / "log")
    assert len(keys(own)) == found.stored == len(inside.keys() & {"JAX_COMPILATION_CACHE_DIR"})
    assert not keys(tmp_path / "cache")


@pytest.mark.jax
def test_programs_find_their_own_variable(tmp_path: Path) -> None:
    """JAX_COMPILATION_CACHE_DIR has the same value as without the run, in the program and in its children."""
    program = (
        f"{ONE}; import os; print(os.environ.get('JAX_COMPILATION_CACHE_DIR'), jax.config.jax_compilation_cache_dir)"
    )
    for number, given in enumerate((None, str(tmp_path / "theirs"))):
        (tmp_path / str(number)).mkdir()
        base = BASE if given is None else BASE | {"JAX_COMPILATION_CACHE_DIR": given}
        env = environment(tmp_path / "cache", tmp_path / str(number), base)
        assert run(program, env).stdout == f"{given} {tmp_path / 'cache'}\n"


@pytest.mark.jax
def test_another_host_has_no_cache(cold: tuple[Path, RunReport], tmp_path: Path) -> None:
    """If the directory of `jcache run` does not exist on a host, the cache stays off there, since reads cannot be
    checked.
    """
    shutil.copytree(cold[0], tmp_path / "cache")
    program = f"{THREE}\nprint(jax.config.jax_enable_compilation_cache)"
    assert run(program, environment(tmp_path / "cache", tmp_path / "none", BASE)).stdout.endswith("False\n")
