"""Entries go to a store in the background, from a bounded queue that never holds up a program."""

import socket
import threading
import time
from pathlib import Path

import pytest

from jcache.layout import Kind
from jcache.remote import Timeouts, open_remote
from jcache.runtime import remote_uploads
from jcache.runtime.circuit_breaker import CircuitBreaker
from jcache.runtime.remote_uploads import Upload, Uploads
from tests.helpers.entries import key
from tests.helpers.imports import content
from tests.helpers.remote_servers import answering, faulty_server, hanging, refusing, web_server

SPACE = "0.10.2_cpu_cpu"
QUICK = Timeouts(connect_s=1, request_s=20, retries=0)


def upload(number: int, *, replaces: bool = False) -> Upload:
    data = content(Kind.EXECUTABLES, key(number))
    return Upload(Kind.EXECUTABLES, SPACE, key(number), data, 2.0, replaces)


def uploads_to(url: str, told: list[str]) -> Uploads:
    return Uploads(open_remote(url, QUICK), CircuitBreaker(), told.append)


def test_what_is_offered_is_stored(tmp_path: Path) -> None:
    """After a flush, every entry is in the store with its seconds."""
    told: list[str] = []
    with web_server(tmp_path / "web") as server:
        uploads = uploads_to(server.url, told)
        assert all(uploads.offer(upload(number)) for number in range(20))
        assert uploads.flush(20) and uploads.flush(0)
        remote = open_remote(server.url)
        for number in range(20):
            found = remote.find(Kind.EXECUTABLES, SPACE, key(number))
            assert found is not None and (found.data, found.seconds) == (upload(number).data, 2.0)
    assert told == []


def test_a_full_queue_drops_what_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the store is slow, no more is kept than the queue holds, and nobody waits."""
    monkeypatch.setattr(remote_uploads, "_MAX_ENTRIES", 3)
    go, asked = threading.Event(), threading.Semaphore(0)

    def wait(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        asked.release()
        go.wait(60)
        connection.sendall(b"HTTP/1.1 503 So\r\nContent-Length: 0\r\n\r\n")

    with faulty_server(wait) as place:
        uploads = uploads_to(f"http://{place}", [])
        for number in range(4):
            assert uploads.offer(upload(number))
            assert asked.acquire(timeout=60)  # each is under way
        began = time.monotonic()
        assert [uploads.offer(upload(number)) for number in range(4, 10)] == [True] * 3 + [False] * 3
        assert time.monotonic() - began < 1
        monkeypatch.setattr(remote_uploads, "_MAX_BYTES", 10)
        assert not uploads.offer(upload(11))
        go.set()
        assert uploads.flush(60)


def test_a_flush_ends_in_time() -> None:
    """A store that hangs costs no more than the seconds that a flush may take."""
    with faulty_server(hanging) as place:
        uploads = uploads_to(f"http://{place}", [])
        uploads.offer(upload(1))
        began = time.monotonic()
        assert not uploads.flush(0.3)
        assert time.monotonic() - began < 5


def test_a_store_that_allows_no_writes_is_asked_once() -> None:
    """After an answer of 403, nothing is offered any more, and the reason is told."""
    asked, told = list[int](), list[str]()

    def deny(connection: socket.socket) -> None:
        asked.append(1)
        answering(403)(connection)

    with faulty_server(deny) as place:
        uploads = uploads_to(f"http://{place}", told)
        assert uploads.offer(upload(1)) and uploads.flush(60)
        assert not uploads.offer(upload(2))
    assert len(asked) == 1 and len(told) == 1 and "403" in told[0]


def test_a_store_that_fails_is_left_alone() -> None:
    """After two failures what waits is dropped, and what comes later is not taken."""
    told: list[str] = []
    uploads = uploads_to(f"http://{refusing()}", told)
    for number in range(10):
        uploads.offer(upload(number))
    assert uploads.flush(60)
    assert not uploads.offer(upload(11)) and told and all("no connection" in text for text in told)


def test_only_a_damaged_entry_is_replaced(tmp_path: Path) -> None:
    """An entry that is there stays, unless it was found damaged."""
    with web_server(tmp_path / "web") as server:
        remote = open_remote(server.url)
        other = content(Kind.EXECUTABLES, key(1), 2)
        remote.put(Kind.EXECUTABLES, SPACE, key(1), other)
        uploads = uploads_to(server.url, [])
        assert uploads.offer(upload(1)) and uploads.flush(20)
        assert remote.get(Kind.EXECUTABLES, SPACE, key(1)) == other
        assert uploads.offer(upload(1, replaces=True)) and uploads.flush(20)
        assert remote.get(Kind.EXECUTABLES, SPACE, key(1)) == upload(1).data
