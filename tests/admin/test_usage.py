"""Sums of entries by group, for `jcache du`."""

import json
import random

import pytest

from jcache.admin.usage import Grouping, UsageOrder, ordered, sum_up
from jcache.layout import Kind, Root
from jcache.runs.report import report_of
from jcache.store.ledger import Known
from jcache.store.store import Store
from tests.helpers.entries import NOW, add, executable, key


@pytest.fixture
def store(plain: Root, chance: random.Random) -> Store:
    """Forty entries of seven functions; half of them are on record, with seconds, a jaxlib and a run."""
    with Store(plain) as store:
        news = []
        for number in range(40):
            name = f"jit_f{chance.randrange(7)}"
            data = executable(number % 5)
            add(plain.path, key(number, name), data + bytes(chance.randrange(50)), written_ns=NOW)
            if number % 2:
                known = Known(Kind.EXECUTABLES, key(number, name), seconds=1.5, jaxlib=f"0.{chance.randrange(3)}")
                news.append(known._replace(run=f"run-{chance.randrange(4)}"))
        store.ledger.record(news)
        for run in range(3):
            report = report_of([], run_id=f"run-{run}", command=["a"], started_ns=run, seconds=1.0).to_json()
            programs = [{"key": one.key, "outcome": "hit"} for one in chance.sample(news, 5)]
            store.ledger.add_run(f"run-{run}", run, json.dumps(report | {"programs": programs}))
    return store


@pytest.mark.parametrize("by", Grouping)
@pytest.mark.parametrize("order", UsageOrder)
def test_groups_add_up(store: Store, by: Grouping, order: UsageOrder) -> None:
    """Every entry counts in one group, whatever the groups are, and the order changes no sum."""
    entries = store.entries()
    groups = ordered(sum_up(store, by, Kind), order)
    assert sum(group.entries for group in groups) == len(entries) == 40
    assert sum(group.bytes for group in groups) == sum(entry.bytes for entry in entries)
    assert sum(group.seconds or 0 for group in groups) == 20 * 1.5
    assert all(0 <= group.runs <= 3 for group in groups) and max(group.runs for group in groups) > 0
    values = [getattr(group, order.value) or 0 for group in groups]
    assert values == sorted(values, reverse=order is not UsageOrder.NAME)


def test_seconds_are_read_on_request(store: Store) -> None:
    """What is not on record is read from the entries; without that, it is not counted."""
    (on_record,) = sum_up(store, Grouping.KIND, Kind)
    (read,) = sum_up(store, Grouping.KIND, Kind, read_seconds=True)
    assert on_record.seconds == 30.0 and read.seconds == 30.0 + sum(number % 5 for number in range(0, 40, 2))


def test_a_run_counts_once_for_a_group(store: Store) -> None:
    """A run that hit five entries of a kind has used it once."""
    (group,) = sum_up(store, Grouping.KIND, Kind)
    assert group.runs == 3


def test_nothing_is_on_record(plain: Root) -> None:
    """Without a ledger there are no seconds, and no runs."""
    add(plain.path, key(1), executable(), written_ns=NOW)
    with Store(plain) as store:
        (group,) = sum_up(store, Grouping.RUN, Kind)
        assert (group.name, group.seconds, group.runs) == ("unknown", None, 0)
