"""Hosts with roots of their own that start cold at once compile each program once between them, or nearly."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from jcache.layout import Kind
from jcache.remote import open_remote
from tests.helpers.jax_programs import environment
from tests.helpers.remote_servers import web_server
from tests.helpers.waiting import LIMIT_S, until
from tests.runtime.test_enable import clean

pytestmark = [pytest.mark.full, pytest.mark.whole]

PROGRAMS = 3
PROGRAM = f"""
import json, sys
import jcache
jcache.enable(sys.argv[1], remote=sys.argv[2], remote_write=True)
import jax, jax.numpy as jnp, numpy as np
def program(n):
    def fleet(x):
        for i in range(8):
            x = jnp.sort(jnp.tanh(x @ x.T @ x) + n * i, axis=0)
        return x.sum()
    return fleet
x = np.ones((8, 8), np.float32)
results = [float(jax.jit(program(n))(x)) for n in range({PROGRAMS})]
programs = [one for one in jcache.stats().programs if one.name == "jit_fleet"]
jcache.disable()
print(json.dumps([results, [[one.key, one.outcome] for one in programs]]))
"""


def start(root: Path, url: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(root), url]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=environment({"JAX_PLATFORMS": "cpu"}), text=True, **pipes)  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize("some_die", [False, True])
def test_a_fleet_that_starts_cold(tmp_path: Path, full: bool, some_die: bool) -> None:
    """No host fails, all results are the same, and every entry is whole, also where half of the hosts are killed."""
    count = 16 if full else 6
    with web_server(tmp_path / "store") as server:
        hosts = [start(tmp_path / f"host{number}", server.url) for number in range(count)]
        if some_die:
            until(lambda: list((tmp_path / "store").rglob("claims/*/jit_fleet-*")))
            for host in hosts[: count // 2]:  # the one that holds the claim may be among them
                host.send_signal(signal.SIGKILL)
        done = [host.communicate(timeout=3 * LIMIT_S) for host in hosts]
        alive = [number for number, host in enumerate(hosts) if host.returncode != -signal.SIGKILL]
        assert [hosts[number].returncode for number in alive] == [0] * len(alive), done
        said: list[Any] = [json.loads(done[number][0].splitlines()[-1]) for number in alive]
        outcomes = Counter((key, outcome) for _, programs in said for key, outcome in programs)
        compiled = sum(count for (_, outcome), count in outcomes.items() if outcome != "hit")
        assert len({json.dumps(results) for results, _ in said}) == 1
        most = (2 if full else 3) * PROGRAMS  # a busy machine may let a claim wait for too long
        assert len({key for key, _ in outcomes}) == PROGRAMS and compiled <= most, outcomes
        remote = open_remote(server.url)
        names = [path.name.removesuffix("-cache") for path in (tmp_path / "store").rglob("jit_fleet-*-cache")]
        assert len(names) == PROGRAMS
        assert all(remote.find(Kind.EXECUTABLES, space(tmp_path / "store"), name) is not None for name in names)
    clean(*(tmp_path / f"host{number}" for number in alive))


def space(store: Path) -> str:
    """Return the namespace in a store that has one."""
    (name,) = os.listdir(store / "v1" / "executables")
    return name
