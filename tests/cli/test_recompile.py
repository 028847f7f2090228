"""`jcache import --recompile`: traces without matching executables start warm."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from jcache.formats.envelope import Codec, EnvelopeHeader, open_envelope, seal
from jcache.layout import Kind
from jcache.store.lineage import is_program
from jcache.store.roots import open_root
from jcache.store.store import Store
from tests.helpers.command_line import Jcache, call

pytestmark = pytest.mark.jax

TWO = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
PROGRAM = """
import json, sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import jcache
jcache.enable(sys.argv[1], strict=True)

@jcache.jit(donate_argnums=0, check="never")
def step(x):
    print("traced")
    return jnp.linalg.solve(jnp.eye(8) * 3 + x.sum(), x) + jnp.sort(x)

x = jnp.arange(8.0)
mesh = Mesh(np.array(jax.devices()), ("x",))
args = [x + 0, *([jax.device_put(x, NamedSharding(mesh, P("x")))] if len(jax.devices()) > 1 else [])]
values = [step(arg).tolist() for arg in args]
asked = [one for one in jcache.stats().programs if one.name == "jit_step"]
print(json.dumps([[one.key for one in asked if one.outcome != "hit"], values]))
"""


class Ran(NamedTuple):
    """The result of a run of the program: its number of traces, its compiled executables, and its results."""

    traced: int
    compiled: list[str]
    values: list[list[float]]


Program = Callable[[Path, dict[str, str]], Ran]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Runs the program on a root."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)

    def run(root: Path, env: dict[str, str]) -> Ran:
        done = call([sys.executable, str(path), str(root)], env=env)
        assert done.code == 0, done.err
        return Ran(done.out.count("traced"), *json.loads(done.out.splitlines()[-1]))

    return run


def shipped(jcache: Jcache, base: Path, *options: str) -> Path:
    archive = base / "traces.jca"
    assert jcache("export", "--root", base / "there", "-o", archive, *options).code == 0
    return archive


def test_traces_that_came_alone_start_warm(jcache: Jcache, program: Program, tmp_path: Path) -> None:
    """Their programs are compiled, for one device and sharded over two, and the first calls find them."""
    cold = program(tmp_path / "there", TWO)
    assert cold.traced > 0 and len(cold.compiled) == 2
    archive, here = shipped(jcache, tmp_path, "--kind", "traces"), tmp_path / "here"
    done = jcache("import", archive, "--root", here, "--recompile", "--json", env=TWO)
    assert done.code == 0, done.err
    assert done.json["recompiled"] == {"recompiled": 2, "there": 0, "elsewhere": 0, "failed": 0, "reasons": {}}
    assert program(here, TWO) == (0, [], cold.values)
    again = jcache("import", archive, "--root", here, "--recompile", env=TWO)
    assert again.code == 0 and "2 there already" in again.out
    assert jcache("verify", "--root", here).code == 0


def test_what_was_compiled_otherwise_is_compiled_for_this_machine(
    jcache: Jcache, program: Program, tmp_path: Path
) -> None:
    """Executables of other flags come, and are of no use; the programs of their traces are compiled once more."""
    cold = program(tmp_path / "there", {"XLA_FLAGS": "--xla_cpu_enable_fast_math=true"})
    archive, here = shipped(jcache, tmp_path), tmp_path / "here"
    done = jcache("import", archive, "--root", here, "--recompile")
    assert done.code == 0 and "1 recompiled" in done.out, done.out
    warm = program(here, {})
    assert (warm.traced, warm.compiled) == (0, []) and warm.values[0] == pytest.approx(cold.values[0], rel=1e-5)


def test_devices_that_are_not_here(jcache: Jcache, program: Program, tmp_path: Path) -> None:
    """A trace for more devices than there are is reported, and is no failure."""
    program(tmp_path / "there", TWO)
    done = jcache("import", shipped(jcache, tmp_path, "--kind", "traces"), "--root", tmp_path / "here", "--recompile")
    assert done.code == 0 and "2 unusable here" in done.out, done.out
    assert "with number of devices 2 (local: 2), and a call with 1 (local: 1) is traced anew" in done.out


def rewritten(root: Path, change: Callable[[EnvelopeHeader, bytes], tuple[EnvelopeHeader, bytes]]) -> None:
    """Seal the traces of a root again, as another program might write them."""
    with Store(open_root(root)) as store:
        directory = store.root.directory(Kind.TRACES)
        for entry in store.entries([Kind.TRACES]):
            header, payload = open_envelope((directory / entry.file_name).read_bytes())
            header, data = change(header, bytes(payload))
            fields: dict[str, Any] = {name: getattr(header, name) for name in ("kind", "name", "key", "build_seconds")}
            fields |= {name: dict(getattr(header, name)) for name in ("key_parts", "producers")}
            fields |= {"created_ns": header.created_ns, "parents": header.parents, "codec": Codec.ZSTD}
            path = directory / entry.file_name
            path.write_bytes(seal(data, **fields))
            os.utime(path, (1e9, 1e9))  # nobody is writing it
    shutil.rmtree(root / ".jcache")  # which has their digests


def test_another_jax_and_a_program_that_cannot_be_read(jcache: Jcache, program: Program, tmp_path: Path) -> None:
    """Traces of another jax are unusable here; a program that XLA refuses is a named failure, with exit 3."""
    program(tmp_path / "there", {})

    def of_another_jax(header: EnvelopeHeader, payload: bytes) -> tuple[EnvelopeHeader, bytes]:
        if "jax" in header.key_parts:
            header = header._replace(key_parts=dict(header.key_parts) | {"jax": "0.1.2"})
        return header, payload

    def garbage(header: EnvelopeHeader, payload: bytes) -> tuple[EnvelopeHeader, bytes]:
        return header, b"no StableHLO" if is_program(header) else payload

    rewritten(tmp_path / "there", garbage)
    done = jcache("import", shipped(jcache, tmp_path, "--kind", "traces"), "--root", tmp_path / "a", "--recompile")
    assert done.code == 3 and "1 failed" in done.out, done.out
    rewritten(tmp_path / "there", of_another_jax)
    done = jcache("import", shipped(jcache, tmp_path, "--kind", "traces"), "--root", tmp_path / "b", "--recompile")
    assert done.code == 0 and "it was traced with jax 0.1.2" in done.out, done.out


def test_without_jax_nothing_is_compiled(jcache: Jcache, program: Program, tmp_path: Path) -> None:
    """Without JAX, the entries are imported, a sentence says that nothing was compiled, and the exit code is 3."""
    program(tmp_path / "there", {})
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    archive = shipped(jcache, tmp_path, "--kind", "traces")
    done = jcache("import", archive, "--root", tmp_path / "here", "--recompile", env={"JCACHE_PYTHON": str(python)})
    assert done.code in (2, 3) and "JCACHE_PYTHON" in done.out + done.err
