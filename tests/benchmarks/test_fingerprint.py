"""The cost of a fingerprint against cloudpickle's copy of the same callback with everything it reaches, in one run."""

import contextlib
import importlib
import inspect
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from jcache.fingerprint import fingerprint
from tests.benchmarks.measure import compare
from tests.helpers.fingerprints import imported

HELPERS = 50


def source() -> str:
    """A callback that reaches fifty helpers, each with a default, and a few globals."""
    lines = [
        "import math",
        "import numpy as np",
        "THETA = 2.0",
        "RATES = {'a': 1.0, 'b': 2.0}",
        "GRID = np.arange(100.0)",
    ]
    for n in range(HELPERS):
        last = f"h{n + 1}(y)" if n < HELPERS - 1 else "RATES['a'] + GRID[0]"
        lines.append(f"def h{n}(x, k=1.0):\n    y = np.sin(x) * THETA + math.pi * k\n    return y + {last}")
    lines.append("def build(n, theta=1.0): return [h0(n * theta) for _ in range(n)]")
    return "\n".join(lines)


@pytest.fixture
def model(tmp_path: Path) -> Iterator[ModuleType]:
    with imported(tmp_path, source()) as made:
        yield made


def test_a_warm_fingerprint(benchmark: Any, model: ModuleType) -> None:
    """Once its code is known, a fingerprint of fifty helpers costs less than a quarter of copying them, and
    under 1 ms.
    """
    cloudpickle = pytest.importorskip("cloudpickle")
    cloudpickle.register_pickle_by_value(model)
    try:
        call = (model.build, (3,), {"theta": 2.0})
        assert len([label for label in fingerprint(*call).parts if label.startswith("helper")]) == HELPERS
        ratio = compare(
            benchmark, lambda: fingerprint(*call), lambda: cloudpickle.dumps(call), time.process_time, rounds=200
        )
    finally:
        cloudpickle.unregister_pickle_by_value(model)
    assert ratio <= 0.25
    assert benchmark.stats.stats.min <= 1e-3


MODULES = 100
FUNCTIONS = 20
WAYS = {
    "named": "from part_7 import f_0\ndef build(n): return f_0(n)",
    "constant": "def build(n):\n    import importlib\n    return importlib.import_module('part_7').f_0(n)",
    "computed": "NAME = 'part_7'\ndef build(n):\n    import importlib\n    return importlib.import_module(NAME).f_0(n)",
}


def parts() -> dict[str, str]:
    """Return the modules of a program, by file: functions that call one another, a class, and tables of numbers."""
    made = {}
    for number in range(MODULES):
        lines = [f"TABLE = {{str(i): i * {number}.5 for i in range(50)}}", "class Thing:"]
        lines += [f"    def m_{n}(self, x): return self.m_{n + 1}(x) + TABLE['3']" for n in range(FUNCTIONS)]
        lines += [f"def f_{n}(x): return f_{n + 1}(x + TABLE['{n}'])" for n in range(FUNCTIONS - 1)]
        lines += [f"def f_{FUNCTIONS - 1}(x): return x + TABLE['1']"]
        made[f"part_{number}.py"] = "\n".join(lines)
    return made


@pytest.mark.parametrize(("way", "at_most"), [("named", 0.05), ("constant", 0.25), ("computed", 4.0)])
def test_a_program_of_many_modules(benchmark: Any, tmp_path: Path, way: str, at_most: float) -> None:
    """A call that uses a function of one of 100 modules looks at that module; at all, if it computes the module's name.

    The peer copies all functions of all modules. The bounds are what holds today.
    """
    cloudpickle = pytest.importorskip("cloudpickle")
    with contextlib.ExitStack() as stack:
        model = stack.enter_context(imported(tmp_path, parts() | {"model.py": WAYS[way]}))
        modules = [importlib.import_module(f"part_{number}") for number in range(MODULES)]
        for each in modules:
            cloudpickle.register_pickle_by_value(each)
            stack.callback(cloudpickle.unregister_pickle_by_value, each)
        functions = [each for module in modules for each in vars(module).values() if inspect.isfunction(each)]
        assert model.build(1.0) > 1
        ratio = compare(
            benchmark,
            lambda: fingerprint(model.build, (1.0,)),
            lambda: cloudpickle.dumps(functions),
            time.process_time,
            rounds=10,
        )
    assert ratio <= at_most
