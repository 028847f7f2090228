"""What is made of each thing that a block reads or does."""

import atexit
import mmap
import os
import pickle
import shutil
import socket
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from jcache.fingerprint.io.digests import now
from jcache.fingerprint.io.reads import Reads
from tests.helpers.reads import of, opened, reads_of

READING: Mapping[str, Callable[[Path], object]] = {
    "open": lambda path: opened(str(path)),
    "text": lambda path: opened(path, "r"),
    "pathlib": lambda path: path.read_text(),
    "os.open": lambda path: os.close(os.open(path, os.O_RDONLY)),
    "bytes": lambda path: opened(os.fsencode(path)),
    "pickle": lambda path: pickle.loads(path.read_bytes()),
    "exec": lambda path: exec(compile(path.read_text(), str(path), "exec")),
}


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("how", READING)
def test_a_file_counts_with_its_content(how: str, tmp_path: Path) -> None:
    """However Python opens a file, its path, size and digest are noted."""
    path = tmp_path / "rates"
    path.write_bytes(pickle.dumps(2) if how == "pickle" else b"2")
    reads = reads_of(lambda: READING[how](path))
    assert dict(reads.parts) == {f"file {path}": of(path.read_bytes())} and reads.reason is None


ASKING: Mapping[str, tuple[Callable[[Path], object], str]] = {
    "os.path.exists": (os.path.exists, "existence"),
    "os.path.isfile": (os.path.isfile, "existence"),
    "os.path.isdir": (os.path.isdir, "existence"),
    "exists": (Path.exists, "existence"),
    "is_file": (Path.is_file, "existence"),
    "is_dir": (Path.is_dir, "existence"),
    "os.path.islink": (os.path.islink, "link"),
    "os.path.lexists": (os.path.lexists, "link"),
    "is_symlink": (Path.is_symlink, "link"),
    "os.readlink": (lambda path: os.readlink(path), "link"),
    "realpath": (os.path.realpath, "link"),
    "resolve": (Path.resolve, "link"),
    "getsize": (os.path.getsize, "status"),
    "getmtime": (os.path.getmtime, "status"),
    "os.stat": (lambda path: os.stat(path), "status"),
    "os.lstat": (lambda path: os.lstat(path), "status"),
    "stat": (Path.stat, "status"),
    "os.access": (lambda path: os.access(path, os.W_OK), "status"),
    "which": (lambda path: shutil.which(str(path)), "existence"),
}


@pytest.mark.parametrize("how", ASKING)
def test_what_there_is_at_a_path_counts_if_it_was_asked(how: str, tmp_path: Path) -> None:
    """Whether there is a file or a directory, where a link leads, or its size, mode and time: as far as was asked."""
    ask, look = ASKING[how]
    path = tmp_path / "rates"
    reads = reads_of(lambda: ask(path))
    assert reads.parts[f"{look} {path}"] == "absent" and reads.reason is None
    path.write_bytes(b"2")
    assert now(reads.parts) != reads.parts
    reads = reads_of(lambda: ask(path))
    assert now(reads.parts) == reads.parts and f"{look} {path}" in reads.parts
    path.write_bytes(b"22")
    assert (now(reads.parts) == reads.parts) == (f"status {path}" not in reads.parts)
    path.rename(tmp_path / "other")
    path.symlink_to("other")
    assert (now(reads.parts) == reads.parts) == (set(reads.parts) == {f"existence {path}"})


VARIABLES: Mapping[str, Callable[[], object]] = {
    "[]": lambda: os.environ["RATE"],
    "get": lambda: os.environ.get("RATE"),
    "getenv": lambda: os.getenv("RATE", "1"),
    "in": lambda: "RATE" in os.environ,
    "environb": lambda: os.environb.get(b"RATE"),
}


