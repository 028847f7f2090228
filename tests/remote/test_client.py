"""Entries come back as they were stored, or not at all, from every sort of store."""

import threading
from pathlib import Path
from random import Random

import pytest

from jcache.errors import InvalidValue, RemoteUnavailable
from jcache.formats.digest import digest
from jcache.layout import Kind
from jcache.remote.client import Remote, open_remote
from jcache.remote.names import digest_name, entry_name
from tests.helpers.entries import key
from tests.helpers.imports import content

SPACE = "0.10.2_cpu_cpu"
ONE = Kind.EXECUTABLES, SPACE, key(1)


def data_of(number: int) -> bytes:
    return content(Kind.EXECUTABLES, key(1), number)


def test_what_was_stored_comes_back(remote: Remote) -> None:
    """An entry of each kind is read as it was stored, with its seconds, and others are absent."""
    for kind in Kind:
        entry = kind, SPACE if kind is Kind.EXECUTABLES else "", key(2)
        data = content(kind, key(2))
        assert remote.get(*entry) is None and not remote.exists(*entry)
        assert remote.put(*entry, data, seconds=2.5)
        found = remote.find(*entry)
        assert found is not None and found == (data, digest(data), 2.5)
        assert remote.exists(*entry) and remote.digest(*entry) == digest(data)
    assert remote.get(Kind.TRACES, "", key(3)) is None


def test_the_start_of_an_object(remote: Remote) -> None:
    """The first bytes of an object are read alone; there are none of one that is absent."""
    assert remote.transport.start("v1/generations/a.jcache", 4) is None
    assert remote.transport.put("v1/generations/a.jcache", b"0123456789", {}, replace=False)
    assert remote.transport.start("v1/generations/a.jcache", 4) == b"0123"
    assert remote.transport.start("v1/generations/a.jcache", 10) == b"0123456789"


def test_entries_are_immutable(remote: Remote) -> None:
    """Storing other bytes under a key is a lost race, which changes nothing."""
    assert remote.put(*ONE, data_of(1))
    assert not remote.put(*ONE, data_of(2))
    assert remote.get(*ONE) == data_of(1)
    assert remote.put(*ONE, data_of(2), replace=True)
    assert remote.get(*ONE) == data_of(2)


@pytest.mark.parametrize("wrong", [b"", b"\x00" * 10, data_of(1)[:-1], data_of(1) + b"x", data_of(3)])
def test_damage_is_never_served_and_then_overwritten(remote: Remote, wrong: bytes) -> None:
    """An object with other bytes than its digest is not returned, and the next put replaces it."""
    assert remote.put(*ONE, data_of(1))
    name = entry_name(*ONE)
    if remote.transport.keeps_metadata:
        remote.transport.put(name, wrong, {"digest": digest(data_of(1))}, replace=True)
    else:
        remote.transport.put(name, wrong, {}, replace=True)
    assert remote.get(*ONE) is None
    assert remote.put(*ONE, data_of(2))
    assert remote.get(*ONE) == data_of(2)


def test_nothing_without_a_digest_is_served(remote: Remote) -> None:
    """An object that another program has put there is no entry, and whoever has the entry replaces it."""
    remote.transport.put(entry_name(*ONE), data_of(1), {}, replace=False)
    assert remote.get(*ONE) is None and not remote.exists(*ONE)
    remote.put(*ONE, data_of(1))
    assert remote.get(*ONE) == data_of(1)


def test_bytes_of_a_known_digest(remote: Remote) -> None:
    """Whoever knows digest and size gets these bytes or nothing: of a shorter, longer, other or absent object."""
    data, name = data_of(1), entry_name(*ONE)
    assert remote.find_exact(*ONE, digest(data), len(data)) is None
    remote.put(*ONE, data)
    assert remote.find_exact(*ONE, digest(data), len(data)) == data
    assert remote.find_exact(*ONE, digest(data), len(data) - 1) is None
    for other in (data[:-1], bytes(len(data)), b""):
        remote.transport.put(name, other, {}, replace=True)
        assert remote.find_exact(*ONE, digest(data), len(data)) is None
    remote.transport.put(name, data + b"more", {}, replace=True)
    assert remote.find_exact(*ONE, digest(data), len(data)) == data


