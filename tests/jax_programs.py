"""Programs that use JAX, each in a process of its own, and what they say."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple


class Said(NamedTuple):
    """What a program said: the JSON in its last line, and what it printed to stderr."""

    value: Any
    err: str


def environment(more: Mapping[str, object] | None = None) -> dict[str, str]:
    """The environment of the tests without what would change JAX or jcache."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_", "JCACHE_"))}
    return env | {"JAX_PLATFORMS": "cpu"} | {name: str(value) for name, value in (more or {}).items()}


def run(program: str, *arguments: object, cwd: Path | None = None, env: Mapping[str, object] | None = None) -> Said:
    """Runs a program to its end, which must be a good one; its last line is JSON."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(
        command, env=environment(env), cwd=cwd, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return Said(json.loads(done.stdout.splitlines()[-1]), done.stderr)
