"""The steps that imports of archives and of tars have in common."""

import pytest

from jcache.cli.commands.import_common import _manifest_of
from jcache.layout import Kind
from jcache.shipping.archive.manifest import Item, Manifest
from jcache.shipping.importer.outcome import EntryId
from tests.helpers.entries import NOW, key


class _Unsearched(list[EntryId]):
    """A list that may only be read from its beginning to its end."""

    def __contains__(self, _: object) -> bool:
        return pytest.fail("the list was searched")


def test_entries_are_not_searched_in_a_list_for_each_item() -> None:
    """The manifest of what is in the root is made in time that grows with the entries, and not with their square."""
    items = tuple(Item(Kind.EXECUTABLES, key(i), 1, "", NOW, NOW) for i in range(4))
    manifest = Manifest(jcache="", root="", directory="", items=items)
    there = _Unsearched((Kind.EXECUTABLES, key(i)) for i in (1, 3))
    assert _manifest_of(manifest, there).items == (items[1], items[3])
