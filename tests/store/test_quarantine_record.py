"""Records in quarantine are input: only what fits is read."""

import json
import time
from pathlib import Path

import pytest

from jcache.layout import Root
from jcache.store.quarantine import Quarantine
from jcache.store.quarantine_record import QuarantineRecord
from tests.helpers.entries import DAY, NOW
from tests.helpers.stores import finding


@pytest.fixture
def three(plain: Root, place: Quarantine) -> list[QuarantineRecord]:
    """The first two of one key."""
    return [place.take(finding(plain, number), NOW + i) for i, number in enumerate([1, 1, 2])]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"schema_version": 2}', '{"schema_version": 1, "id": 5}'])
def test_a_damaged_record_is_passed_over(
    plain: Root, place: Quarantine, three: list[QuarantineRecord], text: str
) -> None:
    """A damaged record is skipped in the list, and neither it nor its file is swept away."""
    path = plain.quarantine / f"{three[0].id}.json"
    path.write_text(text)
    assert place.records() == three[1:]
    place.sweep(time.time_ns() + DAY)
    assert path.exists() and path.with_suffix(".entry").exists()


def test_a_record_cannot_point_elsewhere(
    plain: Root, place: Quarantine, beyond: Path, three: list[QuarantineRecord]
) -> None:
    """Neither a record's id nor its file's name may lead out of the quarantine and the directory."""
    path = plain.quarantine / f"{three[0].id}.json"
    for name, value in (("file_name", "../beyond/precious"), ("id", "../../../beyond/x"), ("key", 7), ("kind", "x")):
        path.write_text(json.dumps(json.loads(path.read_text()) | {name: value}))
        assert place.records() == three[1:], name


def test_records_of_odd_values_are_passed_over(plain: Root, place: Quarantine) -> None:
    """A record with wrong types, or one that leads elsewhere, is skipped, and the others are read."""
    good, other = place.take(finding(plain), NOW), place.take(finding(plain, number=2), NOW)
    path = plain.quarantine / f"{other.id}.json"
    whole = json.loads(path.read_text())
    odd: dict[str, object] = {
        "quarantined_ns": "x", "bytes": None, "recency_ns": -1, "evidence": 5, "digest": [],
        "key": "../../victim/clock", "file_name": "../../victim/clock-cache", "id": "../x",
    }  # fmt: skip
    for name, value in odd.items():
        path.write_text(json.dumps(whole | {name: value}))
        assert place.records() == [good], name
