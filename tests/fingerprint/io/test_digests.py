"""Files and environment variables as short texts."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jcache.fingerprint.io.digests import now
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
