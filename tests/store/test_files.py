"""Single files: whole or not there, and never anything but regular ones."""

import errno
import os
import resource
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from jcache.errors import CannotWrite
from jcache.store import file_tree, files
from jcache.store.sidecar import read_recency, write_recency
from tests.helpers.entries import tree
from tests.helpers.odd_files import ODD, odd


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
    """While a file is published again and again, every reader gets one complete version."""
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
    """If the data does not fit, the old file is complete, no temporary file is left, and the error has the reason."""
    files.publish(small_disk / "f", b"old")
    with pytest.raises(CannotWrite, match="Cannot keep it: no space left"), files.refusal("keep it"):
        files.publish(small_disk / "f", b"x" * 500_000)
    assert os.listdir(small_disk) == ["f"]
    assert files.read(small_disk / "f") == b"old"


def test_a_write_that_is_cut_short(tmp_path: Path) -> None:
    """A write that the system cuts short makes no file and leaves no temporary one."""
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
    """Only errors of the system become `CannotWrite`."""
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


def test_removing(tmp_path: Path) -> None:
    """Removing returns the bytes, or None if the file is already gone."""
    (tmp_path / "f").write_bytes(b"12345")
    (tmp_path / "empty").touch()
    assert files.remove(tmp_path / "f") == 5
    assert files.remove(tmp_path / "empty") == 0
    assert files.remove(tmp_path / "f") is None


def test_looking_changes_nothing(beyond: Path) -> None:
    """Reading and measuring leave every file as it was."""
    before = tree(beyond)
    files.read(beyond / "precious")
    file_tree.tree_size(beyond)
    assert tree(beyond) == before


@pytest.mark.parametrize("text", [b"", b"01234567", b"a thesis" * 100])
def test_what_is_written_in_place_has_no_other_name(tmp_path: Path, text: bytes) -> None:
    """A file with other names is not changed under these: its name here gets a new file."""
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
