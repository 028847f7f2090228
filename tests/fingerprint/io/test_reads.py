"""What a block of code reads from outside, and why what it builds cannot be stored."""

import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
from contextlib import closing, suppress
from pathlib import Path

import pytest

from jcache.fingerprint.io.digests import now
from jcache.fingerprint.io.reads import Reads
from tests.helpers.jax_programs import run
from tests.helpers.reads import SAY, WATCH, of, opened, reads_of


def test_what_a_block_makes_itself_does_not_count(tmp_path: Path) -> None:
    """A block that is not strict may look before it makes something, and into a directory that it has made."""
    (tmp_path / "data").write_bytes(b"2")
    with Reads(strict=False) as reads:
        for name in ("made", "scratch"):
            assert not (tmp_path / name).exists()
        (tmp_path / "made").touch()
        (tmp_path / "scratch" / "below").mkdir(parents=True)
        subprocess.run(["touch", str(tmp_path / "scratch/below/x")], check=True)
        assert (tmp_path / "scratch/below/x").exists() and (tmp_path / "scratch/below/x").read_bytes() == b""
        os.listdir(tmp_path / "scratch" / "below")
        (tmp_path / "scratch" / "link").symlink_to(tmp_path / "data")
        (tmp_path / "scratch" / "link").read_bytes()
    assert reads.reason is None
    assert {name for name in reads.parts if name.startswith("file ")} == {f"file {tmp_path}/scratch/link"}
    with Reads(strict=False) as reads:
        os.makedirs(tmp_path / "scratch", exist_ok=True)
        os.link(tmp_path / "data", tmp_path / "scratch" / "hard")
        (tmp_path / "scratch" / "below" / "x").read_bytes()
    assert f"file {tmp_path}/scratch/below/x" in reads.parts


def test_a_file_that_is_updated_does_not_count(rates: Path) -> None:
    """What a block that is not strict opens to be read and written counts only if it is as it was at the end."""
    with Reads(strict=False) as reads, rates.open("r+") as file:
        file.read()
    assert f"file {rates}" in reads.parts
    with Reads(strict=False) as reads, rates.open("r+") as file:
        file.write("3")
        file.flush()
    assert f"file {rates}" not in reads.parts and reads.reason is None


def test_shared_memory_counts() -> None:
    """Regular files in it do; other files below the same directory do not."""
    with tempfile.NamedTemporaryFile(dir=os.path.join("/dev", "shm")) as file:
        file.write(b"2")
        file.flush()
        with Reads(strict=False) as reads:
            opened(file.name)
            opened("/dev/urandom")
        assert dict(reads.parts) == {f"file {file.name}": of(b"2")} and reads.reason is None


def test_numpy_reads_files(tmp_path: Path) -> None:
    """Arrays loaded by numpy, mapped ones and those that JAX loads through it count."""
    said = run(
        WATCH + "import jax.numpy as jnp, numpy as np\n"
        "os.chdir(sys.argv[1])\n"
        "for name in 'abcd': np.save(name, np.ones(3))\n"
        "with Reads() as reads:\n"
        "    np.load('a.npy'), np.load('b.npy', mmap_mode='r'), np.fromfile('c.npy'), jnp.load('d.npy')" + SAY,
        tmp_path,
    )
    assert said.value == [
        {f"file {name}.npy": of((tmp_path / f"{name}.npy").read_bytes()) for name in "abcd"},
        None,
    ]


