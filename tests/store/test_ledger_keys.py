"""Many records of a ledger are read and changed at once."""

import sqlite3
from contextlib import closing

from hypothesis import given, strategies as st

from jcache.layout import Kind
from jcache.store import ledger_keys
from jcache.store.ledger_keys import change_keys, of_keys
from tests.helpers.entries import key

numbers = st.lists(st.integers(0, 30), max_size=40)


@given(st.sets(st.tuples(st.sampled_from(Kind), st.integers(0, 30))), numbers, st.sampled_from(Kind))
def test_they_are_the_records_of_the_keys(there: set[tuple[Kind, int]], wanted: list[int], kind: Kind) -> None:
    """Exactly the records of the keys are found and changed, in whatever order and however often keys are named."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE entries (kind, key, hits)")
        database.executemany("INSERT INTO entries VALUES (?, ?, 0)", [(of, key(number)) for of, number in there])
        keys = [key(number) for number in wanted]
        found = list(of_keys(database, "SELECT key FROM entries WHERE kind = ?", kind, keys))
        some = {key(number) for of, number in there if of is kind and number in wanted}
        assert sorted(name for (name,) in found) == sorted(some)
        assert len(list(of_keys(database, "SELECT key FROM entries WHERE kind = ?", kind, None))) == sum(
            of is kind for of, _ in there
        )
        change_keys("UPDATE entries SET hits = ?", (7,), [(kind, name) for name in keys], database)
        changed = database.execute("SELECT kind, key FROM entries WHERE hits = 7").fetchall()
        assert sorted(changed) == sorted((kind.value, name) for name in some)


def test_more_keys_than_a_statement_takes() -> None:
    """The keys are looked up some at a time."""
    count = 2 * ledger_keys._KEYS_AT_ONCE + 1
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE entries (kind, key)")
        database.executemany("INSERT INTO entries VALUES ('traces', ?)", [(key(number),) for number in range(count)])
        keys = [key(number) for number in range(count)]
        query = "SELECT key FROM entries WHERE kind = ?"
        assert sorted(name for (name,) in of_keys(database, query, Kind.TRACES, keys)) == sorted(keys)
