"""What a root lacks comes from a store, checked and in time; a store that fails costs a program next to nothing."""

import os
import resource
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jcache.errors import InvalidValue
from jcache.formats.digest import digest
from jcache.layout import Kind, Root
from jcache.remote import open_remote
from jcache.remote.client import Remote
from jcache.remote.names import CLAIMS, claim_name, entry_name
from jcache.remote.usage import batch_names, read_batch, short_name
from jcache.runtime import circuit_breaker, remote_request, remote_tier
from jcache.runtime.events import EventKind
from jcache.runtime.remote_request import deadline_s
from jcache.runtime.remote_tier import RemoteTier
from jcache.store.roots import create_root
from tests.helpers.entries import key
from tests.helpers.executable_caches import Caches, entry_of
from tests.helpers.imports import content
from tests.helpers.remote_servers import (
    DirectoryHandler,
    S3Server,
    answering,
    faulty_server,
    hanging,
    refusing,
    web_server,
)

SPACE = "0.10.2_cpu_cpu"
EXECUTABLES = Kind.EXECUTABLES
Serve = Callable[[socket.socket], None]


def data_of(number: int) -> bytes:
    return content(EXECUTABLES, key(number))


class Tiers:
    """Makes tiers of a store, and keeps what they warn of."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def __call__(self, url: str, *, writes: bool = False) -> RemoteTier:
        return RemoteTier(url, writes=writes, namespace=lambda: SPACE, warn=self.said.append)


@pytest.fixture
def tiers() -> Tiers:
    """Makes tiers, and keeps what they warn of."""
    return Tiers()


def url_of(remote: Remote) -> str:
    return str(remote)


def test_an_entry_comes_from_the_store_and_stays(remote: Remote, tiers: Tiers, caches: Caches, native: Root) -> None:
    """The first look-up has the store's bytes, and the next one needs no store."""
    remote.put(EXECUTABLES, SPACE, key(1), data_of(1), seconds=7.5)
    cache = caches(native, remote=tiers(url_of(remote)))
    assert cache.get(key(1)) == data_of(1)
    assert cache.get(key(2)) is None
    assert caches(native).get(key(1)) == data_of(1)
    assert entry_of(native, key(1)).read_bytes() == data_of(1)
    assert tiers.said == [] and caches.said == []


def test_what_is_stored_is_in_the_store_after_a_flush(
    remote: Remote, tiers: Tiers, caches: Caches, native: Root, tmp_path: Path
) -> None:
    """A program that writes stores new entries in both places; one that does not leaves the store alone."""
    tier, reader = tiers(url_of(remote), writes=True), tiers(url_of(remote))
    caches(native, remote=tier).put(key(1), data_of(1))
    caches(native, remote=reader).put(key(2), data_of(2))
    tier.flush(60)
    reader.flush(60)
    assert remote.get(EXECUTABLES, SPACE, key(1)) == data_of(1)
    assert remote.get(EXECUTABLES, SPACE, key(2)) is None
    other = create_root(tmp_path / "other")
    assert caches(other, remote=tiers(url_of(remote))).get(key(1)) == data_of(1)


def test_uses_are_recorded_by_those_who_may_write(tiers: Tiers, tmp_path: Path) -> None:
    """What a program gets from the store is in one batch of uses, from which a prune plans."""
    url = f"file://{tmp_path}/store"
    for number in range(3):
        open_remote(url).put(EXECUTABLES, SPACE, key(number), data_of(number))
    for writes in (False, True):
        tier = tiers(url, writes=writes)
        assert all(tier.get(EXECUTABLES, key(number)) for number in range(2)) and tier.get(EXECUTABLES, key(9)) is None
        tier.flush(60)
        tier.flush(60)
    with open_remote(url) as remote:
        (batch,) = batch_names(remote)
        names = sorted(name for name, _ in read_batch(remote, batch))
    assert names == sorted(short_name((EXECUTABLES, SPACE, key(number))) for number in range(2))


