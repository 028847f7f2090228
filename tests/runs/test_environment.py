"""The environment of a run, without JAX."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jcache.jax_internals.presets import is_off_by_run
from jcache.layout import Kind, Root
from jcache.runs.calls import HIT
from jcache.runs.environment import RECORDER, environment, is_turned_off, new_id, record_run, with_cache, without_cache
from jcache.runs.log import Program
from jcache.store.store import Store
from tests.helpers.reports import collect

ENABLE = "JAX_ENABLE_COMPILATION_CACHE"
JAX_FALSE = ("n", "no", "f", "false", "off", "0")  # what `jax._src.config.bool_env` reads as false


def test_identities_tell_when_runs_began() -> None:
    """Identities sort by the time when a run began, and no two are the same."""
    assert new_id(0)[:16] == "19700101T000000Z"
    assert new_id(10**18) > new_id(0) != new_id(0)


def test_environment_of_a_run(tmp_path: Path) -> None:
    """Caching is off without the recorder, everything is stored, and the recorder comes first on PYTHONPATH."""
    env = environment(Path("cache"), tmp_path, {"PYTHONPATH": "mine", "HOME": "/h", "JAX_COMPILATION_CACHE_DIR": "x"})
    assert env["JAX_COMPILATION_CACHE_DIR"] == "x"
    assert env["JAX_ENABLE_COMPILATION_CACHE"].lower() in JAX_FALSE
    assert env["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] == "0"
    assert env["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] == "-1"
    assert env["JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES"] == "none"
    assert env["PYTHONPATH"] == f"{RECORDER}{os.pathsep}mine"
    assert env["HOME"] == "/h"


def test_environment_of_a_run_in_a_run(tmp_path: Path) -> None:
    """The inner run records its own programs; settings of the outer run do not count as the user's."""
    outer = environment(tmp_path / "a", tmp_path / "log", {})
    inner = environment(tmp_path / "b", tmp_path / "log2", outer)
    assert inner == environment(tmp_path / "b", tmp_path / "log2", {})


@pytest.mark.parametrize("name", ["MIN_COMPILE_TIME_SECS", "MIN_ENTRY_SIZE_BYTES", "ENABLE_XLA_CACHES"])
def test_settings_of_the_user_win(tmp_path: Path, name: str) -> None:
    """Thresholds and XLA caches from the user's environment stay."""
    variable = f"JAX_PERSISTENT_CACHE_{name}"
    env = environment(tmp_path, tmp_path, {variable: "7"})
    assert env[variable] == "7"
    assert ("JCACHE_RUN_XLA_CACHES" in env) == (name != "ENABLE_XLA_CACHES")


def test_a_cache_directory_of_the_program_is_named_by_its_root(native: Root, plain: Root, tmp_path: Path) -> None:
    """The command that looks after it names the jcache root that the directory belongs to, or the directory itself."""
    for root in (native, plain):
        there = root.directory(Kind.EXECUTABLES)
        program = Program("k", "f", HIT, None, 0.1, None, str(there))
        nothing = collect(tmp_path, run_id="r", command=["true"], started_ns=0, seconds=1.0, exit_code=0)
        report = nothing._replace(processes=1, programs=(program,))
        with Store(Root(tmp_path, plain=True)) as store:
            (notice,) = record_run(store, report).notices
        assert f"in {there}, and not" in notice and f"`jcache run --root {root.path} -- " in notice


@pytest.mark.parametrize("off", [*JAX_FALSE, "OFF"])
@pytest.mark.parametrize("whatever", [False, True])
def test_a_cache_that_the_user_has_turned_off_stays_off(tmp_path: Path, off: str, whatever: bool) -> None:
    """A cache that the user has turned off stays off, unless the command stores in any case. A cache that a run has
    turned off does not count as turned off by the user.
    """
    env = environment(tmp_path, tmp_path, {ENABLE: off}, override_user=whatever)
    assert is_turned_off({ENABLE: off}) and is_off_by_run(env) == whatever
    assert is_turned_off(env) != is_off_by_run(env)
    assert with_cache(env)[ENABLE] == ("true" if whatever else "false")
    assert is_turned_off(without_cache(env)) and not is_turned_off(environment(tmp_path, tmp_path, {ENABLE: "1"}))


def test_import_is_light() -> None:
    """Importing the modules of `jcache run` imports neither JAX nor numpy."""
    code = (
        "import sys, jcache.runs.environment, jcache.runs.launch; print({'jax', 'jaxlib', 'numpy'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
