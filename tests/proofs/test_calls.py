"""A call gets the program of that call, whatever its form: `jcache.jit` against `jax.jit`, on random signatures."""

import json
from pathlib import Path
from random import Random

import pytest

from jcache.layout import Kind
from jcache.store.roots import open_root
from jcache.store.store import Store
from jcache.verify.result import VerifyRequest
from jcache.verify.verification import verify
from tests.helpers.interpreters import with_jax
from tests.helpers.jax_programs import environment

pytestmark = pytest.mark.jax


@pytest.mark.full
@pytest.mark.smoke(since="0.6")
def test_every_form_of_a_call_is_that_call(tmp_path: Path, chance: Random, full: bool) -> None:
    """With arguments by position or name, in any order, in a cold and a second process, results are those of
    `jax.jit`.
    """
    seed, count = chance.randrange(2**32), 400 if full else 6
    cold, warm = (
        json.loads(
            with_jax.run(
                ["-m", "tests.proofs.calls", str(tmp_path), str(seed), str(count)],
                environment=environment(),
                cwd=Path(__file__).parents[2],
            ).stdout.splitlines()[-1]
        )
        for _ in range(2)
    )
    assert not cold["differences"] and not warm["differences"]
    assert cold["traced"] > 0 == warm["traced"], (cold, warm)
    found = verify(Store(open_root(tmp_path)), VerifyRequest(kinds=(Kind.TRACES,)))
    assert not found.findings