@pytest.mark.parametrize("kind", [Kind.TRACES, Kind.GRAPHS])
def test_sealed_entries_have_no_namespace(kind: Kind, tiers: Tiers, tmp_path: Path) -> None:
    """Traces and graphs come and go as executables do."""
    url, data = f"file://{tmp_path}/store", content(kind, key(1))
    tier = tiers(url, writes=True)
    assert tier.get(kind, key(1)) is None
    tier.offer(kind, key(1), data, 1.5)
    tier.flush(60)
    assert tiers(url).get(kind, key(1)) == (data, 1.5)


@pytest.mark.parametrize("wrong", [b"", data_of(1)[:-1], data_of(2)[:-20], b"\x00" * 300])
@pytest.mark.parametrize("claims_it", [False, True])
def test_damage_is_never_served(wrong: bytes, claims_it: bool, tiers: Tiers, tmp_path: Path) -> None:
    """Bytes without their digest, or that are no executable, are a miss; a program that writes mends them."""
    url = f"file://{tmp_path}/store"
    remote = open_remote(url)
    remote.put(EXECUTABLES, SPACE, key(1), data_of(1))
    if claims_it:
        remote.put(EXECUTABLES, SPACE, key(1), wrong, digest=digest(wrong), replace=True)
    else:
        remote.transport.put(entry_name(EXECUTABLES, SPACE, key(1)), wrong, {}, replace=True)
    tier = tiers(url, writes=True)
    assert tier.get(EXECUTABLES, key(1)) is None
    tier.offer(EXECUTABLES, key(1), data_of(1), None)
    tier.flush(60)
    assert len(tiers.said) == claims_it
    assert open_remote(url).get(EXECUTABLES, SPACE, key(1)) == data_of(1)


def cut_off(connection: socket.socket) -> None:
    connection.recv(1 << 16)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")


FAULTS = [answering(503), answering(500), cut_off, answering(200, "Content-Length: 9\r\n", b"no")]


@pytest.mark.parametrize("serve", FAULTS)
def test_a_store_that_fails_costs_little(serve: Serve, tiers: Tiers, caches: Caches, native: Root) -> None:
    """Fifty look-ups are misses, with two requests, one warning, and little time and CPU."""
    asked = list[int]()

    def count(connection: socket.socket) -> None:
        asked.append(1)
        serve(connection)

    with faulty_server(count) as place:
        cache = caches(native, remote=tiers(f"http://{place}", writes=True))
        before, began = resource.getrusage(resource.RUSAGE_SELF).ru_utime, time.monotonic()
        for number in range(50):
            assert cache.get(key(number)) is None
        assert time.monotonic() - began < 10
        assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 0.5
    assert len(asked) == 2 and len(tiers.said) == 1 and caches.said == []


def test_a_store_that_refuses_connections_costs_little(tiers: Tiers) -> None:
    """Fifty look-ups end at once, with one warning that names the store."""
    place = refusing()
    tier, began = tiers(f"http://{place}"), time.monotonic()
    assert all(tier.get(kind, key(number)) is None for kind in Kind for number in range(50))
    assert time.monotonic() - began < 5
    assert len(tiers.said) == 1 and place in tiers.said[0]


