"""Files and environment variables as short texts."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jcache.fingerprint.io.digests import (
    TOO_LARGE,
    Contents,
    Look,
    is_look,
    is_read,
    label_of,
    names_in,
    now,
    path_of,
    seen,
)
from tests.helpers.jax_programs import run
from tests.helpers.reads import WATCH, of, reads_of


def test_a_file_that_is_not_there_counts_as_absent(tmp_path: Path) -> None:
    """A program that looks in three places depends on the two where it finds nothing."""
    reads = reads_of((tmp_path / "none").read_text)
    assert dict(reads.parts) == {f"file {tmp_path}/none": "absent"} and reads.reason is None
    (tmp_path / "none").write_text("now it is")
    assert now(reads.parts) != reads.parts


@pytest.mark.parametrize(
    ("name", "value"), [("API_TOKEN", "xyz"), ("RATES", "1" * 100), ("RATE", "a\nb"), ("RATE", "\udc80")]
)
def test_long_and_secret_values_are_digested(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is stored shows no secrets, and stays short; another value is another part all the same."""
    monkeypatch.setenv(name, value)
    reads = reads_of(lambda: os.environ[name])
    (text,) = reads.parts.values()
    assert text == f"{len(value)} characters {hashlib.sha256(os.fsencode(value)).hexdigest()}"
    monkeypatch.setenv(name, value[:-1] + "Z")
    assert now(reads.parts) != reads.parts


def test_what_was_read_is_compared_in_another_process(rates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal there as long as nothing has changed; an edit that keeps size and times is found."""
    monkeypatch.setenv("RATE", "2")
    parts = reads_of(lambda: (rates.read_text(), os.environ["RATE"])).parts
    program = WATCH + "parts = json.loads(sys.argv[1])\nprint(json.dumps(dict(now(parts)) == parts))"
    assert run(program, json.dumps(dict(parts))).value is True
    assert run(program, json.dumps(dict(parts)), env={"RATE": "3"}).value is False
    before = rates.stat()
    rates.write_bytes(b'{"rate": 3}')
    os.utime(rates, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert run(program, json.dumps(dict(parts))).value is False


def test_other_parts_are_left_out(rates: Path) -> None:
    """Parts of other kinds are not looked at."""
    assert dict(now({"function": "f", f"file {rates}": "?"})) == {f"file {rates}": of(rates.read_bytes())}


def test_a_pipe_is_not_touched(tmp_path: Path) -> None:
    """A pipe that the program is to read is not read by the watcher before."""
    os.mkfifo(tmp_path / "pipe")
    writer = subprocess.Popen([sys.executable, "-c", f"open({str(tmp_path / 'pipe')!r}, 'w').write('for you')"])
    got = []
    reads = reads_of(lambda: got.append((tmp_path / "pipe").read_text()))
    assert got == ["for you"] and writer.wait() == 0 and "no regular file" in str(reads.reason)
    assert now([f"file {tmp_path}/pipe"])[f"file {tmp_path}/pipe"] == "no regular file"


@pytest.mark.parametrize("look", Look)
def test_a_label_tells_what_was_read(look: Look, tmp_path: Path) -> None:
    """It begins with what that is, and the rest of it is the name, which may have spaces."""
    label = label_of(look, f"{tmp_path}/a b")
    assert path_of(label) == f"{tmp_path}/a b" and is_read(label)
    assert is_look(label) == (look in {Look.KIND, Look.STATUS, Look.LINK})
    assert now([label]) == {label: "absent"}
    assert not is_read(f"argument {label}")


def test_what_there_is_at_a_path_is_told_as_far_as_it_is_asked(tmp_path: Path) -> None:
    """Its kind, where a link leads, or size, mode and time."""
    (tmp_path / "file").write_bytes(b"12")
    (tmp_path / "file").chmod(0o640)
    os.utime(tmp_path / "file", ns=(1, 5))
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    kinds = [seen(str(tmp_path / name), Look.KIND) for name in ("file", "link", ".", "pipe", "none", "file/none")]
    assert kinds == ["a file", "a file", "a directory", "something else", "absent", "absent"]
    assert seen(str(tmp_path / "link"), Look.STATUS) == "a file of 2 bytes, mode 640, changed at 5"
    links = [seen(str(tmp_path / name), Look.LINK) for name in ("link", "file", "none")]
    assert links == ["to 'file'", "no link", "absent"]
    assert seen("a\0b", Look.KIND) == "absent" and seen("a\0b", Look.STATUS) == "unknown (ValueError)"


def test_a_directory_counts_by_the_names_in_it(tmp_path: Path) -> None:
    """Not by what is in the files."""
    texts = [names_in(str(tmp_path))]
    for name, content in (("a", b"1"), ("b", b"1"), ("b", b"2")):
        (tmp_path / name).write_bytes(content)
        texts.append(names_in(str(tmp_path)))
    assert len(set(texts[:3])) == 3 and texts[2] == texts[3] and texts[2].startswith("2 names ")
    assert names_in(str(tmp_path / "a")) == names_in(str(tmp_path / "none")) == "absent"


def test_files_are_digested_up_to_a_number_of_bytes_in_all(tmp_path: Path) -> None:
    """One of as many bytes as are left is digested, and one of more is too large."""
    for name, size in (("a", 60), ("b", 40), ("c", 41)):
        (tmp_path / name).write_bytes(b"x" * size)
    for second, expected in (("b", of(b"x" * 40)), ("c", TOO_LARGE)):
        contents = Contents(100)
        assert contents.of_file(str(tmp_path / "a")) == of(b"x" * 60)
        assert contents.of_file(str(tmp_path / second)) == expected


def test_an_empty_log_of_a_database_is_none(tmp_path: Path) -> None:
    """SQLite makes one to read."""
    for name, expected in (("rates.db-wal", "absent"), ("rates.db", of(b""))):
        (tmp_path / name).touch()
        assert Contents().of_file(str(tmp_path / name)) == expected
    (tmp_path / "rates.db-wal").write_bytes(b"1")
    assert Contents().of_file(str(tmp_path / "rates.db-wal")) == of(b"1")
