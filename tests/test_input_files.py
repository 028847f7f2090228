"""The files that a program has read."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jcache import input_files
from jcache.fingerprint.io.reads import Reads
from jcache.layout import Root
from jcache.package import OWN_FILES
from jcache.store import files
from jcache.store.directories import opened
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
    """Whatever becomes of it later; one that is read again after others have changed it, as it is then, too."""
    before = input_files.changes()
    read(settings)
    settings.chmod(0o600)
    read(settings)
    assert input_files.changes() == before + 1
    subprocess.run([sys.executable, "-c", f"open({str(settings)!r}, 'w').write('rate = 22')"], check=True)
    assert input_files.files()[str(settings)].content == b"rate = 1"
    read(settings)
    assert input_files.files()[str(settings)].content == b"rate = 1rate = 22" and input_files.changes() == before + 2
    settings.unlink()
    assert told() == ["settings"]


def test_a_file_counts_whoever_has_written_it(settings: Path) -> None:
    """So a program that makes its settings where there are none is in the same world at its second start."""
    settings.write_text("rate = 3")
    settings.rename(settings.with_name("mine"))
    read(settings.with_name("mine"))
    assert [file.content for file in input_files.files().values()] == [b"rate = 3"]


def test_recording_leaves_the_access_time_as_it_is(settings: Path) -> None:
    """The time tells `prune` which entries of other programs are in use."""
    os.utime(settings, ns=(10**18, settings.stat().st_mtime_ns))
    settings.open().close()
    assert told() == ["settings"] and settings.stat().st_atime_ns == 10**18


def test_a_path_above_a_link_is_that_of_the_target(settings: Path) -> None:
    """As the system resolves it."""
    (settings.parent / "there" / "inner").mkdir(parents=True)
    settings.rename(settings.parent / "there" / "settings")
    (settings.parent / "link").symlink_to(settings.parent / "there" / "inner")
    read(f"{settings.parent}/link/../settings")
    assert list(input_files.files()) == [str(settings.parent / "there" / "settings")]


def test_a_file_that_is_opened_for_update_is_an_input_as_it_was_then(settings: Path) -> None:
    """One that is opened to be written is not."""
    with settings.open("r+") as file:
        file.write("rate = 2")
    settings.with_name("log").open("a").close()
    os.close(os.open(settings.with_name("lock"), os.O_RDWR | os.O_CREAT | os.O_TRUNC))
    assert [file.content for file in input_files.files().values()] == [b"rate = 1"]


def test_what_is_read_in_a_block_counts_in_its_key_alone(settings: Path) -> None:
    """A start that is served reads nothing of it; what a graph was built from is an input, served or built."""
    with Reads():
        read(settings)
    assert not told()
    with Reads(strict=False) as reads:
        read(settings)
    assert told() == ["settings"] and list(reads.parts) == [f"file {settings}"]


def test_what_the_import_system_and_jcache_read_does_not_count(settings: Path) -> None:
    """But what a package reads while it is imported does, and what is read on behalf of a library or JAX."""
    frozen = executed(READER, "<frozen importlib._bootstrap>", __name__="importlib._bootstrap")["read"]
    installed = executed("def load(read, path): read(path)", "/a/site-packages/library.py", __name__="library")["load"]
    ours = executed(READER, f"{OWN_FILES}formats/envelope.py", __name__="jcache.formats.envelope")["read"]
    installed(frozen, settings)
    ours(settings)
    read("/proc/self/stat")
    for name in ("site-packages", "dist-packages"):
        (settings.parent / name).mkdir()
        (settings.parent / name / "data").write_text("1")
    for name in ("site-packages", "dist-packages"):
        read(settings.parent / name / "data")
    assert told() == []
    within_import = executed("def run(read, path): read(path)", "<frozen importlib._bootstrap>", __name__="importlib")
    within_import["run"](lambda path: installed(read, path), settings)
    assert told() == ["settings"]


def test_a_name_in_a_directory_that_jcache_has_opened_is_none_of_the_working_directory(native: Root) -> None:
    """So what jcache writes to its root is not taken for a file that the program has written."""
    ours = executed("def append(files, *arguments, **named): files.append(*arguments, **named)",
                    f"{OWN_FILES}store/files.py", __name__="jcache.store.files")["append"]  # fmt: skip
    before = set(input_files._written)
    with opened(native, native.path) as directory:
        ours(files, "keys-41", b"a line", directory=directory, limit=100)
        assert before == set(input_files._written)
        os.close(os.open("own", os.O_WRONLY | os.O_CREAT, dir_fd=directory))
    assert {os.path.basename(path) for path in set(input_files._written) - before} == {"own"}


def test_what_is_no_text_is_not_recorded(settings: Path) -> None:
    """Such as the numbers of a checkpoint; a text of any encoding is."""
    for content, found in ((b"\x93NUMPY\x01\x00", False), ("Nîmes".encode("latin-1"), True)):
        settings.write_bytes(content)
        read(settings, mode="rb")
        assert bool(told()) == found


def test_executed_files_are_recorded(tmp_path: Path) -> None:
    """Also of modules that are in no table of modules, run as scripts or executed as texts; not what is written."""
    for name in ("one", "two", "three", "four"):
        (tmp_path / f"{name}.py").write_text("RATE = 1")
    block = """
import importlib.util, runpy, pathlib
spec = importlib.util.spec_from_file_location("any", "one.py")
spec.loader.exec_module(importlib.util.module_from_spec(spec))
runpy.run_path("two.py")
exec(compile(pathlib.Path("three.py").read_text(), "three.py", "exec"))
exec("x = 1")
pathlib.Path("four.py").write_text("RATE = 2")
import four
"""
    told = "print(json.dumps([path for path in input_files.executed() if path.startswith(sys.argv[1])]))\n"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(block=block) + told, str(tmp_path)],
        env=environment({"PYTHONPATH": str(tmp_path)}),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout.splitlines()[-1]) == [
        str(tmp_path / f"{name}.py") for name in ("one", "two", "three")
    ]


def test_large_files_and_those_after_many_are_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor descriptors and directories; the program goes on, whatever it gives to `open`."""
    monkeypatch.setattr(input_files, "MOST", 3)
    monkeypatch.setattr(input_files, "LARGEST", 10)
    for name, size in (("large", 11), ("a", 10), ("b", 1), ("c", 1), ("d", 1)):
        (tmp_path / name).write_bytes(b"1" * size)
    for name in ("large", "a", "b", "c", "d"):
        read(tmp_path / name)
    assert told() == ["a", "b", "c"]
    monkeypatch.setattr(input_files, "MOST", 9)
    monkeypatch.setattr(input_files, "_looked_at", input_files._MOST_LOOKED_AT)
    read(tmp_path / "d")
    assert told() == ["a", "b", "c"]
    sys.audit("open", None, None, None)
    sys.audit("os.rename", 1)
    with pytest.raises(ValueError, match="null"):
        read("a\0b")
