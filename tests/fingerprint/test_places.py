"""What was read at a path with a random text, or below a directory of the process, has another label elsewhere."""

import datetime
import os
import sys
import tempfile
import time
import types
import uuid
from pathlib import Path

import pytest

from jcache.fingerprint.io.digests import Look, label_of
from jcache.fingerprint.places import BASES, LABEL, PACKAGE, bases_of, directories, moved, packages, part_of

PROGRAM, WORKING, TEMPORARY, HOME = BASES


def file(path: object) -> str:
    """Return the label of a file that was read."""
    return label_of(Look.FILE, str(path))


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The temporary directory of this process."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return str(tmp_path)


def test_a_key_has_the_random_texts_among_its_values(temporary: str) -> None:
    """Names of temporary files, times and UUIDs, as they may stand in paths; no other value."""
    run, now = uuid.uuid4(), datetime.datetime.now()
    loose = [("directory", tempfile.mkdtemp()), ("run", run), ("now", now), ("start", time.time()), ("rate", 0.5)]
    text = part_of([*loose, ("name", "adam"), ("inner", [1])])[LABEL]
    for each in (str(loose[0][1]), str(run), run.hex, f"{now:%Y-%m-%d}", f"{now:%H%M%S}", str(loose[3][1])):
        assert f'"{each}"' in text
    assert "adam" not in text
    assert "rate" not in text
    assert part_of([("rate", 0.5), ("name", "adam")]) == {}


def test_what_was_read_in_a_run_is_compared_with_that_of_this_run(temporary: str) -> None:
    """A random text in a path is replaced by the one that the same value has now; the longest one counts."""
    then, now = tempfile.mkdtemp(), tempfile.mkdtemp()
    before = part_of([("directory", then), ("path", f"{then}/scale.npy")])
    here = part_of([("directory", now), ("path", f"{now}/scale.npy")])
    read = {file(f"{then}/scale.npy"): "8 bytes", file("/data/scale.npy"): "9 bytes", "function": "code 1"}
    assert moved(read | before, here, {}) == before | {
        file(f"{now}/scale.npy"): "8 bytes", file("/data/scale.npy"): "9 bytes", "function": "code 1",
    }  # fmt: skip
    assert moved(read | before, before, {}) == read | before
    assert moved(read | before, {}, {}) == read | before  # another key


def test_several_random_texts_stand_in_one_path() -> None:
    """Each is replaced once, whatever the others are."""
    one, two = uuid.uuid4(), uuid.uuid4()
    before, here = part_of([("a", one), ("b", two)]), part_of([("a", two), ("b", one)])
    read = {file(f"runs/{one}/{two.hex}"): "8 bytes"}
    assert moved(read | before, here, {}) == before | {file(f"runs/{two}/{one.hex}"): "8 bytes"}


def test_what_was_read_below_the_program_is_compared_with_that_below_its_copy(tmp_path: Path) -> None:
    """What is still there must be as it was, too: the program may have read it by an absolute path."""
    bases = {PROGRAM: str(tmp_path / "a")}
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "there").touch()
    read = {file(tmp_path / "a" / "gone"): "1", file(tmp_path / "a" / "there"): "2", file("/data"): "3"}
    assert bases_of(read, bases) == bases
    assert bases_of([file("/data"), file("relative")], bases) == {}
    assert moved(read | bases, {}, bases) == read | bases
    copied = {PROGRAM: str(tmp_path / "b")}
    assert moved(read | bases, {}, copied) == copied | {
        file(tmp_path / "b" / "gone"): "1", file(tmp_path / "b" / "there"): "2",
        file(tmp_path / "a" / "there"): "2", file("/data"): "3",
    }  # fmt: skip


def test_the_innermost_directory_counts(tmp_path: Path) -> None:
    """A program in the home directory has its own files; two directories that are one must both agree."""
    inner = f"{tmp_path}/home/program"
    read = {file(f"{inner}/scale"): "1"}
    then = {PROGRAM: inner, WORKING: inner, HOME: f"{tmp_path}/home"}
    assert moved(read | then, {}, then | {HOME: "/root"}) == read | then | {HOME: "/root"}
    now = {PROGRAM: "/b", WORKING: "/c", HOME: f"{tmp_path}/home"}
    assert moved(read | then, {}, now) == now | {file("/b/scale"): "1", file("/c/scale"): "1"}


