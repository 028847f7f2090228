"""Single files: whole or not there, and never anything but regular ones."""

import errno
import os
import resource
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from jcache.errors import CannotWrite
from jcache.store import birth_time, file_tree, files
from jcache.store.sidecar import read_recency, write_recency
from tests.helpers.entries import tree
from tests.helpers.waiting import tick


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 128 KiB."""
    path = tmp_path / "small"
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(path)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system is not allowed here")
    yield path
    subprocess.run(["umount", path], check=True)


def odd(what: str, path: Path, beyond: Path) -> Path:
    """Something at the path that is no regular file."""
    match what:
        case "directory":
            path.mkdir()
        case "link":
            path.symlink_to(beyond / "precious")
        case "dangling link":
            path.symlink_to(beyond / "nothing")
        case "FIFO":
            os.mkfifo(path)
        case "socket":
            with socket.socket(socket.AF_UNIX) as server:
                os.chdir(path.parent)  # the path of a socket may not be long
                server.bind(path.name)
    return path


ODD = pytest.mark.parametrize("what", ["directory", "link", "dangling link", "FIFO", "socket"])


@given(st.binary(max_size=10_000))
def test_what_is_published_is_read(tmp_path: Path, data: bytes) -> None:
    """A published file holds the data, whatever was there before, and nothing lies beside it."""
    directory = tmp_path / "d"
    directory.mkdir(exist_ok=True)
    files.publish(directory / "f", data)
    assert files.read(directory / "f") == data
    assert files.read(directory / "f", 7) == data[:7]
    assert os.listdir(directory) == ["f"]


def test_a_reader_sees_a_whole_file(tmp_path: Path) -> None:
    """While a file is published again and again, every reader gets all of one version."""
    path, done = tmp_path / "f", threading.Event()
    files.publish(path, b"0" * 300_000)

    def publish() -> None:
        for i in range(200):
            files.publish(path, b"%d" % (i % 10) * 300_000)
        done.set()

    writer = threading.Thread(target=publish)
    writer.start()
    while not done.is_set():
        data = files.read(path)
        assert data == data[:1] * 300_000
    writer.join()


def test_a_full_disk_leaves_nothing_half(small_disk: Path) -> None:
    """Where the data does not fit, the old file is whole, no temporary one is left, and the reason is said."""
    files.publish(small_disk / "f", b"old")
    with pytest.raises(CannotWrite, match="Cannot keep it: no space left"), files.refusal("keep it"):
        files.publish(small_disk / "f", b"x" * 500_000)
    assert os.listdir(small_disk) == ["f"]
    assert files.read(small_disk / "f") == b"old"


def test_a_write_that_is_cut_short(tmp_path: Path) -> None:
    """What the system writes a part of and then refuses is no file, and no temporary one is left."""
    _, hard = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            files.publish(tmp_path / "f", bytes(3 << 20))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert os.listdir(tmp_path) == []


def test_what_cannot_be_published_leaves_nothing(tmp_path: Path) -> None:
    """A directory in the place of the file is an error, and the temporary file is gone."""
    (tmp_path / "f").mkdir()
    with pytest.raises(OSError):
        files.publish(tmp_path / "f", b"x")
    assert os.listdir(tmp_path) == ["f"]


def test_other_exceptions_pass() -> None:
    """Only what the system refuses becomes `CannotWrite`."""
    with pytest.raises(ZeroDivisionError), files.refusal("divide"):
        _ = 1 // 0


@ODD
def test_only_regular_files_are_read(tmp_path: Path, beyond: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anything else is refused at once, not followed, not waited for, and leaves no descriptor open."""
    monkeypatch.chdir(tmp_path)
    path = odd(what, tmp_path / "f", beyond)
    with pytest.raises(OSError) as caught:
        files.read(path)
    assert caught.value.errno in (errno.EINVAL, errno.ELOOP, errno.ENXIO)
    assert read_recency(path) is None
    assert not open_below(tmp_path)


def open_below(directory: Path) -> list[str]:
    """Return the files below a directory that this process has open, where the system tells."""
    opened = []
    for descriptor in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []:
        with suppress(OSError):  # the descriptor of the listing itself
            opened.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return [path for path in opened if path.startswith(f"{directory}/")]


