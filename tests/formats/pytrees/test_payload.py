"""A tree and its blocks as one payload."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given

from jcache.errors import DamagedEntry
from jcache.formats import pytrees
from tests.formats.pytrees.test_pytrees import arrays, stored
from tests.helpers import graph_classes  # noqa: F401  (so that its classes are there)


@given(arrays)
def test_arrays_are_aligned_views(value: np.ndarray[Any, Any]) -> None:
    """Arrays in the payload lie at multiples of 64 bytes, and loaded ones are writable views of it."""
    payload = stored(["x" * (value.size % 64), value, b"odd", value.copy("K")])
    memory = np.frombuffer(payload, np.uint8)
    _, first, _, second = pytrees.load(memoryview(payload))
    for found in (first, second):
        assert found.flags.writeable and found.flags.c_contiguous >= value.flags.c_contiguous
        assert found.flags.f_contiguous >= value.flags.f_contiguous
        if found.nbytes:
            assert (found.ctypes.data - memory.ctypes.data) % 64 == 0
            assert np.shares_memory(found, memory)


@pytest.mark.parametrize("head", [b"", b"jctree1\n", b"jctree3\n" + bytes(8), b"jctree1\n" + b"\xff" * 8 + b"1"])
def test_a_wrong_beginning_is_damage(head: bytes) -> None:
    """Another magic, no length or one beyond the end is damage."""
    with pytest.raises(DamagedEntry):
        pytrees.load(memoryview(head))


def test_only_what_needs_it_has_the_second_magic() -> None:
    """What shares nothing has the bytes that the first version gave it; what does is damage to its readers."""
    part = [1.0]
    assert stored([part, np.ones(3)]).startswith(b"jctree1\n")
    for value in ([part, part], np.ones(3)[::-1]):
        assert stored(value).startswith(b"jctree2\n")
