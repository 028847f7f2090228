"""Components of a world for the files that the program has read before the call."""

import json
import os
from pathlib import Path

import pytest

from jcache import input_files
from jcache.input_files import InputFile
from jcache.runtime.worlds.digests import Digests
from jcache.runtime.worlds.inputs import Inputs


def record(monkeypatch: pytest.MonkeyPatch, *paths: Path | str) -> None:
    """Let the program have read some files, in this order."""
    found = {}
    for path in paths:
        status = os.stat(path)
        found[os.path.abspath(path)] = InputFile(str(path), (status.st_ino, status.st_size, status.st_mtime_ns))
    monkeypatch.setattr(input_files, "_read", found)


def of(monkeypatch: pytest.MonkeyPatch, directory: Path, text: str | bytes, name: str = "a.cfg") -> dict[str, str]:
    """Return the components of one file with a content in a program's directory."""
    directory.mkdir(exist_ok=True)
    (directory / name).write_bytes(text.encode() if isinstance(text, str) else text)
    record(monkeypatch, directory / name)
    return Inputs().take(Digests(None), str(directory))


def differing(one: dict[str, str], other: dict[str, str]) -> set[str]:
    return {label for label, _ in one.items() ^ other.items()}


def test_each_setting_counts_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the name before its colon or equals sign, which has a number if it comes again, or as a numbered line."""
    text = "# a note\nlr = 0.1\nmodel.rate: 2\n  rate: 3\n'rate' = 4\n"
    found = of(monkeypatch, tmp_path, text)
    names = ["line 1", "lr", "model.rate", "rate", "rate#2"]
    assert found.keys() == {"inputs", "input a.cfg", *(f"input a.cfg: {name}" for name in names)}
    for before, after, name in (
        ("0.1", "0.2", "lr"),
        ("3", "5", "rate"),
        ("4", "5", "rate#2"),
        ("note", "b", "line 1"),
    ):
        assert differing(found, of(monkeypatch, tmp_path, text.replace(before, after))) == {f"input a.cfg: {name}"}
    assert "input a.cfg" in differing(found, of(monkeypatch, tmp_path, f"{text}more = 1\n"))


@pytest.mark.parametrize("indent", [None, 2])
def test_the_values_of_a_json_object_count_by_their_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, indent: int | None
) -> None:
    """Also where all of it is one line; a list is one value, and what is no JSON counts by its lines."""

    def found(**changed: object) -> dict[str, str]:
        value = {"lr": 0.1, "model": {"sizes": [1, 2], "none": {}}} | changed
        return of(monkeypatch, tmp_path, json.dumps(value, indent=indent))

    assert "input a.cfg: model.sizes" in found() and "input a.cfg: model.none" in found()
    assert differing(found(), found(lr=0.2)) == {"input a.cfg: lr"}
    changed = found(model={"sizes": [2, 2], "none": {}})
    assert differing(found(), changed) == {"input a.cfg: model.sizes"}
    assert "input a.cfg: line 1" in of(monkeypatch, tmp_path, "{# no JSON")


def test_a_long_text_counts_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And so does each text after very many items."""
    long = "\n".join(map(str, range(300)))
    found = of(monkeypatch, tmp_path, long)
    assert found.keys() == {"inputs", "input a.cfg"}
    assert differing(found, of(monkeypatch, tmp_path, long.replace("299", "300"))) == {"input a.cfg"}
    assert of(monkeypatch, tmp_path, "").keys() == found.keys()
    paths = [tmp_path / f"{letter}.cfg" for letter in "abcdefgh"]
    for path in paths:
        path.write_text(long[:500])
    record(monkeypatch, *paths)
    many = Inputs().take(Digests(None), str(tmp_path))
    assert len(many) < 1_100 and many["input h.cfg"] != many["input a.cfg"]


def test_what_is_no_text_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as the numbers of a checkpoint."""
    assert of(monkeypatch, tmp_path, b"\x93NUMPY\x01\x00") == of(monkeypatch, tmp_path, "a\0b") == {}


def test_names_count_from_where_the_program_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its directory, else as it gave them, else from the home directory; a host's settings do not count."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("project/conf/a", "run/a", "data/a", ".config/a"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("rate = 1")
    monkeypatch.chdir(tmp_path / "run")
    names = {"project/conf/a": "conf/a", "a": "a", "data/a": "~/data/a", ".config/a": None}
    for given, shown in names.items():
        record(monkeypatch, given if given == "a" else tmp_path / given)
        found = Inputs().take(Digests(None), str(tmp_path / "project"))
        assert [label for label in found if ":" not in label] == ([f"input {shown}", "inputs"] if shown else [])


def test_other_files_of_a_series_are_the_same_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers, dates and identifiers in their names do not count, so that another step or shard is no other name."""
    one = of(monkeypatch, tmp_path, "a = 1", "step-5.cfg")
    assert one["inputs"] == of(monkeypatch, tmp_path, "a = 1", "step-1206.cfg")["inputs"]
    assert one["inputs"] != of(monkeypatch, tmp_path, "a = 1", "other-5.cfg")["inputs"]


def test_a_file_counts_as_it_was_when_it_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever becomes of it later; one that was changed before anybody looked counts as changed."""
    path = tmp_path / "a.cfg"
    path.write_text("rate = 1")
    record(monkeypatch, path)
    inputs = Inputs()
    found = inputs.take(Digests(None), str(tmp_path))
    path.write_text("rate = 22")
    assert inputs.take(Digests(None), str(tmp_path)) == found
    late = Inputs().take(Digests(None), str(tmp_path))
    assert late["input a.cfg"] == "changed since it was read" and late["inputs"] == found["inputs"]
    path.unlink()
    assert Inputs().take(Digests(None), str(tmp_path)) == late
