"""Of an object those attributes count that code names; what it sets while it is traced can be set again."""

from pathlib import Path

import pytest

from jcache.fingerprint import changed_meanwhile, fingerprint
from tests.helpers.fingerprints import imported

SOURCE = """
import functools
import numpy as np
class Net:
    size, lazy = 0, None
    def __init__(self): self.rate, self.name = 0.5, "net"
    @functools.cached_property
    def basis(self): return (self.rate, self.rate)
    @functools.cached_property
    def shared(self): return self.basis
    @functools.cached_property
    def array(self): return np.arange(3.0)
    @functools.cached_property
    def again(self): return self.array
net = Net()
def f(x):
    BODY
    return x * net.rate
"""


def test_an_attribute_counts_if_code_names_it(tmp_path: Path) -> None:
    """Any other one is told beside the key."""
    with imported(tmp_path, SOURCE.replace("BODY", "pass")) as model:
        before = fingerprint(model.f, (1,))
        model.net.name = "other"
        renamed = fingerprint(model.f, (1,))
        model.net.rate = 0.25
        assert before.hash == renamed.hash != fingerprint(model.f, (1,)).hash
        assert before.loose["attribute name of Net"] != renamed.loose["attribute name of Net"]


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("net.lazy = net.lazy or (1, 2)", ["lazy"]), ("net.unread = x / 2", ["unread"]), ("net.name = 'b'", ["name"]),
        ("net.a, net.b = 1, (2,)", ["a", "b"]), ("net.basis", ["basis"]), ("net.shared", ["basis", "shared"]),
        ("net.again", []), ("net.size += 1", ["size"]),
    ],
)  # fmt: skip
def test_a_trace_sets_again_what_its_call_has_set(body: str, names: list[str], tmp_path: Path) -> None:
    """An attribute that is new, or that no code reads, as well; what a cached property keeps, unless it is shared."""
    with imported(tmp_path, SOURCE.replace("BODY", body)) as model:
        found = fingerprint(model.f, (1,), for_trace=True)
        model.f(1)
        assert changed_meanwhile(found, model.f, (1,), {}) == []
        assert [each[0].rpartition(": ")[2] for each in found.snapshot.sets.settings] == names


@pytest.mark.parametrize(
    "body", ["net.size = x, [object()]", "net.lazy = object()", "del net.name", "net.unread = [object()]"]
)
def test_what_cannot_be_set_again_is_told(body: str, tmp_path: Path) -> None:
    """A tuple with an object, an object, a list with one, and an attribute that is gone."""
    with imported(tmp_path, SOURCE.replace("BODY", body)) as model:
        found = fingerprint(model.f, (1,), for_trace=True)
        model.f(1)
        assert changed_meanwhile(found, model.f, (1,), {}) != []
