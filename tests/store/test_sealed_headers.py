"""The headers of the latest traces or graphs of a function."""

import os

from jcache.formats.envelope import Codec, seal
from jcache.layout import Kind, Root
from jcache.store.sealed_headers import latest_headers
from tests.helpers.entries import NOW, key


def test_the_latest_entries_of_a_name_are_read(native: Root) -> None:
    """The latest first, up to a limit; other names and damaged entries are left out; without a directory it is none."""
    assert list(latest_headers(native, Kind.GRAPHS, "mesh", 9)) == []
    native.directory(Kind.GRAPHS).mkdir()
    for number, name in enumerate(["mesh", "other", "mesh", "mesh", "mesh"]):
        data = seal(
            b"payload", kind=Kind.GRAPHS, name=name, key=key(number, name), build_seconds=1.0, created_ns=NOW,
            key_parts={}, codec=Codec.NONE,
        )  # fmt: skip
        path = native.place(Kind.GRAPHS, key(number, name))
        path.write_bytes(b"damaged" if number == 2 else data)
        os.utime(path, ns=(NOW + number, NOW + number))
    found = [header.key for header in latest_headers(native, Kind.GRAPHS, "mesh", 3)]
    assert found == [key(4, "mesh"), key(3, "mesh")]
    assert len(list(latest_headers(native, Kind.GRAPHS, "mesh", 9))) == 3
