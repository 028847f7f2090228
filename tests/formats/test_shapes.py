"""The shapes of a program's results, from the protos of XLA and of IFRT."""

import pytest

from jcache.formats.inspection import inspect
from tests.formats.test_inspection import packed
from tests.helpers.jax_entries import (
    JaxEntries,
    cpu_entries_fixture as cpu_entries_fixture,
    number,
    text,
    varint,
)


@pytest.mark.jax
def test_shapes_of_unusual_types(cpu_entries: JaxEntries) -> None:
    """Scalars, empty arrays and less common types have XLA's names."""
    assert inspect(cpu_entries.bytes("jit_odd_types")).output_shapes == ("bf16[2,3]", "c64[]", "u32[0,4]")


def test_a_type_that_is_not_known_leaves_the_shapes_unknown() -> None:
    """One result of an unknown type makes all shapes None."""
    specs = b"".join(text(5, text(6, b"") + text(2, number(1, kind))) for kind in (11, 77))
    metadata = text(2, b"pjrt_ifrt") + specs
    assert inspect(packed(varint(len(metadata)) + metadata)).output_shapes is None