def test_two_files_at_one_place_are_not_as_they_were() -> None:
    """Where two files with different content have one path now, one of them has changed."""
    one, two, now = uuid.uuid4(), uuid.uuid4(), uuid.uuid4()
    before, here = part_of([("a", one), ("b", two)]), part_of([("a", now), ("b", now)])
    found = moved({file(f"runs/{one}"): "1", file(f"runs/{two}"): "2"} | before, here, {})
    assert found[file(f"runs/{now}")] not in {"1", "2"}


def test_a_variable_and_a_damaged_text_are_left_as_they_are() -> None:
    """The name of a variable is no path, and what is no JSON object has no texts."""
    run, now = uuid.uuid4(), uuid.uuid4()
    variable = label_of(Look.VARIABLE, str(run))
    assert variable in moved({variable: "'1'"} | part_of([("run", run)]), part_of([("run", now)]), {})
    read = {file(f"runs/{run}"): "1", LABEL: "[]"}
    assert moved(read, part_of([("run", now)]), {}) == read


def test_a_process_has_up_to_four_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The root of the file system is none of them, nor a working directory that has been removed."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("HOME", "/")
    monkeypatch.chdir(tmp_path)
    assert directories("/program") == {PROGRAM: "/program", WORKING: str(tmp_path)}
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    os.rmdir(gone)
    monkeypatch.setattr(tempfile, "tempdir", "/scratch")
    monkeypatch.setenv("HOME", "/home/ada")
    assert directories("/program") == {PROGRAM: "/program", TEMPORARY: "/scratch", HOME: "/home/ada"}


def test_what_a_package_has_is_looked_for_in_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the program has found it; an installed package counts as a whole."""
    module = types.ModuleType("own_package")
    module.__path__, module.__file__ = [str(tmp_path / "b" / "own")], str(tmp_path / "b" / "own" / "__init__.py")
    monkeypatch.setitem(sys.modules, "own_package", module)
    found = packages()
    assert found[f"{PACKAGE}own_package"] == str(tmp_path / "b" / "own")
    assert f"{PACKAGE}json" not in found and f"{PACKAGE}pytest" not in found
    then = {f"{PACKAGE}own_package": str(tmp_path / "a" / "own"), file(tmp_path / "a" / "own" / "scale"): "1"}
    now = {f"{PACKAGE}own_package": str(tmp_path / "b" / "own"), file(tmp_path / "b" / "own" / "scale"): "1"}
    assert moved(then, {}, {}) == now
    assert moved(then | {f"{PACKAGE}other": "/c"}, {}, {}) == now | {f"{PACKAGE}other": "/c"}


def test_what_lies_beside_a_directory_is_compared_there(tmp_path: Path) -> None:
    """A few steps above the program as well, where the directory is there; what was read before must be as it was."""
    for name in ("a", "b"):
        (tmp_path / name / "scripts").mkdir(parents=True)
        (tmp_path / name / "scale").touch()
    (tmp_path / "a" / "none").mkdir()
    then = {PROGRAM: str(tmp_path / "a" / "scripts"), WORKING: str(tmp_path)}
    read = {file(tmp_path / "a" / "scale"): "1", file(tmp_path / "a" / "none" / "only"): "2"}
    assert bases_of(read, then) == then
    now = then | {PROGRAM: str(tmp_path / "b" / "scripts")}
    assert moved(read | then, {}, now) == now | read | {file(tmp_path / "b" / "scale"): "1"}


def test_a_directory_itself_is_that_of_this_process() -> None:
    """As where its names were listed."""
    label = label_of(Look.DIRECTORY, "/home/ada")
    assert bases_of([label], {HOME: "/home/ada"}) == {HOME: "/home/ada"}
    moved_to = {HOME: "/home/bob", label_of(Look.DIRECTORY, "/home/bob"): "3 names"}
    assert moved({HOME: "/home/ada", label: "3 names"}, {}, {HOME: "/home/bob"}) == moved_to
