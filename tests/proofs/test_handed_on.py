"""An argument that a function uses in any other way than by names of its fields counts as a whole."""

from pathlib import Path

import pytest

from jcache.fingerprint import fingerprint
from tests.helpers.fingerprints import imported
from tests.proofs.handed_on import PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_two_results_have_two_keys(name: str, tmp_path: Path) -> None:
    """Whatever the function hands it to: one that is not known, a class, a method, a thread, an exception, a queue."""
    with imported(tmp_path, PROGRAMS[name]) as module:
        one, other = (fingerprint(module.f, args).hash for args in (module.A, module.B))
    assert one != other
