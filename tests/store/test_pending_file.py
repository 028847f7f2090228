"""A new file that nobody sees until it is whole."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from jcache.store.pending_file import PendingFile


@pytest.fixture(params=[True, False], ids=["without a name", "with a temporary name"])
def directory(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A directory whose system knows files without names, or does not."""
    if not request.param:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    elif not hasattr(os, "O_TMPFILE"):
        pytest.skip("only Linux has files without names")
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


@pytest.mark.parametrize("replace", [False, True])
def test_it_is_seen_as_a_whole(directory: int, tmp_path: Path, replace: bool) -> None:
    """It has no visible name before it is published, and all of its bytes after."""
    file = PendingFile(directory)
    file.write(b"first ")
    file.write(b"second")
    assert [name for name in os.listdir(tmp_path) if not name.startswith(".")] == []
    file.publish("name", replace=replace)
    assert os.listdir(tmp_path) == ["name"] and (tmp_path / "name").read_bytes() == b"first second"


def test_a_name_that_is_taken_is_replaced_only_if_told(directory: int, tmp_path: Path) -> None:
    """The file that is there stays whole, and nothing is left of the other one."""
    (tmp_path / "name").write_bytes(b"there")
    file = PendingFile(directory)
    file.write(b"new")
    with pytest.raises(FileExistsError):
        file.publish("name")
    assert (tmp_path / "name").read_bytes() == b"there"
    file.publish("name", replace=True)
    assert os.listdir(tmp_path) == ["name"] and (tmp_path / "name").read_bytes() == b"new"


def test_what_is_discarded_leaves_nothing(directory: int, tmp_path: Path) -> None:
    """Discarding twice is as good as once."""
    file = PendingFile(directory)
    file.write(b"new")
    for _ in range(2):
        file.discard()
    assert os.listdir(tmp_path) == []
