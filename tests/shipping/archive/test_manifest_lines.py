"""A usual line is written and read as the schema writes and reads it, and the schema is asked about every other one."""

from contextlib import suppress

import pytest
from hypothesis import example, given, settings, strategies as st

from jcache.shipping.archive.manifest import Item
from jcache.shipping.archive.manifest_codec import _ROWS
from jcache.shipping.archive.manifest_lines import read_usual, write_usual
from tests.shipping.archive.test_manifest_codec import ITEM, ITEMS

ROW = _ROWS["items"][1]
EDGES = st.sampled_from([0, 1, 10**9 - 1, 10**9, 10**18 - 1, 10**18, 9 * 10**18 - 1, 9 * 10**18, 2**63 - 1, 2**63, -1])
SECONDS = st.none() | st.sampled_from([0.0, 1e-5, 1e-4, 0.1 + 0.2, 12.5, 1e9 - 1, 1e9, 1e10, 2e10, float("inf"), 3])
USUAL = st.builds(
    lambda item, size, made, used, seconds, maker: item._replace(
        bytes=size, created_ns=made, recency_ns=used, seconds=seconds, maker=maker, parents=()
    ),
    ITEMS, st.integers(0, 10**6) | EDGES, EDGES, EDGES, SECONDS, st.none() | st.integers(0, 10**6),
)  # fmt: skip


def schema_line(item: Item) -> str | None:
    """The line that the schema writes; None if it refuses the item."""
    with suppress(ValueError):
        return ROW.write(item)
    return None


def schema_item(line: str) -> Item | None:
    with suppress(ValueError):
        return Item(**ROW.read(line))
    return None


@settings(max_examples=300)
@given(USUAL | ITEMS)
def test_a_usual_line_is_the_schemas(item: Item) -> None:
    """What is written in one step is what the schema writes, and is read back as the schema reads it."""
    line = write_usual(item)
    assert line is None or line == schema_line(item)
    told = schema_line(item)
    assert told is None or read_usual(told) in (None, schema_item(told))


@pytest.mark.full
@settings(max_examples=300)
@given(USUAL, st.integers(0, 400), st.sampled_from(list('0123456789abf"\\{}[],:.-+eE \n\t\0é{')), st.booleans())
@example(ITEM, 9, "0", False)
def test_a_changed_line_is_read_as_the_schema_reads_it(item: Item, place: int, letter: str, insert: bool) -> None:
    """No line that the schema refuses is read, and no value differs from the schema's."""
    line = schema_line(item)
    if line is not None:
        place %= len(line)
        changed = line[:place] + letter + line[place + (not insert) :]
        found = read_usual(changed)
        assert found is None or found == schema_item(changed)


def test_what_jcache_writes_is_usual() -> None:
    """The lines of ordinary entries are read and written in one step."""
    items = [ITEM, ITEM._replace(maker=3, seconds=3.5, codec="zstd", sidecar=True, portable=True, origin="jcache run")]
    for item in items:
        line = write_usual(item)
        assert line is not None and read_usual(line) == item
