"""In which worlds entries were compared, as a root remembers it."""

from pathlib import Path
from typing import Any

import pytest

from jcache.formats.envelope import EnvelopeHeader, read_header
from jcache.layout import Kind, Root
from jcache.runtime.worlds import comparisons
from jcache.runtime.worlds.comparisons import Compared, Comparisons, parse, variant_key
from jcache.runtime.worlds.world import World
from jcache.store.lineage import version_of
from jcache.store.roots import choose_path, create_root
from tests.helpers.entries import key
from tests.helpers.imports import content

KEY = key(1, "mesh")
WORLD, OTHER = World({"source a.py": "1"}), World({"source a.py": "2"})


@pytest.fixture
def header() -> EnvelopeHeader:
    """The header of an entry."""
    return read_header(content(Kind.GRAPHS, KEY))


def of_graphs(root: Root, *shared: Root) -> Comparisons:
    """Return the comparisons of graphs."""
    return Comparisons(root, Kind.GRAPHS, shared)


def test_a_comparison_is_found_by_its_key_in_a_later_process(native: Root, header: EnvelopeHeader) -> None:
    """With the components of the world; of another key or kind there is none."""
    of_graphs(native).add(KEY, header, WORLD, 2)
    (found,) = of_graphs(native).of(KEY)
    assert (found.world, found.left, found.text, found.version) == (WORLD.digest, 2, KEY, version_of(header))
    assert of_graphs(native).components(found.world) == WORLD.components
    assert not of_graphs(native).of(key(2, "mesh")) and not Comparisons(native, Kind.TRACES).of(KEY)
    assert of_graphs(native).components(OTHER.digest) is None


def test_a_refusal_has_its_reason_in_one_line(native: Root) -> None:
    """Whatever characters the reason has."""
    of_graphs(native).refuse(KEY, WORLD, "it was `a\n b`")
    (found,) = of_graphs(native).of(KEY)
    assert found.is_refusal and found.text == "it was `a b`"


def test_read_only_roots_are_read_first_and_never_written(native: Root, tmp_path: Path, header: EnvelopeHeader) -> None:
    """The latest comparison of one's own root counts."""
    shared = create_root(tmp_path / "shared")
    of_graphs(shared).add(KEY, header, WORLD)
    before = sorted((tmp_path / "shared").rglob("*"))
    of_graphs(native, shared).add(KEY, header, OTHER)
    assert [each.world for each in of_graphs(native, shared).of(KEY)] == [WORLD.digest, OTHER.digest]
    assert sorted((tmp_path / "shared").rglob("*")) == before


def test_where_the_root_cannot_be_written_the_users_cache_has_them(
    tmp_path: Path, header: EnvelopeHeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are found again, for this root alone; nothing is put where the default root is."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "file").touch()
    nowhere, other = Root(tmp_path / "file", plain=False), Root(tmp_path / "other", plain=False)
    of_graphs(nowhere).add(KEY, header, WORLD)
    assert len(of_graphs(nowhere).of(KEY)) == 1 and not of_graphs(other).of(KEY)
    assert of_graphs(nowhere).components(WORLD.digest) == WORLD.components
    assert (tmp_path / "cache").is_dir() and not choose_path(None, {}).exists()


def test_no_damage_of_a_file_serves_anything(native: Root, header: EnvelopeHeader) -> None:
    """Each bit of a line counts; a line that is torn is left out, and the others are read."""
    of_graphs(native).add(KEY, header, WORLD)
    (lines,) = native.worlds.glob("keys-*")
    whole = lines.read_bytes()
    for place in range(0, len(whole) - 1, 7):
        lines.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :] + whole)
        assert [each.line() for each in of_graphs(native).of(KEY)] == [whole.decode().strip()]
    (components,) = native.worlds.glob("world-*")
    components.write_bytes(components.read_bytes().replace(b"a.py", b"b.py"))
    assert of_graphs(native).components(WORLD.digest) is None


def test_a_file_that_grows_keeps_the_latest_comparisons(
    native: Root, header: EnvelopeHeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each key and world the last one, and of each key at most 16."""
    monkeypatch.setattr(comparisons, "_LARGEST", 4_000)
    worlds = [World({"arguments": str(number)}) for number in range(40)]
    for world in worlds:
        of_graphs(native).add(KEY, header, world)
    found = of_graphs(native).of(KEY)
    assert found[-1].world == worlds[-1].digest and len(found) < 40
    (lines,) = native.worlds.glob("keys-*")
    assert lines.stat().st_size <= 4_000


def test_a_line_is_read_as_it_was_written() -> None:
    """And nothing else is a line."""
    one = Compared("a" * 32, "b" * 32, 1, "17", "mesh with blanks")
    assert parse(one.line()) == one
    assert parse("") is None and parse(one.line()[:-1]) is None and parse("x " + one.line()) is None


@pytest.mark.parametrize("field", ["of", "world", "left", "version"])
def test_a_line_that_says_something_else_is_no_comparison(field: str) -> None:
    """An archive may have any line with the right checksum: no field of it becomes the name of a file, or an error."""
    one = Compared("a" * 32, "b" * 32, 1, "17", "mesh")
    wrong: list[Any] = ["", " "] if field == "version" else ["/../x", "", "x", "-2"]
    for value in wrong:
        assert parse(one._replace(**{field: value}).line()) is None


def test_entries_of_other_worlds_have_keys_of_their_own() -> None:
    """One for each content, with the name of the call's own."""
    assert variant_key(KEY, "1") != variant_key(KEY, "2") and variant_key(KEY, "1").startswith("mesh-")