@pytest.mark.parametrize("value", ["0.5", None])
@pytest.mark.parametrize("how", VARIABLES)
def test_an_environment_variable_counts_with_its_value(
    how: str, value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the program asks for a variable, it is noted, and so is that it is not set."""
    monkeypatch.delenv("RATE", raising=False)
    if value is not None:
        monkeypatch.setenv("RATE", value)
    reads = reads_of(VARIABLES[how])
    assert dict(reads.parts) == {"environment RATE": "'0.5'" if value else "absent"} and reads.reason is None


ACTIONS: Mapping[str, tuple[Callable[[Path], object], str]] = {
    "write": (lambda at: (at / "log").write_text(""), "wrote the file"),
    "append": (lambda at: (at / "log").open("a").close(), "wrote the file"),
    "update": (lambda at: os.write(os.open(at / "rates.json", os.O_RDWR), b"3"), "wrote the file"),
    "temporary": (lambda at: tempfile.TemporaryFile(dir=at).close(), "wrote the file"),
    "remove": (lambda at: (at / "rates.json").unlink(), "removed"),
    "make": (lambda at: (at / "new").mkdir(), "made"),
    "list": (os.listdir, "listed"),
    "scan": (lambda at: os.scandir(at).close(), "listed"),
    "glob": (lambda at: list(at.glob("*")), "listed"),
    "walk": (lambda at: list(os.walk(at)), "listed"),
    "process": (lambda at: subprocess.run([sys.executable, "-c", ""], check=True), "started"),
    "shell": (lambda at: os.system("true"), "started 'true'"),
    "socket": (lambda at: socket.socket().close(), "used the network"),
    "whole environment": (lambda at: dict(os.environ), "read the whole environment"),
    "names": (lambda at: list(os.environ), "read the whole environment"),
    "shown": (lambda at: repr(os.environ), "read the whole environment"),
    "merged": (lambda at: os.environ | {}, "read the whole environment"),
    "set": (lambda at: os.environ.update(JCACHE_TEST="1"), "set the environment variable 'JCACHE_TEST'"),
    "device": (lambda at: opened("/dev/urandom"), "'/dev/urandom', which is no regular file"),
    "directory": (opened, "which is no regular file"),
    "unknown directory": (lambda at: os.open("none", os.O_RDONLY, dir_fd=os.open(at, os.O_RDONLY)), "no regular file"),
    "relative": (lambda at: os.open("none", os.O_RDONLY), "'none' of an unknown directory"),
}


@pytest.mark.parametrize("what", ACTIONS)
def test_what_cannot_be_told_again_is_a_reason(what: str, rates: Path) -> None:
    """What a block changes outside, or reads and cannot be digested, says why it must not be stored."""
    action, reason = ACTIONS[what]
    reads = reads_of(lambda: action(rates.parent))
    os.environ.pop("JCACHE_TEST", None)
    assert reads.reason is not None and reason in reads.reason


def test_the_null_device_is_nothing() -> None:
    """Output that is thrown away is no effect."""
    reads = reads_of(lambda: opened(os.devnull, "w"))
    assert not reads.parts and reads.reason is None


def test_what_a_process_is_given_by_name_counts(rates: Path) -> None:
    """A block that is not strict may start a process, which reads the files among its arguments, perhaps."""
    other = rates.with_name("other")
    for arguments, options in (
        ([sys.executable, "-c", "", str(rates), str(other)], {}),
        ([sys.executable, "-c", "", rates.name], {"cwd": rates.parent}),
        ([os.fsencode(sys.executable), b"-c", b"", os.fsencode(rates)], {}),
    ):
        with Reads(strict=False) as reads:
            subprocess.run(arguments, check=True, **options)  # type: ignore[call-overload]
        assert {each for each in reads.parts if each.startswith("file ") and str(rates.parent) in each} == {
            f"file {rates}"
        }
        assert reads.reason is None


def test_what_an_entry_of_a_directory_tells_counts(rates: Path) -> None:
    """A block that is not strict depends on the names in the directory, and on what each entry may be asked."""
    with Reads(strict=False) as reads:
        sizes = [entry.stat().st_size for entry in os.scandir(rates.parent)]
    assert sizes == [rates.stat().st_size]
    assert set(reads.parts) == {f"directory {rates.parent}", f"status {rates}"}


def test_what_is_linked_to_a_place_of_the_blocks_counts(rates: Path) -> None:
    """Its content does, and not that of a file that the block has written itself, wherever it is moved to."""
    with Reads(strict=False) as reads:
        (rates.parent / "made").mkdir()
        os.link(rates, rates.parent / "made" / "rates")
        (rates.parent / "made" / "rates").read_text()
        (rates.parent / "written").write_text("1")
        (rates.parent / "written").rename(rates.parent / "made" / "written")
        (rates.parent / "made" / "written").read_text()
    assert {each for each in reads.parts if each.startswith("file")} == {f"file {rates}"} and reads.reason is None


def test_a_pair_of_sockets_for_an_event_loop_is_no_network() -> None:
    """A socket of the host itself leads nowhere until it is connected."""
    assert reads_of(lambda: list(map(socket.socket.close, socket.socketpair()))).reason is None
    assert reads_of(lambda: socket.socket(socket.AF_INET).close()).reason == "used the network"


@pytest.mark.parametrize(
    "read", [opened, lambda number: os.read(number, 1), lambda number: mmap.mmap(number, 0, access=mmap.ACCESS_READ)]
)
def test_what_is_read_by_a_descriptor_counts(rates: Path, read: Callable[[int], object]) -> None:
    """The program may have opened it before the block; what is only asked of it does not count, nor does a pipe."""
    descriptor, (pipe, end) = os.open(rates, os.O_RDONLY), os.pipe()
    os.write(end, b"1")
    with Reads() as reads:
        os.stat(descriptor)
        os.read(pipe, 1)
    assert not reads.parts and reads.reason is None
    with Reads() as reads:
        read(os.dup(descriptor))
    for each in (descriptor, pipe, end):
        os.close(each)
    assert reads.parts == {f"file {rates}": of(rates.read_bytes())} and reads.reason is None


def test_what_the_block_has_opened_has_one_name(rates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That by which it was opened."""
    monkeypatch.chdir(rates.parent)
    with Reads() as reads, open(rates.name, "rb") as file:
        os.read(file.fileno(), 1)
        os.read(file.fileno(), 1)
    assert [*reads.parts] == [f"file {rates.name}"]


@pytest.mark.parametrize("act", [lambda held: atexit.register(held.clear), lambda held: weakref.finalize(held, print)])
def test_what_is_to_run_at_the_end_is_an_action(act: Callable[[set[int]], object]) -> None:
    """A served call would not register it."""
    held = {1}
    with Reads() as reads:
        registered = act(held)
    assert reads.reason == "registered what is to run at the end"
    atexit.unregister(held.clear)
    if isinstance(registered, weakref.finalize):
        registered.detach()
