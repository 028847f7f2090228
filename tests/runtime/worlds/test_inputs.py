"""Components of a world for the files that the program has read before the call."""

import json
import os
import re
from pathlib import Path

import pytest

from jcache import input_files
from jcache.input_files import InputFile
from jcache.runtime.worlds.inputs import Inputs


def record(monkeypatch: pytest.MonkeyPatch, *paths: Path | str) -> None:
    """Let the program have read some files, in this order."""
    found = {os.path.abspath(path): InputFile(str(path), (0, 0, 0), Path(path).read_bytes()) for path in paths}
    monkeypatch.setattr(input_files, "_read", found)


def of(monkeypatch: pytest.MonkeyPatch, directory: Path, text: str | bytes, name: str = "a.cfg") -> dict[str, str]:
    """Return the components of one file with a content in a program's directory."""
    directory.mkdir(exist_ok=True)
    (directory / name).write_bytes(text.encode() if isinstance(text, str) else text)
    record(monkeypatch, directory / name)
    return Inputs().take(str(directory))


def differing(one: dict[str, str], other: dict[str, str]) -> set[str]:
    return {label for label, _ in one.items() ^ other.items()}


def test_each_setting_counts_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the name before its colon or equals sign, which has a number if it comes again, or as a numbered line."""
    text = "lr = 0.1\nmodel.rate: 2\n  rate: 3\n'rate' = 4\na note\nc2VjcmV0=\nhttps://a\n"
    found = of(monkeypatch, tmp_path, text)
    names = ["lr", "model.rate", "rate", "rate#2", "line 5", "line 6", "line 7"]
    assert found.keys() == {"inputs", "input a.cfg: (settings)", *(f"input a.cfg: {name}" for name in names)}
    edits = {"lr": ("0.1", "0.2"), "rate": ("3", "5"), "rate#2": ("4", "5"), "line 5": ("note", "b")}
    for name, (before, after) in edits.items():
        assert differing(found, of(monkeypatch, tmp_path, text.replace(before, after))) == {f"input a.cfg: {name}"}
    assert "input a.cfg: (settings)" in differing(found, of(monkeypatch, tmp_path, f"{text}more = 1\n"))
    assert (
        found != of(monkeypatch, tmp_path, text.rstrip("\n")) != of(monkeypatch, tmp_path, text.replace("\n", "\r\n"))
    )


def test_secrets_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By their names: no digest of one is kept."""
    token = "hf_abcdefghijklmnop"
    text = f"password: a\nAPI_KEY=b\nhub.token = {token}\nprng_key = 1\ntokens = 2\npasses = 3\n"
    found = of(monkeypatch, tmp_path, text)
    assert {label for label, digest in found.items() if not digest} == {
        f"input a.cfg: {name}" for name in ("password", "API_KEY", "hub.token")
    }
    assert found == of(monkeypatch, tmp_path, text.replace(" a", " x").replace("=b", "=y").replace("_abc", "_xyz"))


def test_each_line_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that looks like a comment may be a part of a text of several lines."""
    one = of(monkeypatch, tmp_path, 'rate = 1\ntext = """\n# one\n"""\n', "a.toml")
    assert one != of(monkeypatch, tmp_path, 'rate = 1\ntext = """\n# two\n"""\n', "a.toml")


def test_files_name_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As omegaconf's resolver and shells read them."""
    (tmp_path / "a.yaml").write_text("lr: ${oc.env:LR,1}\nhome: ${HOME}/a\nuser: $USER\ncost: 5$\nown: ${lr}\n")
    record(monkeypatch, tmp_path / "a.yaml")
    inputs = Inputs()
    assert inputs.variables() == set()
    inputs.take(str(tmp_path))
    assert inputs.variables() == {"LR", "HOME", "USER", "lr"}


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
    assert of(monkeypatch, tmp_path, '{"lr": 0.1}') != of(monkeypatch, tmp_path, '{"lr": 0.10}')
    changed = found(model={"sizes": [2, 2], "none": {}})
    assert differing(found(), changed) == {"input a.cfg: model.sizes"}
    assert "input a.cfg: line 1" in of(monkeypatch, tmp_path, "{# no JSON")
    layouts = [of(monkeypatch, tmp_path, text) for text in ('{"lr": "a b"}', '{"lr":"a b"}', '{"lr": "a  b"}')]
    assert differing(*layouts[:2]) == {"input a.cfg: (layout)"} and differing(*layouts[::2]) == {"input a.cfg: lr"}
    named = [of(monkeypatch, tmp_path, f'{{"(layout)": {value}}}') for value in (1, 2)]
    assert differing(*named) == {"input a.cfg: (layout)"}


