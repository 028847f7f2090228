"""`jcache.jit` flattens arguments and results as JAX does, so its results are those of `jax.jit` for any class."""

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
def test_a_class_that_is_not_made_again_as_it_was_gives_what_jax_gives(
    tmp_path: Path, chance: Random, full: bool
) -> None:
    """Cold, in a second process, after an edit, and after it is taken back: each result is that of `jax.jit`."""
    seed, count = chance.randrange(2**32), 300 if full else 12
    said = [
        json.loads(
            with_jax.run(
                ["-m", "tests.proofs.flatteners", str(tmp_path), str(seed), str(count), str(variant)],
                environment=environment(),
                cwd=Path(__file__).parents[2],
            ).stdout.splitlines()[-1]
        )
        for variant in ((0, 0, 1, 1, 0) if full else (0, 0, 1))
    ]
    assert not [difference for each in said for difference in each["differences"]], seed
    assert said[0]["traced"] > said[1]["traced"] and said[1]["hits"] > 0, (seed, said)  # most are served
    assert not verify(Store(open_root(tmp_path / "root")), VerifyRequest(kinds=(Kind.TRACES,))).findings
