"""Programs that use JAX, each in a separate process, and their output."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.helpers.interpreters import anew, base_environment, with_jax


class Said(NamedTuple):
    """The output of a program: the JSON in its last line, and its stderr."""

    value: Any
    err: str


def environment(more: Mapping[str, object] | None = None) -> dict[str, str]:
    """Return the environment of the tests without variables that would change JAX or jcache."""
    return base_environment() | {name: str(value) for name, value in (more or {}).items()}


def run(
    program: str,
    *arguments: object,
    cwd: Path | None = None,
    env: Mapping[str, object] | None = None,
    new_interpreter: bool = False,
) -> Said:
    """Runs a program to its end, which must be a good one; its last line is JSON.

    Args:
        program: its text.
        arguments: its arguments.
        cwd: its working directory.
        env: variables beside those of `environment`.
        new_interpreter: whether it needs an interpreter that has not imported JAX before.
    """
    start = anew if new_interpreter else with_jax.run
    done = start(["-c", program, *map(str, arguments)], environment=environment(env), cwd=cwd)
    assert done.returncode == 0, done.stderr
    return Said(json.loads(done.stdout.splitlines()[-1]), done.stderr)
