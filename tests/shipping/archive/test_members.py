"""Members of an archive: each once, in the manifest's order, and read in part or not at all."""

import io

import pytest

from jcache.shipping.archive import ArchiveReader
from tests.helpers.archives import (
    XLA_FILE,
    sample,
)
from tests.shipping.archive.test_reader import first_name, packed, refusal


def test_members_can_be_passed_over_or_read_in_part() -> None:
    """Unread bytes of a member do not get into the next one, and a member that is over returns no bytes."""
    made = sample()
    reader = ArchiveReader(io.BytesIO(made.packed()))
    last = None
    for member in reader.members():
        assert last is None or last.read() == b""
        assert member.read(3) == made.contents[member.name][:3]
        last = member
    assert not reader.omitted


@pytest.mark.parametrize("name", [first_name(), "manifest.json", "trailer.json", f"xla/{XLA_FILE}"])
def test_members_twice_are_refused(name: str) -> None:
    """A second member of a name is never taken, right behind the first or later."""
    members = sample().members()
    position = next(at for at, (found, _) in enumerate(members) if found == name)
    for place in (position, len(members) - 1, len(members)):
        refusal(packed([*members[:place], members[position], *members[place:]]))


def test_members_that_lack_are_refused() -> None:
    """Every member in the manifest must be present, unless the trailer lists it as omitted."""
    members = sample().members()
    for position in range(len(members)):
        refusal(packed([*members[:position], *members[position + 1 :]]))
    assert "trailer.json" in refusal(packed([*members[:-1]]))


def test_members_out_of_order_are_refused() -> None:
    """The order is the manifest's."""
    members = sample().members()
    for position in range(len(members) - 1):
        swapped = [*members[:position], members[position + 1], members[position], *members[position + 2 :]]
        refusal(packed([*swapped]))
