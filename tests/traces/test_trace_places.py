"""Whose traces a program reads and writes: those of the root in use, or of the default one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from jcache.errors import NotStorable
from jcache.store.roots import InUse, in_use, put_in_use
from jcache.traces.trace_places import traces_in_use
from tests.helpers.jax_programs import run


@pytest.fixture
def none_in_effect() -> Iterator[None]:
    """A root is asked for, and is not in effect."""
    before = in_use()
    put_in_use(InUse(None))
    yield
    put_in_use(before)


@pytest.mark.usefixtures("none_in_effect")
def test_without_a_root_there_are_no_traces() -> None:
    """Where the root that is meant is not in effect, no other one is taken in its place."""
    with pytest.raises(NotStorable, match="There is no root in use"):
        traces_in_use()


PROGRAM = """
import json, sys
import jcache
from jcache.errors import NotStorable
from jcache.traces.trace_places import traces_in_use

said = [str(traces_in_use().store.root.path)]  # which `jcache.enable` was not called for
jcache.enable(sys.argv[1], max_size=1000)
one = traces_in_use()
said += [str(one.store.root.path), one is traces_in_use(), one.store.kind]
jcache.enable(sys.argv[2], read_only=[sys.argv[1]])
said += [str(traces_in_use().store.root.path), [str(root.path) for root in traces_in_use().shared]]
jcache.disable()
try:
    traces_in_use()
except NotStorable as error:
    said.append(str(error))
print(json.dumps(said))
"""


@pytest.mark.jax
def test_they_are_those_of_the_root_in_use(tmp_path: Path) -> None:
    """One object serves as long as a root is in use, another the next root; after `jcache.disable` none does."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    one, other = str(tmp_path / "a"), str(tmp_path / "b")
    said = run(PROGRAM, one, other, env={"JCACHE_DIR": tmp_path / "default"}).value
    assert said == [str(tmp_path / "default"), one, True, "traces", other, [one], "`jcache.disable()` has been called."]
