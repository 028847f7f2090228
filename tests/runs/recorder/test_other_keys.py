"""A directory that JAX has filled without jcache is warm under `jcache run`. Real JAX processes."""

import os
from pathlib import Path

import pytest

from jcache.jax_internals.versions import KEYS_WITH_PATHS, KEYS_WITHOUT_PATHS
from jcache.runs.environment import environment
from jcache.runs.log import read_all
from tests.runs.recorder.test_sitecustomize import BASE, JAX, ONE, counts, keys, report, run, served


@pytest.mark.jax
@pytest.mark.skipif(not KEYS_WITH_PATHS <= JAX < KEYS_WITHOUT_PATHS, reason="keys of this jax depend on no path")
def test_a_key_with_a_path_is_tried(tmp_path: Path) -> None:
    """JAX's own key, with the path in it, hits; the report tells which it was, and it has the parts of a key."""
    cache = tmp_path / "cache"
    thresholds = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}
    run(ONE, {**BASE, **thresholds, "JAX_COMPILATION_CACHE_DIR": str(cache)})
    (key,) = keys(cache)
    log = tmp_path / "log"
    log.mkdir()
    with served(cache, log):
        run(ONE, environment(cache, log, BASE, spellings=[os.fspath(cache)], record="keys"))
    found = report(log)
    assert counts(found) == (1, 0, 0, 0) and keys(cache) == {key}
    (program,) = found.programs
    assert program.key == key and program.has_path_key
    (recording,) = read_all(log)
    assert recording.keys.parts_of(recording.keys.by_key[key])["computation"]
