"""Processes that have JAX, and encode or decode the structures of pytrees."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tests.helpers.jax_programs import environment

ROOT: Final = Path(__file__).parents[2]
START: Final = "from tests.helpers.pytree_nodes import *\nimport json\n"


class Peer:
    """A process that encodes or decodes structures."""

    def __init__(self, seed: int) -> None:
        command = [sys.executable, "-c", "from tests.helpers.pytree_nodes import serve; serve()"]
        env = environment({"PYTHONHASHSEED": seed})
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, **question: Any) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())  # type: ignore[no-any-return]

    def end(self) -> None:
        self._process.communicate()
        assert self._process.returncode == 0
