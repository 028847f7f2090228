"""Files of XLA's sub-caches that are imported."""

from pathlib import Path

from jcache.layout import AUTOTUNE_NAME, Kind
from jcache.shipping.importer.outcome import ImportOutcome
from jcache.store.roots import create_root
from tests.helpers.imports import packed, populated, unpacked


def test_neighbours(tmp_path: Path) -> None:
    """XLA's files that differ stay unless they are to be replaced."""
    source, target = populated(tmp_path / "a"), create_root(tmp_path / "b")
    archive = packed(source, xla=True)
    name = f"{AUTOTUNE_NAME}/ab/some.pb"
    place = target.directory(Kind.EXECUTABLES) / name
    place.parent.mkdir(parents=True)
    place.write_bytes(b"other")
    assert unpacked(archive, target).neighbours == {name: ImportOutcome.DIFFERENT}
    assert place.read_bytes() == b"other"
    assert unpacked(archive, target, replace=True).neighbours == {name: ImportOutcome.REPLACED}
    assert place.read_bytes() == b"tuned"
