"""Graphs that other code reads from a file: written to a temporary path, handed over at a stable one."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from jcache.entry import Entry
from jcache.errors import InvalidValue, NotStorable
from jcache.findings import Damage, Finding
from jcache.graphs import file_codec
from jcache.graphs.file_codec import FileCodec, hand_over
from jcache.layout import Kind, Root
from jcache.store.directories import Directories
from jcache.store.quarantine import Quarantine
from jcache.store.removal import unlink
from jcache.store.roots import create_root
from tests.helpers.entries import DAY, NOW, add, key, mounted_read_only

KEY = key(1, "mesh")
PAYLOAD = memoryview(b"\0\1 the bytes of a file\n" * 99)


def save(value: str, path: str) -> None:
    assert isinstance(path, str) and not os.path.lexists(path)
    Path(path).write_text(value)


def load(path: str) -> str:
    return Path(path).read_text()


@pytest.fixture(name="root")
def root_fixture(tmp_path: Path) -> Root:
    return create_root(tmp_path / "root")


@pytest.mark.parametrize("value", ["", "text", "x" * 3_000_000])
def test_a_value_becomes_what_save_writes(tmp_path: Path, value: str) -> None:
    """The payload is the file that ``save`` wrote at a new path, which is gone afterwards."""
    codec = FileCodec(save, load)
    for directory in (tmp_path / "new", None):
        dumped = codec.dump(value, directory)
        assert b"".join(dumped.pieces) == value.encode()
        assert dumped.codec == codec.name == "file:tests.graphs.test_file_codec:save"
    assert list((tmp_path / "new").iterdir()) == []


def nothing(_value: object, _path: str) -> None: ...


def link(_value: object, path: str) -> None:
    os.symlink("/etc/hostname", path)


def failing(_value: object, path: str) -> None:
    Path(path).write_text("half")
    raise KeyError("no such thing")


@pytest.mark.parametrize(
    ("broken", "message"),
    [(nothing, "its `save` has written no file"), (link, "its `save` raised"), (failing, "no such thing")],
)
def test_a_save_that_fails_is_a_refusal(tmp_path: Path, broken: Any, message: str) -> None:
    """What ``save`` raises, or does not write, is said in one sentence, and nothing is left."""
    with pytest.raises(NotStorable, match=message) as refused:
        FileCodec(broken, load).dump("x", tmp_path)
    assert str(refused.value).startswith("FileCodec('tests.graphs.test_file_codec:") and "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_a_codec_has_functions_and_a_name() -> None:
    """What cannot be called, and a ``save`` without a name of its own, are refused as wrong arguments."""
    with pytest.raises(InvalidValue, match="two functions"):
        FileCodec(3, load)  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="needs a `name`"):
        FileCodec(lambda value, path: None, load)
    assert FileCodec(lambda value, path: None, load, name="mesh-2").name == "file:mesh-2"


def test_a_file_is_handed_over_once(root: Root) -> None:
    """It lies at one path, as long as it is what the entry holds; what differs is written anew at the next load."""
    path = hand_over(root, KEY, PAYLOAD)
    assert path == root.handed / KEY and path.read_bytes() == PAYLOAD
    inode = path.stat().st_ino
    assert hand_over(root, KEY, PAYLOAD) == path and path.stat().st_ino == inode
    for changed in (b"", bytes(PAYLOAD)[:-1], bytes(PAYLOAD)[:-1] + b"x", bytes(PAYLOAD) + b"x"):
        path.write_bytes(changed)
        assert hand_over(root, KEY, PAYLOAD).read_bytes() == PAYLOAD
    assert os.listdir(root.handed) == [KEY]


def test_a_file_that_is_the_same_is_not_compared_again(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process compares a file once for a content, and again if the file was changed or another content is due."""
    path = hand_over(root, KEY, PAYLOAD, "content")
    time.sleep(0.1)  # so that its change time is older than the steps in which it is counted
    hand_over(root, KEY, PAYLOAD, "content")
    with monkeypatch.context() as patch:
        patch.setattr(file_codec, "_holds", None)
        assert hand_over(root, KEY, PAYLOAD, "content") == path
    before = path.stat()
    path.write_bytes(b"x" * len(PAYLOAD))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert hand_over(root, KEY, PAYLOAD, "content").read_bytes() == PAYLOAD
    time.sleep(0.1)
    hand_over(root, KEY, PAYLOAD, "content")
    other = memoryview(b"y" * len(PAYLOAD))
    assert hand_over(root, KEY, other, "other content").read_bytes() == other


