"""The process that compiles the programs of traces: what it answers for each."""

import os
import sys
from typing import Any

import pytest

from jcache.jax_internals.child import child_of
from jcache.layout import ENTRY_SUFFIX, Kind, Root
from jcache.package import own_file
from jcache.store.lineage import header_of, is_program
from jcache.store.roots import open_root
from jcache.store.store import Store
from tests.helpers.jax_programs import environment, run

pytestmark = pytest.mark.jax

PROGRAM = """
import json, sys
import jax.numpy as jnp
import jcache
from jax.experimental import io_callback
jcache.enable(sys.argv[1], strict=True)

@jcache.jit
def step(x):
    return jnp.sin(x) * 2

@jcache.jit
def calling(x):
    io_callback(print, None, x)
    return x * 2

step(jnp.ones(3)), calling(jnp.ones(3)).block_until_ready()
print(json.dumps([call.outcome for call in jcache.stats().traces.calls]))
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Root:
    """A root with two traces, of which one calls back to the host."""
    path = tmp_path_factory.mktemp("root")
    assert run(PROGRAM, path).value == ["stored", "stored"]
    return open_root(path)


def programs(root: Root) -> dict[str, str]:
    """Return the keys of the programs, by the names of their functions."""
    with Store(root) as store:
        headers = (header_of(store, (Kind.TRACES, entry.key)) for entry in store.entries([Kind.TRACES]))
        return {header.name.partition(".")[0]: header.key for header in headers if header and is_program(header)}


def answers(root: Root, *keys: str, **variables: str) -> list[Any]:
    more = {"JAX_COMPILATION_CACHE_DIR": root.directory(Kind.EXECUTABLES), "JCACHE_DIR": root.path, **variables}
    program = own_file("traces", "recompile_child.py")
    with child_of(sys.executable, program, 100, environment(more), str(root.path), doing="compile") as child:
        said = [child.ask(key, "result", "evidence") for key in keys]
        child.end()
    return said


def test_what_became_of_each_program_is_answered(root: Root) -> None:
    """It is there, or is compiled and then there; what calls back is compiled elsewhere; what is gone has failed."""
    of, absent = programs(root), f"step-{'0' * 64}"
    there, calling, gone = answers(root, of["step"], of["calling"], absent)
    assert there == ["there", ""] and calling[0] == "elsewhere" and "it calls back to the host" in calling[1]
    assert gone == ["failed", f"{absent} is not there"]
    for path in root.directory(Kind.EXECUTABLES).glob(f"*{ENTRY_SUFFIX}"):
        os.unlink(path)
    assert answers(root, of["step"], of["step"]) == [["recompiled", ""], ["there", ""]]


def test_a_trace_of_another_setup_is_of_no_use_here(root: Root) -> None:
    """A call here would be looked up under another key, so that it is not compiled, and the difference is named."""
    (said,) = answers(root, programs(root)["step"], XLA_FLAGS="--xla_force_host_platform_device_count=2")
    assert said[0] == "elsewhere" and "number of devices 1 (local: 1), and a call with 2 (local: 2)" in said[1]
