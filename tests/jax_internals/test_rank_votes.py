"""Votes of the processes of a program; tests/proofs/test_ranks.py has real ones."""

from types import SimpleNamespace

import pytest

from jcache.jax_internals import rank_votes
from tests.helpers.jax_programs import run
from tests.helpers.ranks import run_ranks

VOTES = """
import time
from jcache.jax_internals import rank_votes
from jax.sharding import Mesh, NamedSharding, PartitionSpec
rank_votes._PATIENCE_S = 30.0  # on a busy machine
mesh = Mesh(np.array(jax.devices()), ("d",))
shared = NamedSharding(mesh, PartitionSpec("d"))
assert rank_votes.may_be_needed()
assert rank_votes.vote_of("call", [np.ones(2), jax.numpy.ones(2), None, "text"]) is None
vote = rank_votes.vote_of("call", [1, shared])
found = [
    vote.all_have("trace", "same"),
    vote.all_have("trace", f"of {rank}"),
    vote.all_have("trace", "same" if rank else None),
    vote.all_have("trace", "same"),
    vote.all_have("program", "same"),
]
if rank:  # the other one does not come to this vote
    rank_votes._PATIENCE_S = 1.0
    begun = time.monotonic()
    found.append(vote.all_have("late", "same"))
    assert time.monotonic() - begun >= 0.9
    found.append(vote.all_have("later", "same"))  # where nobody is waited for any more
    assert time.monotonic() - begun < 20
print(json.dumps(found))
"""


@pytest.mark.jax
def test_all_have_the_same_or_none_has_it() -> None:
    """It is a yes only if all processes have the same thing; whoever has another one, none or does not come: a no."""
    program = "import numpy as np\n" + VOTES
    first, second = run_ranks(program, [[], []])
    assert first == second[:5] == [True, False, False, True, True]
    assert second[5:] == [False, False]


@pytest.mark.jax
def test_a_process_alone_has_no_votes() -> None:
    """In a program of one process nothing is voted on, and JAX's parts for several processes are not used."""
    program = """
import jax, json
from jcache.jax_internals import rank_votes
print(json.dumps([rank_votes.may_be_needed(), rank_votes.vote_of("call", [jax.numpy.ones(2)]) is None]))
"""
    assert run(program).value == [False, True]


def test_devices_of_several_processes() -> None:
    """Devices are shared if they name more than one process."""
    here, there = SimpleNamespace(process_index=0), SimpleNamespace(process_index=1)
    assert rank_votes.are_shared([here, there]) and not rank_votes.are_shared([here, here])
    assert not rank_votes.are_shared([object(), here]) and not rank_votes.are_shared([])
