"""Where one function counts what another one uses, both give the results of `jax.jit` at each start."""

from pathlib import Path
from typing import Any

import pytest

from jcache.store.roots import open_root
from jcache.store.store import Store
from jcache.verify.result import VerifyRequest
from jcache.verify.verification import verify
from tests.helpers.jax_programs import run

PROGRAM = (Path(__file__).parent.parent / "programs" / "effects_elsewhere.py").read_text()


def started(root: Path, whose: str, which: str = "all") -> Any:
    return run(PROGRAM, whose, root, which).value


@pytest.mark.full
def test_what_is_counted_elsewhere_is_never_missed(tmp_path: Path) -> None:
    """Also at the first start that calls the function which uses it, after one that has stored the one that counts."""
    right = started(tmp_path, "jax")["results"]
    alone = [started(tmp_path / "alone", "jcache", "first") for _ in range(2)]
    assert alone[1]["hits"] > 10  # functions that count are served
    for root in (tmp_path / "alone", tmp_path / "both"):
        for _ in range(3):
            found = started(root, "jcache")
            assert found["results"] == right
        assert found["hits"] > 0  # functions that use a count are served
        with Store(open_root(root)) as store:
            assert verify(store, VerifyRequest()).findings == []
