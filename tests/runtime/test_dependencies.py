"""What was read while an entry was made is compared with what is there now, where this process would read it."""

import os
from pathlib import Path

import pytest

from jcache.fingerprint.io.digests import now
from jcache.fingerprint.places import BASES
from jcache.formats.envelope import Codec, EnvelopeHeader, read_header, seal
from jcache.layout import Kind, Root
from jcache.runtime.dependencies import dependencies_of, other_reads, parts_here, staleness
from tests.helpers.entries import NOW, key


def header(parts: dict[str, str]) -> EnvelopeHeader:
    """Return the header of an entry with some parts."""
    data = seal(
        b"payload", kind=Kind.GRAPHS, name="mesh", key=key(1, "mesh"), build_seconds=1.0, created_ns=NOW,
        key_parts=parts, codec=Codec.NONE,
    )  # fmt: skip
    return read_header(data)


def test_an_entry_is_stale_once_a_dependency_has_changed(native: Root, tmp_path: Path) -> None:
    """A file that was read counts beside the parts of the key, which the key itself covers."""
    (tmp_path / "rates.txt").write_text("1")
    label = f"file {tmp_path / 'rates.txt'}"
    made = header({"x": "2", **now([label])})
    assert dependencies_of(made, {"x": "2"}).keys() == {label}
    assert staleness(made, {"x": "2"}, native) == []
    (tmp_path / "rates.txt").write_text("2")
    (change,) = staleness(made, {"x": "2"}, native)
    assert "rates.txt" in change
    assert staleness(made, made.key_parts, native) == []


def test_a_file_below_the_working_directory_is_that_of_this_process(
    native: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry from another directory is good where the file there has the same content."""
    for name, text in (("a", "1"), ("b", "1"), ("c", "2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rates.txt").write_text(text)
    made = header({"x": "2", BASES[1]: str(tmp_path / "a"), **now([f"file {tmp_path / 'a' / 'rates.txt'}"])})
    for name, expected in (("a", False), ("b", False), ("c", True)):
        monkeypatch.chdir(tmp_path / name)
        assert bool(staleness(made, {"x": "2"}, native)) is expected
        assert f"file {os.getcwd()}/rates.txt" in dependencies_of(made, {"x": "2"})
        assert parts_here(made, {})["x"] == "2"


def test_an_entry_does_not_stand_for_what_it_has_not_read() -> None:
    """Only paths count: a variable has one value in each process."""
    made = header({"x": "2", "file a": "1", "environment A": "'1'"})
    found = ["file a", "file b", "existence a", "environment B", "imported c"]
    assert other_reads(made, {"x": "2"}, found) == ["existence a", "file b"]
    assert other_reads(made, {"x": "2"}, ["file a"]) == []