def test_an_object_with_two_values_of_one_name_counts_by_its_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which of them counts is up to the program."""
    one, other = (of(monkeypatch, tmp_path, f'{{"rate": {rate}, "rate": 1}}') for rate in (1, 2))
    assert differing(one, other) == {"input a.cfg: line 1"}


def test_a_program_behind_a_link_has_the_same_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a link leads to the present release, names count from the release."""
    for name in ("20261126", "20261127"):
        (tmp_path / name / "src").mkdir(parents=True)
        (tmp_path / name / "a").write_text("rate = 1")
        (tmp_path / "now").unlink(missing_ok=True)
        (tmp_path / "now").symlink_to(tmp_path / name)
        record(monkeypatch, (tmp_path / "now" / "a").resolve())
        assert "input ../a: rate" in Inputs().take(str(tmp_path / "now" / "src"))


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
    taken = []
    for order in (paths, paths[::-1]):
        record(monkeypatch, *order)
        taken.append(Inputs().take(str(tmp_path)))
    assert taken[0] == taken[1] and 800 < len(taken[0]) < 1_010
    assert "input a.cfg: (settings)" in taken[0] and "input h.cfg" in taken[0]


def test_a_text_of_any_encoding_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And so do names that no encoding has."""
    one, other = (of(monkeypatch, tmp_path, f"town = {name}".encode("latin-1")) for name in ("Nîmes", "Nimes"))
    assert differing(one, other) == {"input a.cfg: town"}
    text = json.dumps({"\ud800": 1, "a.b": 1, "a": {"b": 2}, "": 3})
    assert {"input a.cfg: \ud800", 'input a.cfg: "a.b"', "input a.cfg: a.b", 'input a.cfg: ""'} < of(
        monkeypatch, tmp_path, text
    ).keys()


def test_names_count_from_where_the_program_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its directory, else as it gave them, else from the home directory; a host's settings do not count."""
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    for name in ("home/project/src/conf/a", "home/project/.env", "run/a", "home/data/a", "home/.config/a", "b"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("rate = 1")
    monkeypatch.chdir(tmp_path / "run")
    names: dict[Path | str, str | None] = {
        home / "project/src/conf/a": "conf/a",
        home / "project/.env": "../.env",
        "a": "a",
        home / "data/a": "~/data/a",
        home / ".config/a": None,
        tmp_path / "b": re.sub(r"\d+", "#", str(tmp_path / "b")),
    }
    for given, shown in names.items():
        record(monkeypatch, given)
        found = Inputs().take(str(home / "project/src"))
        labels = [f"input {shown}: (settings)", f"input {shown}: rate", "inputs"]
        assert list(found) == (labels if shown else [])
    hidden = home / ".worktrees/project"
    hidden.mkdir(parents=True)
    (hidden / "a").write_text("rate = 1")
    record(monkeypatch, hidden / "a")
    assert "input ../a: rate" in Inputs().take(str(hidden / "src"))


def test_two_files_of_one_name_are_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which the program has read from two working directories."""
    found = {f"{tmp_path}/{name}/a": InputFile("a", (0, 0, 0), name.encode()) for name in ("one", "two")}
    monkeypatch.setattr(input_files, "_read", found)
    assert {"input a: line 1", "input a#: line 1"} < Inputs().take("/project").keys()


def test_other_files_of_a_series_are_the_same_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers, dates and identifiers in their names do not count, so that another step or shard is no other name."""
    one = of(monkeypatch, tmp_path, "a = 1", "step-5.cfg")
    assert one == of(monkeypatch, tmp_path, "a = 1", "step-1206.cfg")
    assert one["inputs"] != of(monkeypatch, tmp_path, "a = 1", "other-5.cfg")["inputs"]


def test_the_files_of_a_short_series_are_compared_by_their_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Item by item, as the configuration of another run is with that of the last one; those of a long one are data."""
    one = of(monkeypatch, tmp_path, "a = 1\nb = 2", "run-9.cfg")
    assert differing(one, of(monkeypatch, tmp_path, "a = 1\nb = 3", "run-10.cfg")) == {"input run-#.cfg: b"}
    record(monkeypatch, tmp_path / "run-10.cfg", tmp_path / "run-9.cfg")
    two = Inputs().take(str(tmp_path))
    assert two["input run-#.cfg: b"] == one["input run-#.cfg: b"] != two["input run-#.cfg': b"]
    paths = [tmp_path / f"part-{number}" for number in range(9)]
    for path in paths:
        path.write_text("1")
    record(monkeypatch, *paths)
    assert {f"input {path.name}: line 1" for path in paths} < Inputs().take(str(tmp_path)).keys()


def test_when_a_file_was_written_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If its name says that it is a timestamp, and it has fractions of a second: one of the day may be a setting."""
    text = '{"init_timestamp_nsecs": 1764260000123456789, "a": {"timestamp": "1764260000.5"}, "%s": 1764260000}'
    one = of(monkeypatch, tmp_path, text % "timestamp")
    later = of(monkeypatch, tmp_path, (text % "timestamp").replace("17642", "17643"))
    assert differing(one, later) == {"input a.cfg: timestamp"}


@pytest.mark.parametrize("directory", [".pytest_cache", ".hypothesis"])
def test_what_tests_keep_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, directory: str) -> None:
    """It is another one after each run; a file of the program in a hidden directory counts."""
    for name in (directory, ".settings"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ids").write_text("a")
    record(monkeypatch, tmp_path / directory / "ids")
    assert Inputs().take(str(tmp_path)) == {}
    record(monkeypatch, tmp_path / ".settings" / "ids")
    assert "inputs" in Inputs().take(str(tmp_path))
