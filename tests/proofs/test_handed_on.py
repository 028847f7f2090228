"""An argument that a function uses in any other way than by names of its fields counts as a whole; a global that it
hands to a function which is not known is compared in more starts.
"""

from pathlib import Path

import pytest

from jcache.fingerprint import fingerprint
from jcache.fingerprint.attributes import HANDED_ON
from tests.helpers.fingerprints import imported
from tests.proofs.handed_on import PROGRAMS

RETURN_OBJECTS = {"field returned", "dict item returned", "field into list of plain holder", "method returns self"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_two_results_have_two_keys(name: str, tmp_path: Path) -> None:
    """Whatever the function hands it to: one that is not known, a class, a method, a thread, an exception, a queue."""
    with imported(tmp_path, PROGRAMS[name]) as module:
        one, other = (fingerprint(module.f, args).hash for args in (module.A, module.B))
    assert one != other


@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - RETURN_OBJECTS))
def test_what_a_global_hands_on_is_learnt_late(name: str, tmp_path: Path) -> None:
    """The same as a global has two keys, or what differs is told apart from attributes that no code can read."""
    with imported(tmp_path, f"{PROGRAMS[name]}\ndef run(): return f(GIVEN)\n") as module:
        found = []
        for args in (module.A, module.B):
            vars(module)["GIVEN"] = args[0]
            found.append(fingerprint(module.run, ()))
    one, other = found
    labels = {label for label, _ in dict(one.loose).items() ^ dict(other.loose).items()}
    assert one.hash != other.hash or (labels and all(label.startswith(HANDED_ON) for label in labels))
