"""Real entries for the tests: JAX fills caches in separate processes, and the H200's are in data/h200."""

from pathlib import Path

import pytest

from tests.helpers.interpreters import with_jax
from tests.helpers.jax_programs import environment

PROGRAM = """
import sys
import jax
import jax.numpy as jnp

jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)


@jax.jit
def named_step(x, w):
    y = jnp.tanh(x @ w)
    return y, (y * 2).astype(jnp.int8), jnp.sum(y, axis=0) > 0


@jax.jit
def odd_types():
    return jnp.zeros((2, 3), jnp.bfloat16), jnp.zeros((), jnp.complex64), jnp.zeros((0, 4), jnp.uint32)


named_step(jnp.ones((128, 10)), jnp.ones((10, 20)))
odd_types()
jax.jit(lambda x: x - 1)(jnp.ones(7))
"""
NAMED_STEP_LINE = PROGRAM[: PROGRAM.index("y = jnp.tanh")].count("\n") + 1
LAMBDA_LINE = PROGRAM[: PROGRAM.index("jax.jit(lambda")].count("\n") + 1

H200 = Path(__file__).parent.parent / "data" / "h200"


class JaxEntries:
    """A directory that JAX filled by running a program with known names, shapes and lines."""

    def __init__(self, program: Path, directory: Path) -> None:
        self.program = program
        self.directory = directory

    def path(self, name: str) -> Path:
        """The entry of a program by its module name."""
        (path,) = self.directory.glob(f"{name}-*-cache")
        return path

    def bytes(self, name: str) -> bytes:
        return self.path(name).read_bytes()


def run_python(*arguments: str) -> str:
    """Return the output of a separate Python process; JAX stays out of the process of the tests."""
    result = with_jax.run(arguments, environment=environment())
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result.stdout


@pytest.fixture(scope="session", name="cpu_entries")
def cpu_entries_fixture(tmp_path_factory: pytest.TempPathFactory) -> JaxEntries:
    """Entries of the installed JAX, on the CPU."""
    return entries_of(PROGRAM, tmp_path_factory.mktemp("jax") / "known_program.py")


def entries_of(text: str, program: Path) -> JaxEntries:
    """Entries that the installed JAX writes when it runs a program, in a file of this path."""
    program.write_text(text)
    cache = program.parent / "cache"
    run_python(str(program), str(cache))
    return JaxEntries(program, cache)


def h200_entry(name: str) -> bytes:
    """The bytes of an entry that JAX wrote on an H200."""
    (path,) = H200.glob(f"{name}-*-cache")
    return path.read_bytes()


def varint(value: int) -> bytes:
    """A number as protobuf writes it."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def text(field: int, value: bytes) -> bytes:
    """A length-delimited field."""
    return varint(field << 3 | 2) + varint(len(value)) + value


def number(field: int, value: int) -> bytes:
    """A numeric field."""
    return varint(field << 3) + varint(value)
