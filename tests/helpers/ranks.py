"""Run a program in several processes that `jax.distributed` joins, each with arguments of its own."""

import json
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from tests.helpers.jax_programs import environment
from tests.helpers.waiting import LIMIT_S

JOIN = """
import json, sys
import jax
_port, _count, rank = map(int, sys.argv[1:4])
del sys.argv[1:4]
jax.config.update("jax_cpu_collectives_implementation", "gloo")  # up to jax 0.4 there is none by default
jax.distributed.initialize(f"localhost:{_port}", num_processes=_count, process_id=rank, local_device_ids=[0])
"""


def run_ranks(
    program: str,
    arguments: Sequence[Sequence[object]],
    *,
    before: str = "",
    command: Sequence[Sequence[object]] | None = None,
    env: Sequence[Mapping[str, str]] | None = None,
) -> list[Any]:
    """Return what each process of a program prints on its last line, as JSON.

    Args:
        program: the program; its variable ``rank`` is the number of the process.
        arguments: the arguments of each process, in ``sys.argv[1:]``.
        before: what comes before the processes join.
        command: a command for each process that starts it, such as `jcache run`.
        env: more variables for each process.
    """
    port, started = free_port(), []
    for rank, given in enumerate(arguments):
        words = [sys.executable, "-W", "ignore", "-c", before + JOIN + program, port, len(arguments), rank, *given]
        words = [*(command[rank] if command else ()), *words]
        started.append(
            subprocess.Popen(
                list(map(str, words)),
                env=environment(env[rank] if env else {}),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    done = [process.communicate(timeout=LIMIT_S) for process in started]
    assert [process.returncode for process in started] == [0] * len(started), done
    return [json.loads(out.splitlines()[-1]) for out, _ in done]


def free_port() -> int:
    """Return a port on which nothing listens now."""
    with closing(socket.socket()) as listening:
        listening.bind(("localhost", 0))
        return int(listening.getsockname()[1])
