"""Whatever becomes of a program, `jcache run` leaves a readable record or none, and the program's own exit code."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jcache.layout import Root
from jcache.runs.record import record_from
from jcache.store.run_records import read_records
from tests.helpers.command_line import clean_environment
from tests.helpers.waiting import LIMIT_S

JAX = "import os, sys, signal, threading, subprocess, time\nimport jax, numpy as np\n"
STEP = "def step(n): jax.jit(lambda x: x * n)(np.ones(3, np.float32)).block_until_ready()\n"
CHILD = f"{JAX}{STEP}step(9)"
# name: program, exit code, and how many programs the record has at least
ENDS = {
    "usual": (f"{JAX}{STEP}step(2)", 0, 1),
    "raises": (f"{JAX}{STEP}step(2)\nraise SystemExit(7)", 7, 1),
    "os._exit": (f"{JAX}{STEP}step(2)\nos._exit(9)", 9, 1),
    "killed": (f"{JAX}{STEP}step(2)\nos.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL, 1),
    "crashes": (f"import ctypes\n{JAX}{STEP}step(2)\nctypes.string_at(0)", 128 + signal.SIGSEGV, 1),
    "killed while it compiles": (
        f"{JAX}{STEP}threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()\n"
        "for number in range(10**6): step(number)",
        128 + signal.SIGKILL,
        0,
    ),
    "threads": (
        f"{JAX}{STEP}threads = [threading.Thread(target=step, args=(n,)) for n in range(6)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]",
        0,
        6,
    ),
    "threads alone": (
        f"{JAX}{STEP}sys.setswitchinterval(1e-6)\n"
        "threads = [threading.Thread(target=step, args=(n,)) for n in range(9)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]",
        0,
        9,
    ),
    "spawns": (f"{JAX}{STEP}step(2)\nsys.exit(subprocess.call([sys.executable, '-c', {CHILD!r}]))", 0, 2),
    "forks": (
        f"{JAX}{STEP}child = os.fork()\nstep(2 if child else 3)\nif not child: os._exit(0)\nos.waitpid(child, 0)",
        0,
        2,
    ),
    "spawns pools": (
        "import multiprocessing as mp\n"
        "def work(n):\n    import jax, numpy as np\n"
        "    return float(jax.jit(lambda x: x + n)(np.ones(2, np.float32))[0])\n"
        "if __name__ == '__main__':\n"
        "    with mp.get_context('spawn').Pool(2) as pool:\n        assert pool.map(work, [1, 2]) == [2.0, 3.0]",
        0,
        1,
    ),
    "no jax": ("print(1)", 0, 0),
    "a failing import": ("import jax, no_such_module", 1, 0),
    "a broken jax": (
        "import sys; sys.modules['jax._src.pjit'] = None\ntry: import jax\nexcept ImportError: sys.exit(5)",
        5,
        0,
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_any_end(tmp_path: Path, name: str) -> None:
    """The exit code is that of the program without jcache, and the record has what was compiled."""
    text, code, count = ENDS[name]
    program = tmp_path / "program.py"
    program.write_text(text)
    root = tmp_path / "root"
    command = [sys.executable, "-m", "jcache", "run", "-q", "--root", str(root), "--"]
    done = subprocess.run(
        [*command, sys.executable, "-W", "ignore", program],
        env=clean_environment({"JAX_PLATFORMS": "cpu"}), capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    records = read_records(Root(root, plain=False))
    found = [record for data in records if (record := record_from(data)) is not None]
    assert len(found) == len(records) <= 1
    programs = [one for record in found for process in record.processes for one in process.programs]
    assert len(programs) >= count
    assert [one for one in programs if one.key and not one.parts] == []
    explained = subprocess.run(
        [sys.executable, "-m", "jcache", "explain", "--root", str(root), "--json"],
        env=clean_environment(), capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert explained.returncode in ((0,) if found else (1,)), explained.stderr
    missed = sum(one.outcome in ("stored", "not_stored") for one in programs)
    assert not found or json.loads(explained.stdout)["misses"] == missed
