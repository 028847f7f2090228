"""The executable that a marker stands for, in the process after the one that traced."""

from pathlib import Path

import pytest

from jcache.layout import Kind
from jcache.store.roots import open_root
from tests.helpers.jax_programs import run

pytestmark = pytest.mark.jax

PROGRAM = """
import json, sys
import jax, jax.numpy as jnp, jcache
from jcache.jax_internals import rank_agreement, rank_votes
from jcache.traces.call_lookup import CallLookup
jcache.enable(sys.argv[1], strict=True)
lacking = open(sys.argv[2]).read()  # no argument, which would make another world
asked = []
class Vote:
    processes = (0, 1)
    def all_have(self, step, which, build_seconds=0.0):
        asked.append([step, which is not None])
        return step not in lacking.split(",")
if lacking != "alone":
    rank_votes.are_shared = lambda devices: True
    rank_agreement.processes_of = lambda devices: (0, 1)
    CallLookup._vote = lambda self, traced: Vote()
@jcache.jit
def step(x):
    print("traced", file=sys.stderr)
    return jnp.sin(x) * 2
value = step(jnp.arange(3.0)).tolist()
[call] = jcache.stats().traces.calls
programs = [one.outcome for one in jcache.stats().programs if one.name == "jit_step"]
print(json.dumps([value, call.outcome, call.reason, programs, asked]))
"""


def started(root: Path, lacking: str) -> list[object]:
    """Run the program; `lacking` names what another process lacks: steps of the vote, or ``alone`` for no vote."""
    told = root.with_name("lacking")
    told.write_text(lacking)
    found: list[object] = run(PROGRAM, root, told).value
    return found


def test_it_is_loaded_or_compiled(tmp_path: Path) -> None:
    """It is read from JAX's cache; where it is gone, the stored StableHLO is compiled."""
    value, *_ = started(tmp_path / "root", "alone")
    assert started(tmp_path / "root", "alone") == [value, "hit", None, ["hit"], []]
    for path in open_root(tmp_path / "root").directory(Kind.EXECUTABLES).glob("jit_step-*"):
        path.unlink()
    assert started(tmp_path / "root", "alone") == [value, "hit", None, ["stored"], []]
    assert started(tmp_path / "root", "alone") == [value, "hit", None, ["hit"], []]


def test_what_another_process_lacks_is_not_used(tmp_path: Path) -> None:
    """Without the executable in all processes they compile the StableHLO, and without that they trace."""
    value, *_ = started(tmp_path / "root", "")
    assert started(tmp_path / "root", "") == [value, "hit", None, ["hit"], [["trace", True], ["executable", True]]]
    steps = [["trace", True], ["executable", True], ["program", True]]
    found = started(tmp_path / "root", "executable")
    assert found[:3] == [value, "hit", None] and found[4] == steps
    _, outcome, reason, _, asked = started(tmp_path / "root", "executable,program")
    assert (outcome, reason) == ("stored", "another process lacks its StableHLO, or does not answer")
    assert asked == [*steps, ["trace", False]]
    why = "another process of the program lacks its trace, or does not answer"
    assert started(tmp_path / "root", "trace")[:3] == [value, "bypassed", why]
