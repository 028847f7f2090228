"""Requests of HTTP: what fails, what is repeated, where credentials go."""

import time
from collections.abc import Callable
from pathlib import Path
from socket import socket

import pytest

from jcache.errors import JcacheError, RemoteDenied, RemoteUnavailable
from jcache.remote.address import parse_address
from jcache.remote.web_client import WebClient
from tests.helpers.remote_servers import DirectoryHandler, answering, faulty_server, hanging, refusing, web_server
from tests.helpers.remote_stores import HURRY


def client(url: str) -> WebClient:
    return WebClient(parse_address(url), HURRY)


def trickling(connection: socket) -> None:
    """Send a byte from time to time, and never all."""
    connection.recv(1 << 16)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    for _ in range(600):
        connection.sendall(b"x")
        time.sleep(0.1)


FAULTS: list[tuple[str, Callable[[socket], None], type[JcacheError], str]] = [
    ("hanging", hanging, RemoteUnavailable, "did not answer in time"),
    ("trickling", trickling, RemoteUnavailable, "did not answer in time"),
    ("denying", answering(403), RemoteDenied, "answers 403"),
    ("failing", answering(503), RemoteUnavailable, "answers 503"),
    ("teapot", answering(418), RemoteUnavailable, "answers 418"),
    ("short", answering(200, "Content-Length: 100\r\n", b"x"), RemoteUnavailable, "broke off"),
    ("silent", lambda connection: None, RemoteUnavailable, "."),
    ("no http", lambda connection: connection.sendall(b"220 ftp\r\n"), RemoteUnavailable, "broke off"),
    ("circle", answering(302, "Location: /x\r\n"), RemoteUnavailable, "redirects in a circle"),
]


@pytest.mark.full
@pytest.mark.parametrize(("answer", "kind", "reason"), [each[1:] for each in FAULTS], ids=[each[0] for each in FAULTS])
def test_failing_servers(answer: Callable[[socket], None], kind: type[JcacheError], reason: str) -> None:
    """Whatever a server does, each request ends within its time in an error of jcache."""
    with faulty_server(answer) as host:
        start = time.monotonic()
        with pytest.raises(kind, match=reason):
            client(f"http://{host}/").request("GET", "/x")
        with pytest.raises(JcacheError):
            client(f"http://{host}/").put("/x", b"data" * 1000, {})
        assert time.monotonic() - start < 30


def test_a_server_that_refuses() -> None:
    """Nobody listening is an error that says so."""
    with pytest.raises(RemoteUnavailable, match="no connection could be made"):
        client(f"http://{refusing()}/").request("GET", "/x")


def test_a_failure_that_passes(tmp_path: Path) -> None:
    """A request is repeated, and a connection that the server has closed meanwhile is made again."""

    class Flaky(DirectoryHandler):
        failures: list[int]

        def do_GET(self) -> None:
            if len(self.failures) < 2:
                self.failures.append(1)
                self.close_connection = True
                return self.answer(503)
            return super().do_GET()

        do_HEAD = do_GET

    with web_server(tmp_path / "web", Flaky, failures=[1]) as server:
        (server.directory / "x").write_bytes(b"data")
        asking = client(server.url)
        for _ in range(3):
            reply = asking.request("GET", "/x")
            assert reply is not None and reply.data == b"data"


def test_credentials_stay_with_their_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The password of a URL, or of ~/.netrc, goes to that host, and to no other that it redirects to."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login a password hush\n")
    (tmp_path / "netrc").chmod(0o600)
    seen: list[str | None] = []

    class Other(DirectoryHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.get("Authorization"))
            self.answer(200, b"data")

    class Redirecting(DirectoryHandler):
        target: str

        def do_GET(self) -> None:
            if self.allowed():
                self.send_response(302)
                self.send_header("Location", f"{self.target}/y")
                self.send_header("Content-Length", "0")
                self.end_headers()

    with (
        web_server(tmp_path / "other", Other) as other,
        web_server(tmp_path / "web", Redirecting, target=other.url, password="a:hush") as server,
    ):
        with pytest.raises(RemoteDenied, match="answers 401"):
            client(server.url).request("GET", "/x")
        reply = client(server.url.replace("://", "://a:hush@")).request("GET", "/x")
        assert reply is not None and reply.data == b"data"
        monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
        again = client(server.url).request("GET", "/x")
        assert again is not None and again.data == b"data"
        assert seen == [None, None]


def test_the_query_is_repeated(tmp_path: Path) -> None:
    """A signature in the query of the URL is sent with every request."""
    with web_server(tmp_path / "web") as server:
        asking = client(f"{server.url}/?sig=S")
        assert asking.request("GET", "/x") is None and asking.put("/x", b"data", {})
        assert server.log == ["GET /x?sig=S", "PUT /x?sig=S"]


def test_a_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy of the environment is asked, with its own password."""
    with web_server(tmp_path / "web", password=None) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.replace("://", "://me:hush@"))
        monkeypatch.setenv("no_proxy", "")
        assert client("http://far.invalid/").request("HEAD", "/x") is None
        assert proxy.log == ["HEAD http://far.invalid/x"]
