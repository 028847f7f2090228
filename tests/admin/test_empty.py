"""Why a root has no executables."""

import sys
from pathlib import Path

import pytest

from tests.helpers.command_line import Jcache


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
