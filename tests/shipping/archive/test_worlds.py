"""The worlds of an archive's traces and graphs, as lines of its manifest."""

import dataclasses

import pytest

from jcache.errors import BadArchive
from jcache.formats.envelope import read_header
from jcache.layout import Kind, Root
from jcache.runtime.worlds.comparisons import Comparisons, every_comparison
from jcache.runtime.worlds.world import World
from jcache.shipping.archive.manifest import Item, Manifest, WorldLine
from jcache.shipping.archive.manifest_codec import decode, encode
from jcache.shipping.archive.worlds import keep_lines, lines_of
from tests.helpers.entries import key
from tests.helpers.imports import content

KEY, OTHER = key(1, "mesh"), key(2, "mesh")
WORLD = World({"source a.py": "1", "source b.py": "2"})


def item(a_key: str, kind: Kind = Kind.GRAPHS) -> Item:
    """Return an entry of a manifest."""
    return Item(kind, a_key, 1, f"blake3:{'0' * 64}", 1, 1)


@pytest.fixture
def compared(native: Root) -> Root:
    """A root in which two graphs were compared."""
    for a_key in (KEY, OTHER):
        Comparisons(native, Kind.GRAPHS).add(a_key, read_header(content(Kind.GRAPHS, a_key)), WORLD)
    return native


def test_an_entry_takes_its_worlds_along(compared: Root, plain: Root) -> None:
    """Once in the archive and once in the other root, whatever is imported twice; other entries' stay behind."""
    lines = tuple(lines_of(compared, [item(KEY)]))
    assert len(lines) == 2 and not list(lines_of(compared, [item(KEY, Kind.EXECUTABLES), item(key(3, "mesh"))]))
    for _ in range(2):
        keep_lines(plain, lines, {KEY})
    (found,) = every_comparison(plain)
    assert found in list(every_comparison(compared))
    assert Comparisons(plain, Kind.GRAPHS).components(found.world) == WORLD.components


def test_only_lines_that_are_whole_and_about_an_entry_are_kept(compared: Root, plain: Root) -> None:
    """A world that has not the digest that it says, and a comparison of another entry, change nothing."""
    lines = list(lines_of(compared, [item(KEY)]))
    keep_lines(plain, lines, {OTHER})
    for old, new in (('"1"', '"9"'), (WORLD.digest, "0" * 32), ("{", "["), ("compared ", "compared x")):
        keep_lines(plain, [WorldLine(each.line.replace(old, new)) for each in lines], {KEY})
    assert not list(every_comparison(plain))


def test_a_manifest_has_the_lines_in_order(compared: Root) -> None:
    """It is written in one way only; without lines it is as an older jcache wrote it."""
    manifest = Manifest(jcache="1", root="/r", directory="/r", items=(item(KEY),))
    whole = dataclasses.replace(manifest, worlds=tuple(lines_of(compared, [item(KEY)])))
    assert decode(encode(whole)) == whole and decode(encode(manifest)) == manifest
    assert b"worlds" not in encode(manifest)
    first, second = whole.worlds
    with pytest.raises(BadArchive, match="out of order"):
        decode(encode(whole).replace(first.line[:12].encode(), b"zz" + first.line[2:12].encode(), 1))
    with pytest.raises(BadArchive):
        decode(encode(manifest).replace(b'"solid":false}', b'"solid":false,"worlds":[\n]}'))
    assert first < second
