"""What was read while an entry was made is compared with what is there now, where this process would read it."""

import os
from pathlib import Path

import pytest

from jcache.fingerprint.io.digests import now
from jcache.fingerprint.places import BASES
from jcache.formats.envelope import Codec, EnvelopeHeader, read_header, seal
from jcache.layout import Kind, Root
from jcache.runtime.dependencies import dependencies_of, other_reads, parts_here, reads_other_files, staleness, variants
from tests.helpers.entries import NOW, key


def sealed(parts: dict[str, str], a_key: str) -> bytes:
    """Return the bytes of an entry with some parts."""
    return seal(
        b"payload", kind=Kind.GRAPHS, name="mesh", key=a_key, build_seconds=1.0, created_ns=NOW, key_parts=parts,
        codec=Codec.NONE,
    )  # fmt: skip


def header(parts: dict[str, str]) -> EnvelopeHeader:
    """Return the header of such an entry."""
    return read_header(sealed(parts, key(1, "mesh")))


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


def test_an_entry_has_a_key_of_its_own_for_other_files(native: Root) -> None:
    """After the call's own key and that of its content; the order of the reads does not count, nor do variables."""
    own, of_content, of_reads = variants("mesh-1", "a", ["file b", "file a", "environment A"])
    assert own == "mesh-1"
    assert len({own, of_content, of_reads}) == 3
    assert variants("mesh-1", "a", ["file a", "file b"]) == (own, of_content, of_reads)
    assert variants("mesh-1", "a", ["file c"])[:2] == (own, of_content)
    assert variants("mesh-1", "a", ["file c"])[2] != of_reads


def test_four_entries_of_one_content_have_read_other_files_each(native: Root) -> None:
    """Those of other content do not count, nor those that are gone."""
    directory = native.directory(Kind.GRAPHS)
    directory.mkdir(exist_ok=True)
    keys = [key(number, "mesh") for number in range(5)]
    content = header({}).payload_sha256
    for number, each in enumerate(keys):
        assert reads_other_files(native, Kind.GRAPHS, keys, content, lambda one: one.payload_sha256) is (number > 3)
        (directory / f"{each}-cache").write_bytes(sealed({}, each))
    assert not reads_other_files(native, Kind.GRAPHS, keys, "other", lambda one: one.payload_sha256)
