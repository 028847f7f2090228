"""`jcache.jit` does what `jax.jit` does, from cold and from warm: results, errors, warnings, prints, attributes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.jax_programs import environment

PROGRAM = Path(__file__).parent / "programs" / "jit_features.py"
DEVICES = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "PYTHONHASHSEED": "0"}
pytestmark = pytest.mark.jax


def said(whose: str, root: Path) -> Any:
    """What the program says of each case, and how often it has traced and served."""
    command = [sys.executable, str(PROGRAM), whose, str(root)]
    done = subprocess.run(command, env=environment(DEVICES), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "The program goes on" not in done.stderr, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_all_that_can_be_done_with_jax_jit(tmp_path: Path) -> None:
    """Each case gives the same with either, and again in a second process, which traces what cannot be stored alone."""
    theirs, _ = said("jax", tmp_path)
    cold, _ = said("jcache", tmp_path)
    warm, done = said("jcache", tmp_path)
    assert {name: cold[name] for name in theirs if cold[name] != theirs[name]} == {}
    assert {name: warm[name] for name in theirs if warm[name] != theirs[name]} == {}
    assert done["_stand_in"] > 50 > 20 > done["_trace"], done
