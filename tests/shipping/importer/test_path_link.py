"""A link is made at the path that keys contain, and never in the place of anything else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jcache.errors import CannotWrite
from jcache.shipping.importer.path_link import blocking_path, make_link, unwritable_directory
from tests.helpers.entries import mounted_read_only, tree


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """Return the present directory of the executables."""
    path = tmp_path / "new"
    path.mkdir()
    (path / "entry").write_text("an executable")
    return path


def test_a_link_is_made(tmp_path: Path, new: Path) -> None:
    """The old path leads to the directory, and the directories above it are made."""
    old = tmp_path / "home" / "someone" / "cache"
    assert make_link(old, new)
    assert old.is_symlink() and (old / "entry").read_text() == "an executable"
    assert os.path.isabs(os.readlink(old))


def test_once_is_enough(tmp_path: Path, new: Path) -> None:
    """A second call does nothing, as does one whose old path leads there through other links."""
    old, other = tmp_path / "old", tmp_path / "other"
    assert make_link(old, new)
    assert not make_link(old, new)
    other.symlink_to("old")
    before = tree(tmp_path)
    assert not make_link(other, new) and not make_link(new, new)
    assert tree(tmp_path) == before


def test_a_directory_that_is_to_come(tmp_path: Path) -> None:
    """The directory need not be there yet."""
    assert make_link(tmp_path / "old", tmp_path / "new")
    assert not make_link(tmp_path / "old", tmp_path / "new")
    (tmp_path / "new").mkdir()
    assert (tmp_path / "old").is_dir()


def test_what_is_there_stays(tmp_path: Path, new: Path) -> None:
    """If anything else exists at the path, the link is refused in a sentence that names it, and nothing changes."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("x")
    (tmp_path / "file").write_text("x")
    (tmp_path / "elsewhere").symlink_to(tmp_path / "full")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    before = tree(tmp_path)
    found = {
        "empty": "an empty directory",
        "full": "a directory with something in it",
        "file": "a file",
        "elsewhere": f"a link to {tmp_path / 'full'}",
        "dangling": f"a link to {tmp_path / 'nowhere'}",
    }
    for name, what in found.items():
        with pytest.raises(CannotWrite) as refused:
            make_link(tmp_path / name, new)
        expected = f"Cannot link {tmp_path / name} to {new}: {what} is there; move it away first."
        assert str(refused.value) == expected
    assert tree(tmp_path) == before


def test_below_a_file(tmp_path: Path, new: Path) -> None:
    """A parent that is a file is refused, and so is one that is a link to nothing."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    before = tree(tmp_path)
    for name, what in {"file": "a file", "dangling": f"a link to {tmp_path / 'nowhere'}"}.items():
        with pytest.raises(CannotWrite, match=rf"^Cannot link .*: {tmp_path / name} is {what}; move it away first"):
            make_link(tmp_path / name / "below" / "cache", new)
        assert blocking_path(tmp_path / name / "below" / "cache") == tmp_path / name
    assert blocking_path(tmp_path / "nowhere" / "cache") is None
    assert tree(tmp_path) == before


def test_a_loop(tmp_path: Path, new: Path) -> None:
    """A directory is never linked to a directory inside it, nor a path below itself."""
    (new / "executables").mkdir()
    before = tree(tmp_path)
    with pytest.raises(CannotWrite, match="which lies in it"):
        make_link(new, new / "executables")
    assert tree(tmp_path) == before


@pytest.mark.parametrize("path", ["cache", "~/cache", "gs:/bucket/cache", "", "/tmp/a\0b"])
def test_no_absolute_path(new: Path, path: str) -> None:
    """A relative path is refused, since programs may have another working directory."""
    with pytest.raises(CannotWrite, match="only an absolute path"):
        make_link(path, new)


def test_a_place_that_is_read_only(tmp_path: Path, new: Path) -> None:
    """On a read-only file system, the link is refused in one sentence."""
    place = tmp_path / "read-only"
    place.mkdir()
    with (
        mounted_read_only(place),
        pytest.raises(CannotWrite, match="read-only is read-only, or you may not write in it"),
    ):
        make_link(place / "home" / "cache", new)
    with mounted_read_only(place):
        assert unwritable_directory(place / "home" / "cache") == place
    assert unwritable_directory(place / "home" / "cache") is None


def test_a_name_that_is_too_long_leaves_nothing(tmp_path: Path, new: Path) -> None:
    """If the link itself cannot be made, the new directories above it are removed."""
    before = tree(tmp_path)
    with pytest.raises(CannotWrite, match="the name is too long"):
        make_link(tmp_path / "one" / "two" / ("x" * 300), new)
    assert tree(tmp_path) == before


def test_several_at_once(tmp_path: Path, new: Path) -> None:
    """If several processes make the same link at once, one makes it and none fails."""
    old = tmp_path / "a" / "b" / "old"
    program = (
        "import sys; from jcache.shipping.importer.path_link import make_link\n"
        "sys.stdin.read(); print(make_link(*sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, str(old), str(new)]
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    answers = [process.communicate()[0] for process in running]
    assert sorted(answers) == ["False\n"] * 3 + ["True\n"]
