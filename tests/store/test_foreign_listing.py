"""The entries of another program's directory are listed."""

import os
from pathlib import Path

from jcache.entry import Neighbour
from jcache.layout import FileKind, Kind, Root
from jcache.store.listing import list_root
from tests.helpers.entries import NOW
from tests.store.foreign.test_foreign import ADAPTER

NOTES = ["00000001", "deadbeef"]


def test_entries_and_other_files(tmp_path: Path) -> None:
    """Files with the adapter's names are entries, by size and time; others are neighbours, and links are neither."""
    notes = tmp_path / "notes"
    notes.mkdir()
    for number, name in enumerate(NOTES, 1):
        (notes / f"{name}.note").write_bytes(b"x" * number)
        os.utime(notes / f"{name}.note", ns=(NOW, NOW))
    (notes / "0badcafe.note").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "shopping.txt").write_text("milk")
    root = Root(tmp_path, plain=True, adapter=ADAPTER, state_path=tmp_path / "state")
    listing = list_root(root, Kind.GRAPHS)
    assert sorted((entry.key, entry.bytes, entry.created_ns, entry.sidecar) for entry in listing) == [
        (f"note-{name}", number, NOW, False) for number, name in enumerate(NOTES, 1)
    ]
    assert sorted(listing.neighbours) == [
        Neighbour("notes/0badcafe.note", FileKind.UNKNOWN, 1, 0),
        Neighbour("shopping.txt", FileKind.UNKNOWN, 1, 4),
    ]
    assert len(list_root(root, Kind.EXECUTABLES)) == 0
