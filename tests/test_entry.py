"""An entry as a value, and many in columns."""

from array import array

from hypothesis import given, strategies as st

from jcache.entry import SETTLED_NS, Columns, Entry, Snapshot
from jcache.layout import Kind
from jcache.layout.key_list import KeyList
from tests.helpers.entries import NOW, digits, entry, key


def test_what_an_entry_is_called() -> None:
    """An entry's name is its function and file; a legacy entry's file has no suffix."""
    assert entry(1).name == "jit_step"
    assert entry(1).file_name == key(1) + "-cache"
    legacy = Entry(Kind.EXECUTABLES, digits(1), 1, 0, 0, sidecar=False, legacy=True)
    assert (legacy.name, legacy.file_name) == ("", digits(1))


@given(st.lists(st.booleans(), max_size=30))
def test_rows_of_columns(keep: list[bool]) -> None:
    """`where` keeps the flagged rows, all columns of them, in their order."""
    numbers = range(len(keep))
    columns = Columns(KeyList(key(i) for i in numbers), *(array("q", numbers) for _ in range(6)))
    kept = [i for i in numbers if keep[i]]
    assert columns.where(keep) == Columns(KeyList(key(i) for i in kept), *(array("q", kept) for _ in range(6)))


def test_empty_columns_are_new_ones() -> None:
    """Two empty tables are independent of each other."""
    one, other = Columns.empty(), Columns.empty()
    one.keys.append("a")
    one.sizes.append(1)
    assert not other.keys
    assert not other.sizes


def test_what_a_snapshot_vouches_for() -> None:
    """Names and sizes count as final two seconds after the last change."""

    def snapshot(changed_ns: int, created_ns: int) -> Snapshot:
        columns = Columns(KeyList([key(1)]), *(array("q", [created_ns]) for _ in range(6)))
        return Snapshot(changed_ns, NOW, columns, [])

    old, recent = NOW - SETTLED_NS - 1, NOW - SETTLED_NS
    assert snapshot(old, old).names_final
    assert not snapshot(recent, old).names_final
    assert snapshot(old, recent).unsettled
    assert not snapshot(old, old).unsettled
    assert not Snapshot(old, NOW, Columns.empty(), []).unsettled
