"""What the executables of a process are made by."""

from importlib.metadata import version

import pytest

from tests.helpers.jax_programs import run

PROGRAM = """
import json, sys
from jcache.jax_internals.maker import maker
found = [maker(), any(name.startswith("jax") for name in sys.modules)]
import jax
found.append(maker())
jax.numpy.ones(3)
print(json.dumps([*found, maker()]))
"""


@pytest.mark.jax
def test_it_is_known_once_a_backend_has_started() -> None:
    """Before that, nothing is imported and no backend is started to find out."""
    before, imports_jax, imported, after = run(PROGRAM, env={"JAX_PLATFORMS": "cpu"}, new_interpreter=True).value
    jaxlib = version("jaxlib")
    assert before == ["", "", ""] and not imports_jax
    assert imported == [jaxlib, "", ""] and after == [jaxlib, "cpu", "cpu"]
