"""Findings as values: their remedies, and the stamp of a file that was checked."""

import os
from pathlib import Path

import pytest

from jcache.findings import SIDECARS, Damage, Finding, Remedy, Stamp


@pytest.mark.parametrize("damage", Damage)
def test_every_damage_has_a_remedy(damage: Damage) -> None:
    """What may be another's, or is no damage, is left to people; a missing sidecar is made; entries are set aside."""
    remedy = Finding(damage, Path("x"), "It is.").remedy
    assert (remedy is Remedy.MAKE_SIDECAR) == (damage in SIDECARS)
    if damage in {Damage.UNREADABLE, Damage.OWNER, Damage.WRITABLE, Damage.PINS, Damage.LEGACY, Damage.BLOCKING}:
        assert remedy is Remedy.BY_HAND
    if damage in {Damage.TORN, Damage.CHANGED, Damage.SEAL, Damage.CRASHES, Damage.CODE}:
        assert remedy is Remedy.QUARANTINE


def test_a_stamp_changes_with_the_file(tmp_path: Path) -> None:
    """Another size, another time or another file of the name has another stamp."""
    path, other = tmp_path / "entry", tmp_path / "other"
    path.write_bytes(b"abc")
    other.write_bytes(b"abc")
    first = Stamp.of(path.stat())
    assert Stamp.of(path.stat()) == first
    os.utime(path, ns=(1, 1))
    assert Stamp.of(path.stat()) != first
    os.utime(other, ns=(1, 1))
    before = Stamp.of(path.stat())
    other.replace(path)
    assert Stamp.of(path.stat()) != before
