"""The interpreters that run the programs of tests."""

import pytest

from tests.helpers.jax_programs import run

OPTIONS = """
import json, jax
print(json.dumps({name: str(getattr(jax.config, name)) for name in dir(jax.config) if "_cache" in name
                  and isinstance(getattr(jax.config, name), bool | int | float | str | None)}))
"""
SET = {
    "JAX_COMPILATION_CACHE_DIR": "some/where", "JAX_COMPILATION_CACHE_MAX_SIZE": "12",
    "JAX_ENABLE_COMPILATION_CACHE": "off", "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES": "all",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "2", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}  # fmt: skip


@pytest.mark.jax
@pytest.mark.contract
@pytest.mark.parametrize("env", [{}, SET], ids=["default", "set"])
def test_a_forked_program_has_the_options_of_a_new_interpreter(env: dict[str, str]) -> None:
    """JAX has the same options of its cache, whether it was imported under these variables or before."""
    forked, new = (run(OPTIONS, env=env, new_interpreter=anew).value for anew in (False, True))
    assert forked == new and len(forked) >= 6
