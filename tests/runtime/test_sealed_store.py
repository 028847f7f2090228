"""Graphs and traces of a root as a program reads and writes them: only what is sealed for its key is opened."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from jcache.findings import Damage, Finding
from jcache.fingerprint.io.digests import now
from jcache.formats.envelope import Codec, seal
from jcache.layout import Kind, Root
from jcache.runtime.dependencies import dependencies_of, staleness
from jcache.runtime.events import Refusal
from jcache.runtime.sealed_store import OpenedEntry, open_entry, store_of
from jcache.store.put_result import Outcome
from jcache.store.quarantine import Quarantine
from tests.helpers.entries import NOW, key

KIND = Kind.GRAPHS
KEY = key(1, "mesh")


def sealed(a_key: str = KEY, parts: Mapping[str, str] | None = None, *, kind: Kind = KIND) -> bytes:
    """The bytes of an entry."""
    return seal(
        b"payload", kind=kind, name="mesh", key=a_key, build_seconds=1.0, created_ns=NOW, key_parts=dict(parts or {}),
        codec=Codec.NONE,
    )  # fmt: skip


@pytest.fixture
def place(native: Root) -> Path:
    """Return the path of the entry."""
    directory = native.directory(KIND)
    directory.mkdir(exist_ok=True)
    return directory / f"{KEY}-cache"


def test_a_sealed_entry_is_opened(native: Root, place: Path) -> None:
    """Its header, payload and file are told; where there is none, or no directory, the answer is None."""
    assert open_entry(native, KIND, KEY) is None
    assert open_entry(native, Kind.TRACES, KEY) is None
    place.write_bytes(sealed(KEY, {"a": "1"}))
    opened = open_entry(native, KIND, KEY)
    assert isinstance(opened, OpenedEntry)
    assert (bytes(opened.payload), opened.path, opened.stamp.bytes) == (b"payload", place, place.stat().st_size)
    finding = opened.finding(Damage.STALE, "It is old.")
    assert (finding.key, finding.kind, finding.path, finding.stamp) == (KEY, KIND, place, opened.stamp)


@pytest.mark.parametrize(
    ("make", "damage"),
    [
        (lambda path: path.write_bytes(sealed()[:-1]), Damage.SEAL),
        (lambda path: path.write_bytes(b""), Damage.SEAL),
        (lambda path: path.write_bytes(sealed(key(2, "mesh"))), Damage.NAME),
        (lambda path: path.write_bytes(sealed(kind=Kind.TRACES)), Damage.NAME),
        (lambda path: path.mkdir(), Damage.NOT_A_FILE),
        (lambda path: path.symlink_to("/dev/zero"), Damage.NOT_A_FILE),
        (lambda path: os.mkfifo(path), Damage.NOT_A_FILE),
    ],
    ids=["torn", "empty", "of another key", "of another kind", "a directory", "a link", "a pipe"],
)
def test_everything_else_of_its_name_is_a_finding(
    native: Root, place: Path, make: Callable[[Path], object], damage: Damage
) -> None:
    """What is torn, sealed for another name, or no file, is not opened, followed or waited for."""
    make(place)
    found = open_entry(native, KIND, KEY)
    assert isinstance(found, Finding)
    assert (found.damage, found.kind, found.key, found.path) == (damage, KIND, KEY, place)


def test_an_entry_is_stale_once_a_dependency_has_changed(native: Root, place: Path, tmp_path: Path) -> None:
    """A file that was read counts beside the parts of the key, which the key itself covers."""
    (tmp_path / "rates.txt").write_text("1")
    label = f"file {tmp_path / 'rates.txt'}"
    place.write_bytes(sealed(KEY, {"x": "2", **now([label])}))
    opened = open_entry(native, KIND, KEY)
    assert isinstance(opened, OpenedEntry)
    assert dependencies_of(opened.header, {"x": "2"}).keys() == {label}
    assert staleness(opened.header, {"x": "2"}, native) == []
    (tmp_path / "rates.txt").write_text("2")
    (change,) = staleness(opened.header, {"x": "2"}, native)
    assert "rates.txt" in change
    assert staleness(opened.header, opened.header.key_parts, native) == []


def test_users_of_one_root_share_a_store(native: Root) -> None:
    """The same root, kind, bound and time to wait give the same store, as long as somebody has it."""
    first = store_of(native, KIND, max_bytes=None, lock_timeout=1.0)
    assert store_of(native, KIND, max_bytes=None, lock_timeout=1.0) is first
    assert store_of(native, Kind.TRACES, max_bytes=None, lock_timeout=1.0) is not first
    assert store_of(native, KIND, max_bytes=10, lock_timeout=1.0) is not first


def test_what_cannot_be_stored_is_warned_of_once(native: Root, place: Path) -> None:
    """An entry over the bound is refused with a warning for its key; one that fits is stored, and never replaced."""
    data = sealed()
    small = store_of(native, KIND, max_bytes=len(data) - 1, lock_timeout=1.0)
    with pytest.warns(UserWarning, match="are bounded by") as told:
        assert [small.put_softly(KEY, data, 1.0) for _ in range(2)] == [Refusal.TOO_LARGE] * 2
    assert len(told) == 1 and not small.has(KEY)
    large = store_of(native, KIND, max_bytes=None, lock_timeout=1.0)
    assert large.put_softly(KEY, data, 1.0) is Outcome.STORED and large.has(KEY)
    assert large.put_softly(KEY, sealed(KEY, {"other": "1"}), 1.0) is Outcome.PRESENT and place.read_bytes() == data


def test_a_damaged_entry_is_set_aside_with_a_warning(native: Root, place: Path) -> None:
    """It goes to quarantine, and the next put of its key stores it again."""
    place.write_bytes(sealed()[:-1])
    store = store_of(native, KIND, max_bytes=None, lock_timeout=1.0)
    found = open_entry(native, KIND, KEY)
    assert isinstance(found, Finding)
    with pytest.warns(UserWarning, match=r"was damaged .*: it is in quarantine now"):
        store.quarantine_softly(found)
    assert [record.key for record in Quarantine(native).records()] == [KEY]
    assert store.put(KEY, sealed(), 1.0) is Outcome.STORED
