"""Functions of a notebook: served in the next kernel that runs the same cells, with the same errors."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.interpreters import anew
from tests.helpers.jax_programs import environment

pytestmark = pytest.mark.jax

NOTEBOOK = """
import json, sys
from jupyter_client.manager import start_new_kernel

manager, client = start_new_kernel()
said = []
try:
    for cell in json.load(sys.stdin):
        said.append("")
        reply = client.execute_interactive(
            cell,
            timeout=300,
            output_hook=lambda message: said.append(said.pop() + message["content"].get("text", "")),
        )
        assert reply["content"]["status"] == "ok", reply
finally:
    client.stop_channels()
    manager.shutdown_kernel(now=True)
print(json.dumps(said))
"""
SET_UP = """
import json, os, traceback
import jax, jax.numpy as jnp
import jcache

jcache.enable("root", strict=True);
"""
FUNCTION = """
import equinox as eqx

@jcache.jit
def f(x):
    return eqx.error_if(x, x > 100, "too much") * 2
"""
CALLS = """
for value in (1, 200):
    try:
        print(float(f(jnp.float32(value))))
    except Exception:
        print(traceback.format_exc().replace(str(os.getpid()), "PID"))
print(json.dumps([call.outcome for call in jcache.stats().traces.calls]))
"""


def run(tmp_path: Path, *cells: str) -> tuple[str, Any]:
    """Return the text and the outcomes of the last cell, run in a kernel of its own."""
    done = anew(["-c", NOTEBOOK], environment=environment({"HOME": tmp_path}), cwd=tmp_path, stdin=json.dumps(cells))
    assert done.returncode == 0, done.stderr
    *text, outcomes = json.loads(done.stdout.splitlines()[-1])[-1].splitlines()
    return "\n".join(text), json.loads(outcomes)


def test_the_second_kernel_does_not_trace(tmp_path: Path) -> None:
    """Though the kernel's arguments and the files of the cells have other names; an error has the same text."""
    pytest.importorskip("ipykernel")
    pytest.importorskip("equinox")
    cold, warm = (run(tmp_path, SET_UP, FUNCTION, CALLS) for _ in range(2))
    assert cold[1] == ["stored"] and warm[1] == ["hit"]
    assert "too much" in cold[0] and [each for each in warm[0].splitlines() if "jcache" not in each] == [
        each for each in cold[0].splitlines() if "jcache" not in each
    ]


def test_a_changed_cell_is_traced(tmp_path: Path) -> None:
    """And a cell that ran before, from which the function takes a value."""
    pytest.importorskip("ipykernel")
    function = "@jcache.jit\ndef f(x):\n    return x * FACTOR"
    texts = [run(tmp_path, SET_UP, f"FACTOR = {factor}", function, CALLS)[0] for factor in (2, 2, 3)]
    assert texts == ["2.0\n400.0", "2.0\n400.0", "3.0\n600.0"]