def test_a_relative_path_is_another_file_in_another_directory(rates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is noted as it is, and compared with what is there where the program runs."""
    monkeypatch.chdir(rates.parent)
    reads = reads_of(lambda: Path(rates.name).read_text())
    assert list(reads.parts) == [f"file {rates.name}"] and now(reads.parts) == reads.parts
    (rates.parent / "other").mkdir()
    monkeypatch.chdir(rates.parent / "other")
    assert now(reads.parts) == {f"file {rates.name}": "absent"}


def test_a_relative_path_after_the_directory_was_changed(rates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that goes to a directory by itself has meant the files in that one."""
    monkeypatch.chdir(Path(rates.anchor))

    def block() -> None:
        os.chdir(rates.parent)
        Path(rates.name).read_text()

    with Reads(strict=False) as reads:
        block()
    assert list(reads.parts) == [f"file {rates}"] and reads.reason is None


def test_a_database_counts_as_a_file(tmp_path: Path) -> None:
    """What `sqlite3` opens by its own means is compared as well, with what is still beside it."""
    path = tmp_path / "rates.db"
    path.write_bytes(b"")
    for name in (str(path), f"file:{path}?mode=ro"):
        with Reads(strict=False) as reads, closing(sqlite3.connect(name, uri=True)):
            pass
        assert dict(reads.parts) == {f"file {path}": of(b""), f"file {path}-wal": "absent"}
    with Reads(strict=False) as reads, closing(sqlite3.connect(":memory:")):
        pass
    assert not reads.parts


def test_a_block_that_is_not_strict_may_do_things(rates: Path) -> None:
    """It may write, list and start; what it lists counts by the names, what it has written itself does not count."""
    (rates.parent / "below").mkdir()
    with Reads(strict=False) as reads:
        (rates.parent / "scratch").write_text("own")
        (rates.parent / "scratch").read_text()
        os.listdir(rates.parent / "below")
        subprocess.run([sys.executable, "-c", ""], check=True)
        rates.read_text()
    assert reads.reason is None
    assert {f"directory {rates.parent / 'below'}", f"file {rates}"} <= set(reads.parts)
    assert f"file {rates.parent / 'scratch'}" not in reads.parts
    (rates.parent / "below" / "new").touch()
    assert {label for label, text in now(reads.parts).items() if text != reads.parts[label]} == {
        f"directory {rates.parent / 'below'}"
    }


def test_a_file_that_changes_meanwhile_is_a_reason(rates: Path) -> None:
    """Nobody can say which of the two contents the program has read."""
    has_read, has_written = threading.Event(), threading.Event()

    def signal(event: threading.Event) -> bool:
        event.set()
        return True

    def write() -> None:
        has_read.wait()
        rates.write_bytes(b'{"rate": 3}')
        has_written.set()

    writer = threading.Thread(target=write)
    writer.start()
    reads = reads_of(lambda: (rates.read_text(), signal(has_read), has_written.wait()))
    writer.join()
    assert reads.reason == f"read file {rates}, which changed meanwhile"


def test_large_files_are_a_reason(tmp_path: Path) -> None:
    """Files are digested at each start, so no more than 64 MiB of them are, be it in one or in several."""
    for name in "abc":
        with (tmp_path / name).open("wb") as file:
            file.truncate(30 << 20)
    assert reads_of(lambda: list(map(opened, (tmp_path / "a", tmp_path / "b")))).reason is None
    reads = reads_of(lambda: list(map(opened, (tmp_path / "a", tmp_path / "b", tmp_path / "c"))))
    assert reads.reason == f"read '{tmp_path}/c', which is too large to be digested"


def test_very_many_files_are_a_reason(tmp_path: Path) -> None:
    """No more than a thousand files are noted."""

    def look(count: int) -> None:
        for number in range(count):
            with suppress(FileNotFoundError):
                opened(tmp_path / str(number))

    assert reads_of(lambda: look(1000)).reason is None
    assert reads_of(lambda: look(1001)).reason == "read more than 1,000 files"


def test_a_block_ends_with_its_exception(rates: Path) -> None:
    """What was read until then is known."""
    reads = Reads()
    with suppress(ZeroDivisionError), reads:
        rates.read_text()
        raise ZeroDivisionError
    assert list(reads.parts) == [f"file {rates}"]


def test_names_that_cannot_be_shown_are_a_reason(tmp_path: Path) -> None:
    """Parts are lines of text."""
    for name in (b"a\nb", b"\xff"):
        reads = reads_of(lambda name=name: opened(os.fsencode(tmp_path) + b"/" + name))  # type: ignore[misc]
        assert not reads.parts and reads.reason is not None and reads.reason.isprintable()
