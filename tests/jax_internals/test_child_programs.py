"""Modules and compile options as texts, as a separate program with JAX prints them."""

import base64
import json
import os
import sys

import pytest

from jcache.explain.modules import compare_modules
from jcache.jax_internals import child_programs
from jcache.jax_internals.child import child_of
from jcache.vocabulary import CauseKind
from tests.helpers.jax_programs import run

MODULES = """
import base64, io, json, sys, jax, jax.numpy as jnp
from jax._src import compiler
from jax._src.lib.mlir import passmanager

def bytes_of(number, array):
    module = jax.jit(lambda x: x * number + array).lower(jnp.ones(1000)).compiler_ir()
    with module.context:
        bare, file = module.operation.clone(), io.BytesIO()
        passmanager.PassManager.parse("builtin.module(strip-debuginfo)").run(bare)
        bare.write_bytecode(file)
    return file.getvalue()

texts = [bytes_of(n, jnp.arange(1000.0) + m) for n, m in ((2.0, 0), (3.0, 0), (2.0, 1))]
options = compiler.get_compile_options(1, 1, env_options_overrides={"xla_cpu_enable_fast_min_max": "True"})
print(json.dumps([base64.b64encode(x).decode() for x in [*texts, options.SerializeAsString()]]))
"""


@pytest.mark.jax
@pytest.mark.contract
def test_modules_and_options_are_printed() -> None:
    """Modules as JAX hashes them become texts without large arrays, options become fields, and others a reason."""
    *modules, options = run(MODULES).value
    program, environment = child_programs.__file__, {**os.environ, "JAX_PLATFORMS": "cpu"}
    with child_of(sys.executable, program, 60, environment, doing="read programs") as child:
        texts = [child.ask({"module": one}, "text", "problem") for one in modules]
        (fields, problem) = child.ask({"options": options}, "text", "problem")
        (text, reason) = child.ask({"module": base64.b64encode(b"x").decode()}, "text", "problem")
        child.end()
    assert [problem for _, problem in texts] == [problem, "", ""] == ["", "", ""]
    assert all(text.startswith("module @jit") and len(text) < 4000 for text, _ in texts)
    assert compare_modules(texts[1][0], texts[0][0]).item is CauseKind.CONSTANT
    assert texts[0][0] == texts[2][0]  # all but the elements of a large array, which are not printed
    found = json.loads(fields)
    assert found["env_option_overrides.xla_cpu_enable_fast_min_max"] == "True"
    assert "num_replicas" in found and "executable_build_options.num_partitions" in found
    assert any(name.startswith("xla_") for name in found)
    assert text == "" and reason
