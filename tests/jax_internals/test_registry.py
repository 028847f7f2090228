"""JAX's registry of pytree classes, without importing JAX."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from jcache.jax_internals.registry import registry
assert not registry() and "jax" not in sys.modules
import jax
assert registry()[dict] and registry()[list]
jax.tree_util.register_pytree_node(type("Node", (), {}), lambda node: ((), None), lambda aux, children: None)
assert "Node" in [cls.__name__ for cls in registry()]
"""


@pytest.mark.jax
def test_it_is_empty_until_the_program_imports_jax() -> None:
    """Reading the registry imports nothing; later it has JAX's classes, and those that the program registers."""
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