def test_a_store_that_hangs_costs_its_deadline_once(tiers: Tiers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits gives up at the deadline, and nobody waits again for half a minute."""
    monkeypatch.setattr(remote_request, "_UNTIL_HEADERS_S", 0.3)
    with faulty_server(hanging) as place:
        tier, began = tiers(f"http://{place}"), time.monotonic()
        assert all(tier.get(EXECUTABLES, key(number)) is None for number in range(20))
        assert 0.3 <= time.monotonic() - began < 10
    assert len(tiers.said) == 1 and "in time" in tiers.said[0]


def test_a_store_that_trickles_is_given_up(tiers: Tiers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that come too slowly for their number are not waited for."""
    monkeypatch.setattr(remote_request, "_LEAST_S", 0.3)

    def trickle(connection: socket.socket) -> None:
        if b"-digest " in connection.recv(1 << 16):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(1000):
            connection.sendall(b"x")
            time.sleep(0.1)

    with faulty_server(trickle) as place:
        tier, began = tiers(f"http://{place}"), time.monotonic()
        assert tier.get(EXECUTABLES, key(1)) is None
        assert time.monotonic() - began < 3
    assert len(tiers.said) == 1 and "in time" in tiers.said[0]


def test_one_failure_is_repaired_by_a_second_try(tiers: Tiers, tmp_path: Path) -> None:
    """A store that fails once is asked again at once, and nobody is told."""
    failures = list[int]()

    class FailsOnce(DirectoryHandler):
        def do_GET(self) -> None:
            if failures:
                self.answer(failures.pop())
            else:
                super().do_GET()

    with web_server(tmp_path / "web", FailsOnce) as server:
        open_remote(server.url).put(EXECUTABLES, SPACE, key(1), data_of(1))
        failures[:] = [503]
        assert tiers(server.url).get(EXECUTABLES, key(1)) == (data_of(1), 3.0)
    assert tiers.said == []


def test_a_denial_is_a_miss(tiers: Tiers) -> None:
    """A store that denies reading is asked for the next entry all the same: some answer so for what is not there."""
    asked = list[int]()

    def deny(connection: socket.socket) -> None:
        asked.append(1)
        answering(403)(connection)

    with faulty_server(deny) as place:
        tier = tiers(f"http://{place}")
        assert all(tier.get(EXECUTABLES, key(number)) is None for number in range(5))
    assert len(asked) == 5 and len(tiers.said) == 1


def test_it_is_asked_again_after_half_a_minute(tiers: Tiers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that has come back serves hits again."""
    with web_server(tmp_path / "web") as server:
        open_remote(server.url).put(EXECUTABLES, SPACE, key(1), data_of(1))
        tier = tiers(server.url)
        tier._breaker.open()
        assert tier.get(EXECUTABLES, key(1)) is None
        monkeypatch.setattr(circuit_breaker, "PAUSE_S", 0.0)
        assert tier.get(EXECUTABLES, key(1)) is not None
        monkeypatch.undo()
        assert tier.get(EXECUTABLES, key(1)) is not None


def test_sixteen_threads_at_once(tiers: Tiers, caches: Caches, native: Root, tmp_path: Path) -> None:
    """Threads that ask for the same entries all get them."""
    url = f"file://{tmp_path}/store"
    for number in range(5):
        open_remote(url).put(EXECUTABLES, SPACE, key(number), data_of(number))
    cache, found = caches(native, remote=tiers(url, writes=True)), list[bool]()

    def ask() -> None:
        found.extend(cache.get(key(number)) == data_of(number) for number in range(5))

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 80 and caches.said == []


@pytest.mark.parametrize("sort", ["file", "http"])
def test_a_forked_child(sort: str, tiers: Tiers, tmp_path: Path) -> None:
    """A child asks a web server as its parent does; obstore does not work in it, so it has misses, and is told once."""
    with web_server(tmp_path / "web") as server:
        url = server.url if sort == "http" else f"file://{tmp_path}/web"
        open_remote(server.url).put(EXECUTABLES, SPACE, key(1), data_of(1))
        tier = tiers(url, writes=True)
        assert tier.get(EXECUTABLES, key(1)) is not None
        tier.offer(EXECUTABLES, key(2), data_of(2), None)
        child = os.fork()
        if child == 0:
            found = tier.get(EXECUTABLES, key(1)) or tier.get(EXECUTABLES, key(1))
            tier.offer(EXECUTABLES, key(3), data_of(3), None)
            tier.flush(20)
            is_told = [text for text in tiers.said if "not asked in forked processes" in text]
            os._exit(0 if (found is None) == (sort == "file") == len(is_told) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        tier.flush(20)
        assert tier.get(EXECUTABLES, key(1)) == (data_of(1), 3.0)
        assert open_remote(server.url).get(EXECUTABLES, SPACE, key(2)) == data_of(2)
        assert (open_remote(server.url).get(EXECUTABLES, SPACE, key(3)) is not None) == (sort == "http")


@pytest.mark.parametrize("max_size", [0, 10])
def test_what_is_too_large_for_the_root_is_used_all_the_same(
    max_size: int, tiers: Tiers, caches: Caches, native: Root, tmp_path: Path
) -> None:
    """An entry above the root's bound is a hit that is not kept, without a warning."""
    url = f"file://{tmp_path}/store"
    open_remote(url).put(EXECUTABLES, SPACE, key(1), data_of(1))
    cache = caches(native, remote=tiers(url), max_size=max_size)
    assert cache.get(key(1)) == data_of(1)
    assert not entry_of(native, key(1)).exists() and caches.said == []
    assert caches.count(cache, EventKind.HIT) == 1 and caches.count(cache, EventKind.REFUSED) == 0


def test_odd_keys_are_misses(tiers: Tiers, tmp_path: Path) -> None:
    """A key that cannot name an object is asked nobody."""
    tier = tiers(f"file://{tmp_path}", writes=True)
    for odd in ("", "../x", "a/b", "x" * 300, "no-hash"):
        assert tier.get(EXECUTABLES, odd) is None
        tier.offer(EXECUTABLES, odd, b"x", None)
    tier.flush(20)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_store() -> None:
    """A URL that is none is an error when the tier is made."""
    with pytest.raises(InvalidValue, match="no address of a store"):
        RemoteTier("ftp://host/x", warn=print)


def test_deadlines() -> None:
    """They grow with the size, and are no longer than building took, but for a least time."""
    assert deadline_s(0, None) == deadline_s(0, 100.0) == deadline_s(1 << 30, 0.1) == 2.0
    assert deadline_s(40 << 20, None) == 12.0
    assert deadline_s(40 << 20, 5.0) == 5.0
    assert deadline_s(100 << 30, None) == deadline_s(100 << 30, 1000.0) == 50.0


@pytest.mark.full
def test_a_real_store(s3: S3Server, tiers: Tiers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """S3 with a writer and with a reader: what one stores the other hits, and the reader's uploads end quietly."""
    url = f"s3://jcache/{tmp_path.parent.name}-{tmp_path.name}"
    for name, value in s3.writer.items():
        monkeypatch.setenv(name, value)
    writer = tiers(url, writes=True)
    for number in range(10):
        writer.offer(EXECUTABLES, key(number), data_of(number), 3.0)
    writer.flush(60)
    for name, value in s3.reader.items():
        monkeypatch.setenv(name, value)
    reader = tiers(url, writes=True)
    find = partial(reader.get, EXECUTABLES)
    assert [find(key(number)) for number in range(10)] == [(data_of(number), 3.0) for number in range(10)]
    assert find(key(11)) is None and tiers.said == []
    reader.offer(EXECUTABLES, key(11), data_of(11), 3.0)
    reader.flush(60)
    assert find(key(11)) is None and len(tiers.said) == 1 and "does not allow" in tiers.said[0]


def compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the tiers of the test believe that JAX compiles in each thread."""
    monkeypatch.setattr(remote_tier, "is_compiling", lambda: True)


def test_what_another_host_compiles_is_waited_for(
    remote: Remote, tiers: Tiers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first host that lacks an executable compiles it, and all others get what it stores."""
    compiling(monkeypatch)
    first, others = tiers(str(remote), writes=True), [tiers(str(remote), writes=True) for _ in range(3)]
    assert first.get(EXECUTABLES, key(1)) is None
    with ThreadPoolExecutor() as pool:
        waiting = [pool.submit(other.get, EXECUTABLES, key(1)) for other in others]
        time.sleep(0.3)
        assert not any(each.done() for each in waiting)
        first.offer(EXECUTABLES, key(1), data_of(1), 3.0)
        first.compiled()
        assert [each.result() for each in waiting] == [(data_of(1), 3.0)] * 3
    for tier in (first, *others):
        tier.flush()
    assert tiers.said == []
    assert not remote.can_list or not list(remote.transport.objects(CLAIMS))


def test_what_another_host_does_not_store_is_not_waited_for(tmp_path: Path, tiers: Tiers, monkeypatch: Any) -> None:
    """Where the first host stores nothing, since compiling was quick or failed, the next one compiles at once."""
    compiling(monkeypatch)
    first, other = (tiers((tmp_path / "store").as_uri(), writes=True) for _ in range(2))
    assert first.get(EXECUTABLES, key(1)) is None
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(other.get, EXECUTABLES, key(1))
        time.sleep(0.2)
        assert not waiting.done()
        first.compiled()
        assert waiting.result() is None
    assert other.get(EXECUTABLES, key(1)) is None
    other.compiled()
    first.flush()
    other.flush()


def test_no_more_than_two_hosts_are_waited_for(tmp_path: Path, tiers: Tiers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one host after the other claims an executable and stores none, a program compiles it itself."""
    compiling(monkeypatch)
    remote, ends = open_remote((tmp_path / "store").as_uri()), threading.Event()
    tier, name = tiers(str(remote), writes=True), claim_name(SPACE, key(1))
    remote.transport.put(name, b"0" * 16 + b" 1", {}, replace=False)

    def claim_in_turn() -> None:
        number = 0
        while not ends.wait(0.2):
            number += 1
            remote.transport.put(name, f"{number:016x} {number}".encode(), {}, replace=True)

    with ThreadPoolExecutor() as pool:
        others = pool.submit(claim_in_turn)
        assert tier.get(EXECUTABLES, key(1)) is None
        ends.set()
        others.result()
    assert tier._waits_in_vain == 0


def test_a_host_that_died_is_not_waited_for_long(tmp_path: Path, tiers: Tiers, monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim whose text does not change is taken over after some seconds, by one of those that wait."""
    compiling(monkeypatch)
    monkeypatch.setattr(remote_tier, "SILENCE_S", 0.5)
    remote = open_remote((tmp_path / "store").as_uri())
    remote.transport.put(claim_name(SPACE, key(1)), b"00000000dead0000 7", {}, replace=False)
    tier, began = tiers(str(remote), writes=True), time.monotonic()
    assert tier.get(EXECUTABLES, key(1)) is None and time.monotonic() - began > 0.5
    found = remote.transport.get(claim_name(SPACE, key(1)))
    assert found is not None and b"dead" not in found.data
    tier.compiled()
    tier.flush()
    found = remote.transport.get(claim_name(SPACE, key(1)))
    assert found is not None and found.data == b"not stored" and tiers.said == []
    for number in range(2, 9):  # many died, or the store was copied meanwhile
        remote.transport.put(claim_name(SPACE, key(number)), b"00000000dead0000 7", {}, replace=False)
    assert not any(tier.get(EXECUTABLES, key(number)) for number in range(2, 9))
    assert tier._waits_in_vain == 3
    tier.compiled()
    tier.flush()


def test_what_is_no_claim_is_not_waited_for(tmp_path: Path, tiers: Tiers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else stands in a claim's place holds up nobody."""
    compiling(monkeypatch)
    remote = open_remote((tmp_path / "store").as_uri())
    for number, text in enumerate([b"", b"done", b"digest nothing", b"<html>", b"\xff" * 100, b"0" * 16]):
        remote.transport.put(claim_name(SPACE, key(number)), text, {}, replace=False)
        tier = tiers(str(remote), writes=True)
        assert tier.get(EXECUTABLES, key(number)) is None and tier._waits_in_vain == 0
        tier.compiled()
        tier.flush()
        found = remote.transport.get(claim_name(SPACE, key(number)))
        assert found is not None and found.data == b"not stored"


def test_who_only_reads_claims_nothing(tmp_path: Path, tiers: Tiers, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that does not write to the store neither claims nor waits; nor does one that is not compiling."""
    remote = open_remote((tmp_path / "store").as_uri())
    remote.transport.put(claim_name(SPACE, key(1)), b"0000000000000000 7", {}, replace=False)
    assert tiers(str(remote), writes=True).get(EXECUTABLES, key(1)) is None
    compiling(monkeypatch)
    assert tiers(str(remote)).get(EXECUTABLES, key(1)) is None
    assert tiers(str(remote), writes=True).get(Kind.TRACES, key(1)) is None
    assert len([one for batch in remote.transport.objects(CLAIMS) for one in batch]) == 1
