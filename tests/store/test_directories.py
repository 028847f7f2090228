"""Directories of a root are opened so that no link below it is followed."""

import os
from pathlib import Path

import pytest

from jcache.errors import CannotWrite
from jcache.layout import Kind, Root
from jcache.store import directories
from jcache.store.directories import Directories, compare, is_link, is_there, open_below, opened, path_of
from tests.helpers.entries import tree


def where(descriptor: int) -> Path:
    """Return the path that a descriptor leads to."""
    return Path(os.readlink(f"/proc/self/fd/{descriptor}"))


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_each_directory_of_a_root_is_opened(native: Root) -> None:
    """The directories of a root, its kinds and its state are opened, made only on request, and closed again."""
    before = open_files()
    for directory in (native.path, native.directory(Kind.EXECUTABLES)):
        with opened(native, directory) as descriptor:
            assert where(descriptor) == directory.resolve()
    for directory in (native.directory(Kind.TRACES), native.state, native.pins / "executables"):
        with pytest.raises(FileNotFoundError), opened(native, directory):
            pytest.fail("it is not there")
        with opened(native, directory, make=True) as descriptor:
            assert where(descriptor) == directory.resolve()
    assert open_files() <= before


@pytest.mark.parametrize("place", ["executables", ".jcache", ".jcache/pins"])
def test_links_below_a_root_are_refused(native: Root, beyond: Path, place: str) -> None:
    """A link in the place of the directory, or on the way to it, is refused, and the message names it."""
    link = native.path / place
    if link.is_dir():
        link.rmdir()
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(beyond)
    before, files = tree(beyond), open_files()
    for directory in (link, link / "below"):
        for make in (False, True):
            with pytest.raises(NotADirectoryError) as caught, opened(native, directory, make=make):
                pytest.fail("a link was followed")
            assert caught.value.strerror == f"{link.name} is a symbolic link, which is not followed"
    assert is_link(native, link) and not is_link(native, native.path)
    assert tree(beyond) == before and open_files() <= files


def test_what_is_no_directory_is_refused(native: Root) -> None:
    """A file in the place of a directory has another message than a link."""
    native.state.write_text("a file")
    with pytest.raises(NotADirectoryError, match="is no directory"), opened(native, native.pins, make=True):
        pytest.fail("it is no directory")
    assert not is_link(native, native.state)


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "../../etc"])
def test_names_that_lead_elsewhere_are_refused(native: Root, name: str) -> None:
    """A name that leads out of the directory is refused."""
    with pytest.raises(OSError, match="no name"):
        open_below(native.path, "executables", name)


@pytest.fixture(name="once", params=[True, False], ids=["command", "program"])
def once_fixture(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return whether this process, like a command's, follows the path of a root only once."""
    monkeypatch.setattr(directories, "_once", request.param)
    directories._resolved_once.cache_clear()
    return bool(request.param)


def test_a_root_that_is_a_link_is_followed(native: Root, tmp_path: Path, once: bool) -> None:
    """If the target of a root's link changes, a program uses the new one, and a command does not."""
    link = tmp_path / "link"
    link.symlink_to(native.path)
    root = Root(link, plain=False)
    with opened(root, root.directory(Kind.EXECUTABLES)):
        pass
    (tmp_path / "other" / "executables").mkdir(parents=True)
    link.unlink()
    link.symlink_to(tmp_path / "other")
    with opened(root, root.directory(Kind.EXECUTABLES)) as descriptor:
        there = native.path if once else tmp_path / "other"
        assert where(descriptor) == (there / "executables").resolve()


def test_a_root_that_is_replaced_by_a_link(native: Root, beyond: Path, once: bool) -> None:
    """A command does not follow it: it was a directory when it was first opened. A program goes by the path."""
    with opened(native, native.path):
        pass
    native.path.rename(native.path.with_name("moved"))
    native.path.symlink_to(beyond)
    if once:
        with pytest.raises(OSError), opened(native, native.path):
            pytest.fail("a link was followed")
    else:
        with opened(native, native.path) as descriptor:
            assert where(descriptor) == beyond.resolve()


def test_making_a_directory_is_no_change_of_the_entries(plain: Root) -> None:
    """The time of a plain JAX directory, by which its entries are known to be the same, stays."""
    os.utime(plain.path, ns=(5, 5))
    with opened(plain, plain.pins, make=True):
        pass
    assert plain.path.stat().st_mtime_ns == 5


def test_a_path_leads_to_what_was_opened(native: Root, beyond: Path) -> None:
    """A path of an open directory leads to it even if another takes its name, and the change can be found."""
    place = native.directory(Kind.EXECUTABLES)
    with opened(native, place) as descriptor:
        path = path_of(descriptor)
        assert path is not None
        place.rename(native.path / "moved")
        place.symlink_to(beyond)
        (path / "file").write_text("ours")
        with pytest.raises(CannotWrite, match="replaced by another directory"):
            compare(place, descriptor)
    assert (native.path / "moved" / "file").read_text() == "ours"


def test_without_such_paths_there_is_none(native: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system has no paths of open directories, there is none, and plain paths are compared."""
    monkeypatch.setattr(directories, "_HELD", "/dev/null")
    with opened(native, native.path) as descriptor:
        assert path_of(descriptor) is None


def test_a_path_is_compared_with_what_is_open(native: Root, beyond: Path) -> None:
    """The path by which an open directory is reached, and others."""
    with opened(native, native.path) as descriptor:
        assert path_of(descriptor) == Path(f"/proc/self/fd/{descriptor}")
        compare(native.path, descriptor)
        with pytest.raises(CannotWrite):
            compare(beyond, descriptor)
        assert is_there("executables", descriptor) and not is_there("other", descriptor)


def test_directories_stay_open_for_a_block(native: Root, beyond: Path) -> None:
    """The second time the same one is had, whatever its name leads to by then."""
    before = open_files()
    place = native.directory(Kind.EXECUTABLES)
    with Directories(native) as held:
        name, descriptor = held.of(place / "a-file")
        place.rename(native.path / "moved")
        place.symlink_to(beyond)
        assert name == "a-file" and held.descriptor(place) == descriptor
        assert where(descriptor) == (native.path / "moved").resolve()
    assert open_files() <= before