@ODD
def test_only_regular_files_are_removed(
    tmp_path: Path, beyond: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link, directory, FIFO or socket stays where it is."""
    monkeypatch.chdir(tmp_path)
    path = odd(what, tmp_path / "f", beyond)
    with pytest.raises(OSError, match="not a regular file"):
        files.remove(path)
    assert os.path.lexists(path)


@ODD
def test_only_regular_files_become_sidecars(
    tmp_path: Path, beyond: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recency is not written through a link nor into a FIFO, which would wait for a reader."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError):
        write_recency(odd(what, tmp_path / "f", beyond), 1)


def test_removing(tmp_path: Path) -> None:
    """Removing tells the bytes, and None for what somebody else has removed."""
    (tmp_path / "f").write_bytes(b"12345")
    (tmp_path / "empty").touch()
    assert files.remove(tmp_path / "f") == 5
    assert files.remove(tmp_path / "empty") == 0
    assert files.remove(tmp_path / "f") is None


@given(st.integers(0, 2**63 - 1))
def test_a_recency_reads_back(tmp_path: Path, time_ns: int) -> None:
    """A sidecar is 8 bytes, little-endian, as JAX reads and writes it, whatever was in it before."""
    path = tmp_path / "a"
    path.write_bytes(b"longer than eight bytes")
    write_recency(path, time_ns)
    assert path.read_bytes() == time_ns.to_bytes(8, "little")
    assert read_recency(path) == time_ns


@pytest.mark.parametrize(("time_ns", "kept"), [(-5, 0), (2**70, 2**63 - 1)])
def test_times_beyond_a_sidecar(tmp_path: Path, time_ns: int, kept: int) -> None:
    """A file from before 1970 or from long after 2262 gets the nearest time that a sidecar keeps."""
    write_recency(tmp_path / "a", time_ns)
    assert read_recency(tmp_path / "a") == kept


@pytest.mark.parametrize("data", [b"", b"1234567", b"123456789", b"12345678\0", b"\xff" * 8])
def test_a_damaged_sidecar_says_nothing(tmp_path: Path, data: bytes) -> None:
    """Too short, too long, or in a year that cannot be."""
    (tmp_path / "a").write_bytes(data)
    assert read_recency(tmp_path / "a") is None
    assert read_recency(tmp_path / "missing") is None


def test_writing_a_recency_leaves_the_directory_unchanged(tmp_path: Path) -> None:
    """A hit is no change of the names."""
    write_recency(tmp_path / "a", 1)
    os.utime(tmp_path, ns=(0, 0))
    write_recency(tmp_path / "a", 2)
    assert os.stat(tmp_path).st_mtime_ns == 0


def test_the_size_of_a_tree(tmp_path: Path, beyond: Path) -> None:
    """Files below count, links count as themselves, and what is not there is nothing."""
    (tmp_path / "t" / "a" / "b").mkdir(parents=True)
    (tmp_path / "t" / "a" / "b" / "f").write_bytes(b"12345")
    (tmp_path / "t" / "g").write_bytes(b"123")
    (tmp_path / "t" / "link").symlink_to(beyond)
    assert file_tree.tree_size(tmp_path / "t") == (3, 8 + len(str(beyond)))
    assert file_tree.tree_size(tmp_path / "t" / "g") == (1, 3)
    assert file_tree.tree_size(tmp_path / "nowhere") == (0, 0)


def test_looking_changes_nothing(beyond: Path) -> None:
    """Reading and measuring leave every file as it was."""
    before = tree(beyond)
    files.read(beyond / "precious")
    file_tree.tree_size(beyond)
    assert tree(beyond) == before


@pytest.fixture
def tells_births(tmp_path: Path) -> None:
    """Skips the test where the file system does not tell when files were made."""
    if birth_time.born_ns(tmp_path) is None:
        pytest.skip("this file system does not tell when files were made")


@pytest.mark.usefixtures("tells_births")
@pytest.mark.parametrize("make", [Path.touch, Path.mkdir], ids=["file", "directory"])
def test_birth_is_when_a_file_was_made(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """To a tick of the kernel's clock, and whatever is done to the file's times or bytes after that."""
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
    """It is not followed."""
    tick()
    (tmp_path / "link").symlink_to(beyond)
    linked, target = birth_time.born_ns(tmp_path / "link"), birth_time.born_ns(beyond)
    assert linked is not None and target is not None and linked > target


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere lstat tells it, and raises")
def test_what_is_not_there_was_not_born(tmp_path: Path) -> None:
    """Neither is what the system does not tell of."""
    assert birth_time.born_ns(tmp_path / "none") is None
    assert birth_time.born_ns(Path("/proc/self/status")) is None


@pytest.mark.parametrize("text", [b"", b"01234567", b"a thesis" * 100])
def test_what_is_written_in_place_has_no_other_name(tmp_path: Path, text: bytes) -> None:
    """A file that has names elsewhere stays as it is there; under its name here there is a new one."""
    for name in ("sidecar", "count"):
        (tmp_path / f"{name} elsewhere").write_bytes(text)
        os.link(tmp_path / f"{name} elsewhere", tmp_path / name)
    (tmp_path / "count").chmod(0o640)
    elsewhere = [tmp_path / "sidecar elsewhere", tmp_path / "count elsewhere"]
    before = [(path.read_bytes(), path.stat().st_mtime_ns) for path in elsewhere]
    directory = os.open(tmp_path, os.O_RDONLY)
    try:
        for _ in range(2):
            write_recency("sidecar", 7, directory=directory)
        assert files.append("count", b".", directory=directory, limit=5) == len(text[:5]) + 1
        assert files.append("count", b".", directory=directory, limit=5) == len(text[:5]) + 2
    finally:
        os.close(directory)
    assert [(path.read_bytes(), path.stat().st_mtime_ns) for path in elsewhere] == before
    assert read_recency(tmp_path / "sidecar") == 7
    assert (tmp_path / "count").read_bytes() == text[:5] + b".."
    assert (tmp_path / "count").stat().st_mode & 0o777 == 0o640


def test_what_is_no_file_is_no_sidecar(tmp_path: Path) -> None:
    """A sidecar's name on a directory or on a device is left alone."""
    (tmp_path / "directory").mkdir()
    (tmp_path / "device").symlink_to(os.devnull)
    for name in ("directory", "device"):
        with pytest.raises(OSError, match=r"directory|symbolic links"):
            write_recency(tmp_path / name, 7)
        assert os.path.lexists(tmp_path / name)
