"""The command line as a user has it: real processes, real JAX caches."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from json import loads
from pathlib import Path
from typing import Any

import pytest

from jcache.formats.envelope import Codec
from jcache.formats.executable import pack_executable
from tests.helpers.interpreters import AS_IN_ALL_TESTS, LIMIT_S, with_command_line, with_jax

HERE = Path(__file__).parent
PROGRAM = HERE.parent / "programs" / "small.py"
H200 = HERE.parent / "data" / "h200"
LEGACY = pack_executable(b"\x0aan executable of old", 1, Codec.ZLIB)
KEEP = ("PATH", "HOME", "LANG", "TMPDIR", "SYSTEMROOT")


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return loads(self.out)


Jcache = Callable[..., Result]


def clean_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment without variables that would change jcache or JAX."""
    kept = {name: os.environ[name] for name in KEEP if name in os.environ}
    return kept | {"COLUMNS": "80"} | AS_IN_ALL_TESTS | dict(more or {})


def call(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, stdin: str = "", cwd: Path | None = None
) -> Result:
    """Runs a command to its end."""
    if command[:3] == [sys.executable, "-m", "jcache"]:
        done = with_command_line.run(command[1:], environment=clean_environment(env), cwd=cwd, stdin=stdin)
    else:
        done = subprocess.run(
            command,
            env=clean_environment(env),
            input=stdin,
            capture_output=True,
            text=True,
            cwd=cwd,
            timeout=LIMIT_S,
            check=False,
        )
    return Result(done.returncode, done.stdout, done.stderr)


def run_jax(
    cache: Path, *, bounded: int | None = None, program: Sequence[str] = (str(PROGRAM),), **more: str
) -> Result:
    """Run a JAX process without jcache; it prints only its own output and warnings."""
    env = {
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES": "none",
    }
    if bounded is not None:
        env["JAX_COMPILATION_CACHE_MAX_SIZE"] = str(bounded)
    done = with_jax.run(program, environment=clean_environment(env | more))
    return Result(done.returncode, done.stdout, done.stderr)


def entry_files(directory: Path) -> dict[str, int]:
    """File names of the entries and their bytes, as any tool sees them."""
    return {p.name: p.stat().st_size for p in directory.glob("*-cache") if p.is_file()}


def keys(directory: Path) -> set[str]:
    return {name.removesuffix("-cache") for name in entry_files(directory)}


def powerless() -> list[str]:
    """Return a command prefix under which file modes count even for root."""
    if os.geteuid() != 0:
        return []
    if not shutil.which("setpriv"):
        pytest.skip("file modes do not hinder root, and there is no setpriv to give that up")
    without = "-dac_override,-dac_read_search,-fowner"
    return ["setpriv", "--bounding-set", without, "--inh-caps", without]
