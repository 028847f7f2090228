"""The root that an import goes into."""

import io
from pathlib import Path

import pytest

from jcache.errors import NoCacheHere
from jcache.layout import Root
from jcache.shipping.archive import open_plain_tar
from jcache.shipping.importer import target_root
from jcache.shipping.importer.target_root import future_root, layout_by_first_entry
from jcache.store.roots import create_root
from tests.helpers.imports import tar_of
from tests.shipping.importer.test_tar_import import FILES


def test_future_root(tmp_path: Path) -> None:
    """A root that is not there yet can be planned for; other people's files are no place for one."""
    assert future_root(tmp_path / "new", plain=True) == Root(tmp_path / "new", plain=True)
    (tmp_path / "empty").mkdir()
    assert future_root(tmp_path / "empty", plain=False).path == tmp_path / "empty"
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file"):
        with pytest.raises(NoCacheHere):
            future_root(path, plain=False)


def test_what_stands_before_the_first_executable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Members are kept in memory until the layout of the root is decided, and all of them are yielded again."""
    tar = tar_of({f"cache/{i}": b"" for i in range(9)} | FILES)
    vacant, made = Root(tmp_path / "vacant", plain=False), create_root(tmp_path / "made")
    for root, most, kept in ((vacant, 64 << 20, 12), (vacant, 5 << 10, 6), (made, 64 << 20, 0)):
        monkeypatch.setattr(target_root, "_MAX_HELD_BYTES", most)
        members = open_plain_tar(io.BytesIO(tar)).members()
        chosen, again = layout_by_first_entry(members, root)
        assert chosen == root and len(list(members)) == len(FILES) + 9 - kept
        members = open_plain_tar(io.BytesIO(tar)).members()
        chosen, again = layout_by_first_entry(members, root)
        assert [(one.path, one.read(1 << 20)) for one in again] == [
            *((f"cache/{i}", b"") for i in range(9)), *FILES.items(),
        ]  # fmt: skip