def test_every_flipped_bit_is_found(tmp_path: Path, chance: Random) -> None:
    """No entry with a flipped bit, or a flipped bit in its digest, is returned."""
    remote = open_remote(f"file://{tmp_path}")
    remote.put(*ONE, data_of(1))
    for name in (entry_name(*ONE), digest_name(entry_name(*ONE))):
        file = tmp_path / name
        before = file.read_bytes()
        for at in chance.sample(range(8 * min(len(before), 70)), 100):
            flipped = bytearray(before)
            flipped[at // 8] ^= 1 << at % 8
            file.write_bytes(flipped)
            assert remote.get(*ONE) in (None, data_of(1))
        file.write_bytes(before)
    assert remote.get(*ONE) == data_of(1)


def test_eight_writers(remote: Remote) -> None:
    """Of writers of different bytes at once nobody fails, and afterwards the entry of one of them can be read."""
    datas = [data_of(number) for number in range(8)]
    start, failures = threading.Barrier(8), list[BaseException]()

    def write(data: bytes) -> None:
        try:
            start.wait()
            remote.put(*ONE, data)
        except BaseException as error:  # noqa: BLE001  the test tells
            failures.append(error)

    threads = [threading.Thread(target=write, args=(data,)) for data in datas]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    found = remote.get(*ONE)
    if found is None:  # bytes of one and the digest of another, which is a miss until somebody stores the entry
        assert not remote.transport.keeps_metadata
        assert remote.put(*ONE, datas[0])
        found = remote.get(*ONE)
    assert found in datas


def test_a_writer_that_died_between_digest_and_entry(tmp_path: Path) -> None:
    """A digest without an entry is a miss, and the next writer stores its own."""
    remote = open_remote(f"file://{tmp_path}")
    name = entry_name(*ONE)
    remote.transport.put(digest_name(name), f"digest {digest(data_of(1))}\n".encode(), {}, replace=False)
    assert remote.get(*ONE) is None and not remote.exists(*ONE)
    assert remote.put(*ONE, data_of(2)) and remote.get(*ONE) == data_of(2)


def test_listing_and_removing(remote: Remote) -> None:
    """A listing has every entry with its size, and nothing else; removed entries are gone."""
    if not remote.can_list:
        with pytest.raises(InvalidValue, match="cannot list"):
            list(remote.list())
        return
    entries = [(kind, SPACE if kind is Kind.EXECUTABLES else "", key(n)) for kind in Kind for n in range(3)]
    for kind, space, each in entries:
        remote.put(kind, space, each, content(kind, each))
    remote.transport.put("v1/executables/notes.txt", b"not ours", {}, replace=False)
    found = list(remote.list())
    assert sorted(one[:3] for one in found) == sorted(entries)
    assert {one.key: one.bytes for one in found if one.kind is Kind.TRACES} == {
        each: len(content(Kind.TRACES, each)) for kind, _, each in entries if kind is Kind.TRACES
    }
    assert [one[:3] for one in remote.list(Kind.GRAPHS)] and list(remote.list(Kind.EXECUTABLES, "x_y_z")) == []
    remote.delete(entries[:4])
    remote.delete(entries[:1])
    assert sorted(one[:3] for one in remote.list()) == sorted(entries[4:])
    assert remote.get(*entries[0]) is None


def test_a_store_that_is_not_there_is_empty(tmp_path: Path) -> None:
    """Reading makes no directory."""
    remote = open_remote(f"file://{tmp_path}/none")
    assert list(remote.list()) == [] and remote.get(*ONE) is None and not (tmp_path / "none").exists()


def test_bad_keys_and_namespaces(tmp_path: Path) -> None:
    """A name that leads elsewhere is refused before anything is asked."""
    remote = open_remote(f"file://{tmp_path}")
    for kind, space, each in [
        (Kind.EXECUTABLES, "..", key(1)), (Kind.EXECUTABLES, "a/b", key(1)), (Kind.EXECUTABLES, "", key(1)),
        (Kind.TRACES, SPACE, key(1)), (Kind.TRACES, "", "x"), (Kind.TRACES, "", "../" + key(1)),
    ]:  # fmt: skip
        with pytest.raises(InvalidValue):
            remote.get(kind, space, each)


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    """A failure is one sentence, and says where."""
    (tmp_path / "file").write_text("no directory")
    remote = open_remote(f"file://{tmp_path}/file")
    with pytest.raises(RemoteUnavailable, match="Cannot write to file://"):
        remote.put(*ONE, data_of(1))
