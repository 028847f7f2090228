"""The file system tells when a file was made."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jcache.store import birth_time
from tests.helpers.waiting import tick


@pytest.fixture
def tells_births(tmp_path: Path) -> None:
    """Skip the test if the file system does not tell when files were made."""
    if birth_time.born_ns(tmp_path) is None:
        pytest.skip("this file system does not tell when files were made")


@pytest.mark.usefixtures("tells_births")
@pytest.mark.parametrize("make", [Path.touch, Path.mkdir], ids=["file", "directory"])
def test_birth_is_when_a_file_was_made(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """The birth of a file is exact to a tick of the kernel's clock, whatever happens to its times or bytes."""
    path = tmp_path / "größe"
    (tmp_path / "before").touch()
    make(path)
    (tmp_path / "after").touch()
    born = birth_time.born_ns(path)
    assert born is not None
    assert os.stat(tmp_path / "before").st_mtime_ns <= born <= os.stat(tmp_path / "after").st_mtime_ns
    os.utime(path, ns=(5, 5))
    path.chmod(0o700)
    if path.is_file():
        path.write_bytes(b"other bytes")
    moved = path.rename(tmp_path / "moved")
    assert birth_time.born_ns(moved) == born


@pytest.mark.usefixtures("tells_births")
def test_a_new_file_is_born_anew(tmp_path: Path) -> None:
    """A copy, and a file written again after removal, are younger than the file before them, whatever its times."""
    path = tmp_path / "f"
    path.write_bytes(b"x")
    born = [birth_time.born_ns(path)]
    for _ in range(2):
        tick()
        copy = shutil.copy2(path, tmp_path / "copy")
        path.unlink()
        os.rename(copy, path)
        born.append(birth_time.born_ns(path))
    assert None not in born and born == sorted(set(born), key=lambda ns: ns or 0)


@pytest.mark.usefixtures("tells_births")
def test_a_link_has_a_birth_of_its_own(tmp_path: Path, beyond: Path) -> None:
    """A link's birth is its own."""
    tick()
    (tmp_path / "link").symlink_to(beyond)
    linked, target = birth_time.born_ns(tmp_path / "link"), birth_time.born_ns(beyond)
    assert linked is not None and target is not None and linked > target


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere lstat tells it, and raises")
def test_what_is_not_there_was_not_born(tmp_path: Path) -> None:
    """A missing file, or one of an unknown birth, has none."""
    assert birth_time.born_ns(tmp_path / "none") is None
    assert birth_time.born_ns(Path("/proc/self/status")) is None
