"""The recorder hears JAX's messages, and the user sees the same as without it. Real JAX processes."""

import re
import shutil
from pathlib import Path

import pytest

from jcache.runs.environment import environment, with_cache
from tests.runs.recorder.test_sitecustomize import BASE, JAX, THREE, counts, report, run

LOGGING = {
    "plain": {},
    "explain": {"JAX_EXPLAIN_CACHE_MISSES": "1", "JAX_LOG_COMPILES": "1"},
    "level": {"JAX_LOGGING_LEVEL": "DEBUG"},
    "modules": {"JAX_DEBUG_LOG_MODULES": "jax._src.compiler,jax._src.compilation_cache"},
}


@pytest.mark.jax
@pytest.mark.parametrize("settings", LOGGING.values(), ids=LOGGING)
def test_stderr_is_the_same(tmp_path: Path, settings: dict[str, str]) -> None:
    """Stderr is the same with and without the recorder, down to line numbers, for any logging that the user enables."""
    program = THREE.replace("thread.start()", "thread.start(); thread.join()")  # the same order in both
    if "JAX_LOGGING_LEVEL" not in settings:
        program = "import logging; logging.basicConfig(format='%(pathname)s:%(lineno)d %(message)s')\n" + program
    (tmp_path / "log").mkdir()
    # XLA's caches are the user's choice here: the recorder would otherwise change that setting, and JAX's talk of it.
    base = {**BASE, **settings, "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES": "none"}
    env = environment(tmp_path / "cache", tmp_path / "log", base)
    with_recorder = run(program, env)
    shutil.rmtree(tmp_path / "cache")
    names = ("PYTHONPATH", "JCACHE_RUN_LOG")
    without = run(program, {name: value for name, value in with_cache(env).items() if name not in names})
    assert counts(report(tmp_path / "log")) == (0, 3, 0, 0)
    assert blurred(with_recorder.stderr) == blurred(without.stderr)
    assert with_recorder.stdout == without.stdout
    assert ("jit_f2" in without.stderr) == bool(settings.keys() - ({"JAX_LOGGING_LEVEL"} if JAX < (0, 5) else set()))


def blurred(text: str) -> str:
    """Text without the times, dates and addresses that differ from run to run."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.,]\d+|[IWE]\d{4} [\d:.]+ +\d+", "[TIME]", text)
    return re.sub(r"0x[0-9a-f]+|id=\d+|\d+\.\d+(e-\d+)?", "[NUMBER]", text)
