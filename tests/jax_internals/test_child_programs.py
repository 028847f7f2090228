"""The separate program that turns recorded modules and compile options into text."""

import base64
import json
import os
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax._src.interpreters import mlir
from jax._src.lib import xla_client  # type: ignore[attr-defined]
from jaxlib import version

from jcache.explain.programs import PROGRAM

pytestmark = pytest.mark.jax


def answers(*questions: dict[str, str]) -> list[dict[str, str]]:
    """Return what the program prints for these lines, and first the version of jaxlib."""
    lines = "".join(json.dumps(question) + "\n" for question in questions)
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, PROGRAM, "60"]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, env=environment, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_modules_and_options_become_text() -> None:
    """Arrays of many elements are left out of a module; options include those of objects in them and XLA's own."""
    table = jnp.arange(1000.0)
    lowered: Any = jax.jit(lambda x: x + table).lower(jnp.ones(1000)).compiler_ir()
    module = mlir.module_to_bytecode(lowered)
    options = xla_client.CompileOptions()
    options.num_replicas = 3
    options.executable_build_options.debug_options.xla_cpu_enable_fast_math = True
    first, text, fields, refused = answers(
        {"module": base64.b64encode(module).decode()},
        {"options": base64.b64encode(options.SerializeAsString()).decode()},
        {"module": base64.b64encode(b"no module").decode()},
    )
    assert first == {"jaxlib": version.__version__}
    assert "stablehlo.add" in text["text"] and "999" not in text["text"] and not text["problem"]
    values = json.loads(fields["text"])
    assert values["num_replicas"] == "3"
    assert values["xla_cpu_enable_fast_math"] == "true"
    assert "executable_build_options.num_replicas" in values
    assert not refused["text"] and refused["problem"]
