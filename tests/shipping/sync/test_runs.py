"""A push stores what the recorded runs of its root used, for `jcache run` on other hosts."""

import sys
from pathlib import Path

import pytest

from jcache.remote import open_remote
from jcache.remote.names import RUNS
from jcache.remote.run_keys import read_run
from tests.helpers.command_line import Jcache, entry_files


@pytest.mark.jax
def test_a_run_on_another_host_knows_what_it_will_use(jcache: Jcache, tmp_path: Path) -> None:
    """After `run` and `push`, the store names all that the command used, and nothing of a dry run."""
    root, url = tmp_path / "root", (tmp_path / "store").as_uri()
    command = [sys.executable, "-c", "import jax, jax.numpy as jnp; jax.jit(jnp.sin)(jnp.arange(3.0))", "--token=a"]
    assert jcache("run", "--root", root, "--", *command).code == 0
    assert jcache("push", url, "--root", root, "--dry-run").code == 0
    assert not (tmp_path / "store" / RUNS).exists()
    assert jcache("push", url, "--root", root).code == 0
    with open_remote(url) as remote:
        (name,) = (one.name for some in remote.transport.objects(RUNS) for one in some)
        keys = remote.transport.get(name)
        assert keys is not None and "token" not in name
        stored = {name.removesuffix("-cache") for name in entry_files(root / "executables")}
        assert set(keys.data.decode().split()) == stored
        assert read_run(remote, command) == ()  # the store never learns a secret of a command
    other = jcache("run", "--root", tmp_path / "other", "--remote", url, "--", *command)
    assert other.code == 0 and "0 misses" in other.err, other.err
