"""The recorder spares Python collections while JAX is imported; the program's settings of the collector hold."""

from pathlib import Path

import pytest

from jcache.runs.environment import environment
from tests.runs.recorder.test_sitecustomize import BASE, run

# What the program did before JAX, then the collector's state after the import of JAX.
STATE = """
import gc
{before}
import jax
print(gc.isenabled(), gc.get_freeze_count(), gc.get_stats()[2]["collections"])
"""


def state(tmp_path: Path, before: str, *, is_recorded: bool) -> list[str]:
    """Return whether collection is on, the number of frozen objects, and that of full collections."""
    tmp_path.joinpath("log").mkdir(exist_ok=True)
    env = environment(tmp_path / "cache", tmp_path / "log", BASE) if is_recorded else BASE
    return run(STATE.format(before=before), env).stdout.split()


@pytest.mark.jax
@pytest.mark.parametrize("before", ["", "gc.disable()", "gc.set_threshold(0)"])
def test_the_programs_settings_hold(tmp_path: Path, before: str) -> None:
    """After the import of JAX, collection is on or off and objects are frozen as without the recorder."""
    plain, recorded = (state(tmp_path, before, is_recorded=each) for each in (False, True))
    assert recorded[:2] == plain[:2]
    assert int(recorded[2]) <= int(plain[2])


@pytest.mark.jax
def test_what_the_program_froze_stays_frozen(tmp_path: Path) -> None:
    """A program that freezes its objects before it imports JAX finds them frozen afterwards."""
    frozen = int(state(tmp_path, "gc.freeze()", is_recorded=True)[1])
    assert frozen > 1_000


@pytest.mark.jax
def test_garbage_of_the_program_is_freed(tmp_path: Path) -> None:
    """Objects in a cycle that the program drops before the import of JAX are finalized by the next full collection."""
    program = """
import gc
class Node:
    def __del__(self): print("freed")
node = Node(); node.itself = node
del node
import jax
gc.collect()
print("collected")
"""
    tmp_path.joinpath("log").mkdir()
    done = run(program, environment(tmp_path / "cache", tmp_path / "log", BASE))
    assert done.stdout.split() == ["freed", "collected"]


@pytest.mark.jax
def test_no_full_collection_while_jax_is_imported(tmp_path: Path) -> None:
    """While JAX is imported, no collection looks at all objects; without the recorder one does."""
    plain, recorded = (int(state(tmp_path, "", is_recorded=each)[2]) for each in (False, True))
    assert recorded == 0 < plain
