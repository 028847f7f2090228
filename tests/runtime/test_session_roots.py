"""The roots of a session: the one that is read and written, and the read-only ones."""

import json
import os
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.entries import mounted_read_only, tree
from tests.helpers.jax_programs import environment, run
from tests.runtime.test_enable import PRELUDE, QUIET, clean, executables, said

pytestmark = pytest.mark.jax


@pytest.mark.parametrize("strict", [False, True])
def test_a_place_that_is_no_cache_is_left_alone(strict: bool, tmp_path: Path) -> None:
    """A directory with foreign files, or a remote address, causes a warning; JAX stays unchanged, and the
    program runs.
    """
    (tmp_path / "thesis.tex").write_text("not ours")
    program = """
import jax
before = dict(jax.config.values)
told = []
for place in sys.argv[2:]:
    if sys.argv[1] == "True":
        try:
            jcache.enable(place, strict=True)
        except jcache.NotInEffect as error:
            told.append(str(error))
    else:
        enabled = enable(place)
        assert enabled.root is None and enabled.store == "none"
        told += enabled.warnings
assert dict(jax.config.values) == before
show(compute(), told)
"""
    result, told = said(program, strict, tmp_path, "gs://bucket/cache")
    assert result == [3, 3, 3]
    assert "neither a jcache root nor" in told[0] and "remote address" in told[1]
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("by", ["environment", "program"])
def test_a_remote_address_that_jax_has_is_left_to_jax(by: str, tmp_path: Path) -> None:
    """A remote address from the environment or the program is left to JAX, and no directory of that name is made."""
    program = """
import os
import jax
if sys.argv[1] == "program":
    jax.config.update("jax_compilation_cache_dir", "gs://bucket/x")
os.chdir(sys.argv[2])
enabled = enable()
show(enabled.root, enabled.warnings, jax.config.jax_compilation_cache_dir, os.listdir("."))
"""
    variables: Any = {"JAX_COMPILATION_CACHE_DIR": "gs://bucket/x"} if by == "environment" else {}
    ((root, (warning,), directory, there),) = [said(program, by, tmp_path, **variables)]
    assert (root, directory, there) == (None, "gs://bucket/x", []) and "remote address" in warning


def test_a_root_that_cannot_be_written_still_hits(tmp_path: Path) -> None:
    """A read-only root causes one warning; entries are hit, misses are compiled, and nothing is raised."""
    program = "enabled = enable(sys.argv[1])\nshow(compute(int(sys.argv[2])), counts(), enabled.warnings)"
    root = tmp_path / "root"
    _, cold, _ = said(program, root, 2)
    with mounted_read_only(root):
        result, warm, (warning,) = said(program, root, 2)
        assert (result, warm) == ([3, 3, 3], [cold[1], 0, 0, 0])
        assert "read-only" in warning and "none is stored" in warning
        result, missed, _ = run(PRELUDE + program, root, 7, env=QUIET).value
        assert result == [8, 8, 8] and missed[1] == 0 < missed[2]
    clean(root)


@pytest.mark.parametrize("spelled", ["{0}/root", "{0}/root/", "{0}/other/../root", "{0}/root/executables", "root"])
def test_another_spelling_of_the_same_directory_is_no_override(spelled: str, tmp_path: Path) -> None:
    """The root or its executables in the environment, relative or with a slash at the end, cause no warning."""
    program = "show(enable(sys.argv[1]).warnings)"
    name = spelled.format(tmp_path)
    assert said(program, tmp_path / "root", cwd=tmp_path, JAX_COMPILATION_CACHE_DIR=name) == [[]]


def test_the_directory_that_the_program_has_configured_is_the_root(tmp_path: Path) -> None:
    """The directory that the program has configured is the root, unless an argument or $JCACHE_DIR names
    another one.
    """
    program = """
import jax
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
enabled = enable()
again = enable()
show(str(enabled.directory), again is enabled, counts() if compute() else None)
"""
    directory, same, cold = said(program, tmp_path / "theirs")
    assert (directory, same) == (str(tmp_path / "theirs"), True)
    assert len(executables(tmp_path / "theirs")) == cold[1] > 0
    assert said(program, tmp_path / "theirs", JCACHE_DIR=tmp_path / "ours")[0] == str(tmp_path / "ours" / "executables")


def test_read_only_roots_are_read_and_never_written(tmp_path: Path) -> None:
    """Read-only roots serve in their order what the root lacks; with copy_on_hit, the root has it the next time."""
    program = """
enabled = enable(sys.argv[1], read_only=json.loads(sys.argv[2]), copy_on_hit=sys.argv[3] == "copy")
compute(2), compute(3)
show(counts(), [str(path) for path in enabled.read_only], enabled.warnings)
"""
    one, two, mine = tmp_path / "one", tmp_path / "two", tmp_path / "mine"
    for root, number in ((one, 2), (two, 3)):
        said(f"enable(sys.argv[1])\nshow(compute({number}))", root)
    before = tree(one), tree(two)
    teams = json.dumps([str(one), str(two), str(tmp_path / "absent")])
    counts, read, (warning,) = said(program, mine, teams, "no")
    assert counts == [2, 0, 0, 0] and read == [str(one), str(two)] and "absent" in warning
    assert executables(mine) == set()
    assert said(program, mine, json.dumps([str(one), str(two)]), "copy")[0] == [2, 0, 0, 0]
    assert (tree(one), tree(two)) == before
    assert executables(mine) == executables(one) | executables(two)
    assert said(program, mine, "[]", "no")[0] == [2, 0, 0, 0]
    clean(mine)


@pytest.mark.parametrize("write", ["rank0", "all"])
@pytest.mark.parametrize("common", [True, False], ids=["a common root", "a root each"])
def test_the_ranks_of_a_program(write: str, common: bool, tmp_path: Path) -> None:
    """Every rank reads; programs of all ranks, or of the first one only, are stored."""
    program = """
import jax
rank = int(sys.argv[2])
jcache.enable(sys.argv[1], write=sys.argv[3])
jax.distributed.initialize(f"localhost:{sys.argv[4]}", num_processes=2, process_id=rank, local_device_ids=[0])
import numpy as np
mine = jax.device_put(np.ones(3, np.float32), jax.local_devices()[0])
result = jax.jit(lambda x: x * (10 + rank))(mine)
show(counts(), float(result[0]))
"""
    results = ranks(program, tmp_path, common=common, write=write)
    assert results[0][0][1] > 0
    assert (results[1][0][1] > 0) == (write == "all")
    again = ranks(program, tmp_path, common=common, write=write)
    assert again[0][0][1] == 0 and (again[1][0][1:3] == [0, 0]) == (write == "all")
    clean(*{tmp_path / name for name in os.listdir(tmp_path)})


def ranks(program: str, base: Path, *, common: bool, write: str) -> list[Any]:
    """Return the output of the two processes of a program."""
    port, roots = free_port(), [base / ("root" if common else f"root{rank}") for rank in range(2)]
    started = [
        subprocess.Popen(
            [sys.executable, "-c", PRELUDE + program, *map(str, (roots[rank], rank, write, port))],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    done = [process.communicate(timeout=120) for process in started]
    assert [process.returncode for process in started] == [0, 0], done
    return [json.loads(out.splitlines()[-1]) for out, _ in done]


def free_port() -> int:
    with closing(socket.socket()) as listening:
        listening.bind(("localhost", 0))
        return int(listening.getsockname()[1])
