"""The files that a program has read."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jcache import input_files
from jcache.fingerprint.io.reads import Reads
from tests.helpers.fingerprints import executed
from tests.helpers.jax_programs import environment

READER = "def read(path, **options):\n    with open(path, **options) as file: return file.read()\n"
PROGRAM = """
import json, sys
import jcache
{block}
from jcache import input_files
print(json.dumps([[path, file.name] for path, file in input_files.files().items()]))
"""


def read(path: Path | str, **options: Any) -> None:
    with open(path, **options) as file:
        file.read()


def told() -> list[str]:
    return [os.path.basename(path) for path in input_files.files()]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that another process has written, in a directory that was there before."""
    path = tmp_path / "settings"
    monkeypatch.setattr(input_files, "_written", set())
    subprocess.run([sys.executable, "-c", f"open({str(path)!r}, 'w').write('rate = 1')"], check=True)
    return path


def test_what_a_program_reads_from_its_import_of_jcache_on_is_recorded(tmp_path: Path) -> None:
    """Under the name that the program gave, in a thread or not, through a library or not; code is not recorded."""
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "library.py").write_text(READER)
    (tmp_path / "own.py").write_text("RATE = open('table').read()\n")
    for name in ("table", "one", "two", "three"):
        (tmp_path / name).write_text(name)
    block = f"""
import threading, pathlib, own, library, inspect
open("one").close()
library.read({str(tmp_path / "two")!r})
thread = threading.Thread(target=pathlib.Path("three").read_text)
thread.start(); thread.join()
inspect.getsource(library)
open("absent") if len(sys.argv) > 9 else None
"""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(block=block)],
        env=environment({"PYTHONPATH": f".{os.pathsep}site-packages"}),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found == [
        [str(tmp_path / "table"), "table"],
        [str(tmp_path / "one"), "one"],
        [str(tmp_path / "two"), str(tmp_path / "two")],
        [str(tmp_path / "three"), "three"],
    ]


def test_a_file_is_recorded_as_it_was_when_it_was_read(settings: Path) -> None:
    """By inode, size and modification time; one that is read again after a change, as it is then."""
    before = input_files.changes()
    read(settings)
    status = settings.stat()
    file = input_files.files()[str(settings)]
    assert file.identity == (status.st_ino, status.st_size, status.st_mtime_ns)
    read(settings)
    assert input_files.changes() == before + 1
    os.utime(settings, ns=(0, 0))
    read(settings)
    assert input_files.files()[str(settings)].identity[2] == 0 and input_files.changes() == before + 2


@pytest.mark.parametrize(
    "write",
    [
        lambda path: path.write_text("1"),
        lambda path: path.open("r+").close(),
        lambda path: os.close(os.open(path, os.O_RDWR | os.O_CREAT)),
        lambda path: [path.with_name("draft").write_text("1"), path.with_name("draft").replace(path)],
    ],
)
def test_what_the_process_has_written_itself_is_no_input(settings: Path, write: Callable[[Path], object]) -> None:
    """Written, opened for update or renamed, or in a directory that it has made."""
    write(settings)
    read(settings)
    inner = settings.with_name("made") / "inner"
    inner.mkdir(parents=True)
    subprocess.run([sys.executable, "-c", f"open({str(inner / 'log')!r}, 'w').close()"], check=True)
    read(inner / "log")
    assert not told()


def test_a_directory_that_was_there_before_is_not_made(settings: Path) -> None:
    """Though the program makes it if it is not there."""
    settings.parent.mkdir(exist_ok=True)
    read(settings)
    assert told() == ["settings"]


def test_what_is_read_in_a_block_counts_in_its_key_alone(settings: Path) -> None:
    """A start that is served reads nothing of it."""
    with Reads():
        read(settings)
    assert not told()


def test_what_is_read_while_a_package_is_imported_belongs_to_the_package(settings: Path) -> None:
    """As does what JAX and jcache read, and a file of the system."""
    frozen = executed(READER, "<frozen importlib._bootstrap>", __name__="importlib._bootstrap")["read"]
    installed = executed("def load(read, path): read(path)", "/a/site-packages/library.py", __name__="library")["load"]
    for package in ("jax", "jaxlib"):
        executed(READER, f"/a/site-packages/{package}/inner.py", __name__=f"{package}.inner")["read"](settings)
    installed(lambda path: frozen(path), settings)
    read("/proc/self/stat")
    assert told() == []
    installed(read, settings)
    assert told() == ["settings"]


def test_large_files_and_those_after_many_are_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor descriptors and directories; the program goes on, whatever it gives to `open`."""
    monkeypatch.setattr(input_files, "MOST", 3)
    monkeypatch.setattr(input_files, "LARGEST", 10)
    for name, size in (("large", 11), ("a", 10), ("b", 1), ("c", 1), ("d", 1)):
        (tmp_path / name).write_bytes(bytes(size))
    monkeypatch.setattr(input_files, "_written", set())
    for name in ("large", "a", "b", "c", "d"):
        read(tmp_path / name)
    assert told() == ["a", "b", "c"]
    sys.audit("open", None, None, None)
    sys.audit("os.rename", 1)
    with pytest.raises(ValueError, match="null"):
        read("a\0b")