def test_no_link_is_followed(root: Root, tmp_path: Path) -> None:
    """A link in the file's place is replaced, and what it points to stays as it is."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    root.handed.mkdir(parents=True)
    (root.handed / KEY).symlink_to(victim)
    assert hand_over(root, KEY, PAYLOAD).read_bytes() == PAYLOAD
    assert victim.read_bytes() == b"mine" and not (root.handed / KEY).is_symlink()


@pytest.mark.parametrize("wrong", ["../" + KEY, "x", "a/" + KEY])
def test_only_keys_are_names(root: Root, wrong: str) -> None:
    """What is no key is no name of a file."""
    with pytest.raises(InvalidValue):
        hand_over(root, wrong, PAYLOAD)


READ_ONLY = """
import os, sys
from pathlib import Path
from jcache.graphs.file_codec import hand_over
from jcache.layout import Root
root, key, payload = Root(Path(sys.argv[1]), False), sys.argv[2], memoryview(b"bytes")
path = hand_over(root, key, payload)
assert path.read_bytes() == b"bytes" and path == hand_over(root, key, payload)
if os.fork() == 0:
    sys.exit(0)
os.wait()
assert path.exists()
print(path)
"""


def test_a_root_that_is_read_only_hands_over_elsewhere(root: Root) -> None:
    """The file then lies in a directory that goes with the process, but not with one that it has forked."""
    with mounted_read_only(root.path):
        done = subprocess.run(
            [sys.executable, "-c", READ_ONLY, root.path, KEY], capture_output=True, text=True, check=True
        )
    path = Path(done.stdout.strip())
    assert path.is_relative_to(tempfile.gettempdir()) and not path.parent.exists()


def test_the_file_goes_with_its_entry(root: Root) -> None:
    """Removing the entry, or putting it in quarantine, removes the file; who has it open keeps it."""
    entry = Entry(Kind.GRAPHS, KEY, 100, NOW, NOW, sidecar=False)
    directory = root.directory(Kind.GRAPHS)
    add(directory, KEY)
    with open(hand_over(root, KEY, PAYLOAD), "rb") as file:
        with Directories(root) as directories:
            assert unlink(root, entry, directories) == 100
        assert not (root.handed / KEY).exists() and file.read() == PAYLOAD
    damaged = Finding(damage=Damage.SEAL, path=add(directory, KEY), evidence="", kind=Kind.GRAPHS, key=KEY)
    path = hand_over(root, KEY, PAYLOAD)
    Quarantine(root).take(damaged, NOW)
    assert not path.exists()
    executable = Finding(damage=Damage.SEAL, path=add(root.directory(Kind.EXECUTABLES), KEY), evidence="",
                         kind=Kind.EXECUTABLES, key=KEY)  # fmt: skip
    path = hand_over(root, KEY, PAYLOAD)
    Quarantine(root).take(executable, NOW)
    assert path.exists()


def test_files_of_nobody_are_swept(root: Root) -> None:
    """A file whose entry is gone, and one that a killed process left half written, go when they are old."""
    import time

    kept = hand_over(root, KEY, PAYLOAD)
    add(root.directory(Kind.GRAPHS), KEY)
    orphan = hand_over(root, key(2), PAYLOAD)
    (half := root.handed / ".jcache-tmp-0123456789abcdef").write_bytes(b"half")
    quarantine = Quarantine(root)
    assert quarantine.sweep(time.time_ns() - DAY) == 0
    assert quarantine.sweep(time.time_ns() + DAY) == 2
    assert kept.exists() and not orphan.exists() and not half.exists()
