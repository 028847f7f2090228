"""What the names that code looks up stand for."""

import os
from pathlib import Path

import pytest

from tests.helpers.fingerprints import write
from tests.helpers.jax_programs import run as jax_run

SOURCES = Path(__file__).parents[2] / "src"


LAZY = """
def build():
    import json.decoder, scipy.sparse as sp, jax.numpy as jnp
    from numpy import pi, linalg, sin
    from jax import lax, config
    import jax, numpy.random
    return [sp.eye(2).sum(), jnp.sin(pi), sin(pi), linalg.norm([pi]), lax.add(1, 2), jax.nn.relu(1.0), jnp.inf,
            numpy.random.default_rng(1).random(), json.decoder.JSONDecoder(), jax.jit(sin), sp.linalg, jnp.linalg]
"""


@pytest.mark.jax
def test_a_library_need_not_be_imported_for_a_key(tmp_path: Path) -> None:
    """The key is the same before and after the function has imported what it needs."""
    write(tmp_path, LAZY)
    program = """
import sys, json, model
from jcache.fingerprint import fingerprint
before = fingerprint(model.build)
assert "jax" not in sys.modules and "numpy" not in sys.modules
try: model.build()
except Exception: pass
after = fingerprint(model.build)
assert "scipy.sparse" in sys.modules and "jax" in sys.modules
print(json.dumps([before.hash == after.hash, dict(before.parts) == dict(after.parts)]))
"""
    path = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{SOURCES}"}
    assert jax_run(program, env=path, new_interpreter=True).value == [True, True]
