"""A function is described when JAX lowers it: its line, arguments and captured arrays. Real JAX processes."""

from typing import Any

import numpy as np
import pytest

from jcache.runs.recorder.lowered import type_of
from tests.runs.recorder.test_key_hooks import HOOKED, hooked


@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        ("float32", "f32[2,3]"),
        ("float16", "f16[2,3]"),
        ("int8", "i8[2,3]"),
        ("uint32", "u32[2,3]"),
        ("bool", "bool[2,3]"),
        ("complex64", "c64[2,3]"),
    ],
)
def test_types(dtype: str, text: str) -> None:
    """A type is written as JAX writes it."""
    assert type_of(np.zeros((2, 3), dtype)) == text


@pytest.mark.jax
def test_descriptions(tmp_path: Any) -> None:
    """Names are those of JAX's messages, types are JAX's own texts, and mesh shardings, donation and constants show."""
    program = """
import ml_dtypes
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
hook()
key_hooks.recorders.append(Recorder())
mesh = Mesh(np.array(jax.devices()[:1]), ("data",))
captured = jax.numpy.arange(5.0)
def step(params, x, scale):
    return params["w"] * scale + captured.sum() + x.sum()
jitted = jax.jit(step, donate_argnums=0, in_shardings=(None, NamedSharding(mesh, P("data")), None))
jitted({"w": np.ones(3, ml_dtypes.bfloat16)}, np.ones((4, 2), np.float32), 2.0)
(function,) = [one.fields() for key, _, one in found if key.startswith("jit_step")]
print(json.dumps(function))
"""
    function = hooked(program, tmp_path)
    line = (HOOKED + program).split("\n").index("def step(params, x, scale):") + 1
    assert (function["function"], function["source"]) == ("step", f"<string>:{line}")
    assert function["arguments"] == [
        ["params['w']", "bf16[3]", True, ""],
        ["x", "f32[4,2]", False, "{'data': 1} ('data',)"],
        ["scale", "f32[]{weak_type=True}", False, ""],
    ]
    assert function["constants"] == ["f32[5]"] and function["static"] == {}
