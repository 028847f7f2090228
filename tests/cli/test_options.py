"""What several commands share: kinds, completion of keys, and the store that they open."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jcache.cli.options import complete_keys, complete_kinds, kinds_of
from jcache.errors import InvalidValue
from jcache.layout import Kind
from tests.helpers.command_line import Jcache, entry_files
from tests.helpers.entries import add, executable, key


def test_a_held_lock_is_waited_for_and_given_up(jcache: Jcache, cache: Path) -> None:
    """While another process holds JAX's lock, prune waits, says so, and gives up with exit 11."""
    code = "import sys, filelock; lock = filelock.FileLock(sys.argv[1]); lock.acquire(); print(flush=True); input()"
    holder = subprocess.Popen(
        [sys.executable, "-c", code, cache / ".lockfile"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    before = entry_files(cache)
    result = jcache("prune", "--max-size", "0", "--root", cache, env={"JCACHE_LOCK_TIMEOUT": "1.5s"})
    assert result.code == 11 and "Waiting for" in result.err
    if sys.platform == "linux":
        assert f"process {holder.pid}" in result.err
    assert entry_files(cache) == before
    holder.communicate(b"\n")
    assert jcache("prune", "--max-size", "0", "--root", cache).code == 0


def test_kinds() -> None:
    """Without a name all kinds are meant; a kind that is named twice is meant once, and another word is refused."""
    assert kinds_of(None) == kinds_of([]) == tuple(Kind)
    assert kinds_of(["traces", "executables", "traces"]) == (Kind.TRACES, Kind.EXECUTABLES)
    assert complete_kinds("t") == ["traces"] and complete_kinds("") == list(Kind)
    with pytest.raises(InvalidValue):
        kinds_of(["trace"])


def test_completion_never_inserts_more_than_all_keys_have_in_common(tmp_path: Path) -> None:
    """At most 200 keys are candidates, the last of all among them, and a key that is given is no candidate again."""
    for number in range(250):
        add(tmp_path / "root", key(number, "jit_a"), executable())
    add(tmp_path / "root", key(0, "jit_b"), executable())

    def candidates(text: str, *given: str) -> list[str]:
        context: Any = SimpleNamespace(params={"root": str(tmp_path / "root"), "keys": given})
        return complete_keys(context, text)

    found = candidates("jit_")
    assert len(found) == 200 and found[-1] == key(0, "jit_b") and found == sorted(found)
    assert candidates("jit_b") == [key(0, "jit_b")] and candidates("jit_b", key(0, "jit_b")) == []
