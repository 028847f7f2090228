"""Requests of HTTP over connections that are kept open, by the standard library.

Proxies come from the environment (``https_proxy``, ``no_proxy``). A password comes from the URL or from ``~/.netrc``,
and goes to no other host than the one that the URL names. Redirects are followed when reading, and never from TLS to
plain text.
"""

from __future__ import annotations

import base64
import os
import ssl
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from threading import Lock
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from jcache import clock
from jcache.errors import JcacheError, RemoteDenied, RemoteUnavailable
from jcache.frozen import Frozen
from jcache.remote.address import BAZEL, Address
from jcache.remote.failures import failed
from jcache.remote.transport import Pace, Timeouts

_PIECE_BYTES: Final = 1 << 20
_MAX_BYTES: Final = 2 << 30  # of a body
_MAX_REDIRECTS: Final = 4
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_OK: Final = 200
_ABSENT: Final = frozenset({404, 410})
_DENIED: Final = frozenset({401, 403, 405, 407, 501})
_PRECONDITION_FAILED: Final = 412
_BACKOFF_S: Final = 0.1
_USER_AGENT: Final = "jcache"


class Reply(NamedTuple):
    """An answer: its status, its headers by lower-case names, and its body."""

    status: int
    headers: Mapping[str, str]
    data: bytes


class _Target(NamedTuple):
    """Where a request goes: scheme, host with port, and path with query."""

    scheme: str
    host: str
    path: str


class _Request(NamedTuple):
    """A request, wherever it goes; `pace` is asked once the length of its answer is known."""

    method: str
    data: bytes | None = None
    headers: Mapping[str, str] = Frozen({})
    pace: Pace | None = None


class _Broken(Exception):
    """A request that has failed in a way in which it may succeed if it is repeated."""


class WebClient:
    """Sends requests to a host; every method may be called from several threads.

    Args:
        address: the address whose host, credentials and query the requests have.
        timeouts: how long requests may take.
    """

    def __init__(self, address: Address, timeouts: Timeouts) -> None:
        self._address = address
        self._scheme = address.scheme.removeprefix(BAZEL)
        self._timeouts = timeouts
        self._authorization = _authorization(address)
        self._idle: dict[tuple[str, str], list[HTTPConnection]] = {}
        self._lock = Lock()

    def __del__(self) -> None:
        self.close()

    def request(self, method: str, path: str, pace: Pace | None = None) -> Reply | None:
        """Return the answer to a GET or HEAD, in the time that `pace` gives it; None if there is no such object.

        Raises:
            RemoteUnavailable: the server cannot be reached or fails.
            RemoteDenied: it does not allow the request.
        """
        target = _Target(self._scheme, self._address.host, self._with_query(path))
        for _ in range(_MAX_REDIRECTS + 1):
            reply = self._repeated(target, _Request(method, pace=pace))
            if reply.status in _ABSENT:
                return None
            if reply.status == _OK:
                return reply
            if reply.status not in _REDIRECTS:
                raise self._refused("read from", reply)
            target = self._redirected(target, reply)
        raise failed(self._address, "read from", "it redirects in a circle")

    def put(self, path: str, data: bytes, headers: Mapping[str, str]) -> bool:
        """Store an object; return False if the condition in the headers does not hold. Raise as `request`."""
        target = _Target(self._scheme, self._address.host, self._with_query(path))
        reply = self._repeated(target, _Request("PUT", data, headers))
        if reply.status == _PRECONDITION_FAILED:
            return False
        if not 200 <= reply.status < 300:
            raise self._refused("write to", reply)
        return True

    def close(self) -> None:
        """Close the connections that are idle."""
        with self._lock:
            idle, self._idle = self._idle, {}
        for connection in (each for some in idle.values() for each in some):
            connection.close()

    def _with_query(self, path: str) -> str:
        return f"{path}?{self._address.query}" if self._address.query else path

    def _refused(self, doing: str, reply: Reply) -> JcacheError:
        kind = RemoteDenied if reply.status in _DENIED else RemoteUnavailable
        return failed(self._address, doing, f"it answers {reply.status}", kind)

    def _redirected(self, target: _Target, reply: Reply) -> _Target:
        """Return where an answer redirects a request to."""
        parts = urlsplit(urljoin(f"{target.scheme}://{target.host}{target.path}", reply.headers.get("location", "")))
        if parts.scheme not in ("http", "https") or (target.scheme == "https" and parts.scheme == "http"):
            raise failed(self._address, "read from", "it redirects to an address without TLS")
        path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        return _Target(parts.scheme, parts.netloc.rpartition("@")[2], path)

    def _repeated(self, target: _Target, request: _Request) -> Reply:
        """Return the answer to a request, which is repeated while it fails in a way that may pass."""
        doing = "write to" if request.method == "PUT" else "read from"
        reason = ""
        for attempt in range(self._timeouts.retries + 1):
            if attempt:
                clock.sleep(_BACKOFF_S * 2 ** (attempt - 1))
            try:
                reply = self._once(target, request)
            except _Broken as error:
                reason = str(error)
                continue
            if reply.status < 500 and reply.status != 429:
                return reply
            reason = f"it answers {reply.status}"
            if reply.status == 501:
                return reply
        raise failed(self._address, doing, reason)

    def _once(self, target: _Target, request: _Request) -> Reply:
        """Return the answer to one request, on an idle connection if there is one that still stands."""
        place = target.scheme, target.host
        while True:
            with self._lock:
                idle = self._idle.get(place)
                connection = idle.pop() if idle else None
            fresh = connection is None
            if connection is None:
                connection = self._connected(target)
            try:
                return self._answered(connection, place, target, request)
            except TimeoutError:
                connection.close()
                raise _Broken("it did not answer in time") from None
            except (HTTPException, OSError) as error:
                connection.close()
                if fresh:
                    raise _Broken(_reason(error)) from None

    def _connected(self, target: _Target) -> HTTPConnection:
        try:
            connection = _connection(target, self._timeouts.connect_s)
            connection.connect()
        except TimeoutError:
            raise _Broken("it did not answer in time") from None
        except ssl.SSLError:
            raise _Broken("its certificate or TLS is not accepted") from None
        except (OSError, HTTPException):
            raise _Broken("no connection could be made") from None
        return connection

    def _answered(
        self, connection: HTTPConnection, place: tuple[str, str], target: _Target, request: _Request
    ) -> Reply:
        told = {"User-Agent": _USER_AGENT, "Accept-Encoding": "identity"} | dict(request.headers)
        if self._authorization is not None and place == (self._scheme, self._address.host):
            told["Authorization"] = self._authorization
        told |= getattr(connection, "headers_for_proxy", {})
        end = clock.monotonic() + self._timeouts.request_s
        connection.sock.settimeout(min(self._timeouts.request_s, self._timeouts.silence_s))
        path = getattr(connection, "before_path", "") + target.path
        connection.request(request.method, path, body=request.data, headers=told)
        response = connection.getresponse()
        if request.pace is not None and response.status == _OK:
            end = min(end, clock.monotonic() + request.pace(response.length, {}))
        body = _read(connection, response, end, self._timeouts.silence_s)
        reply = Reply(response.status, {name.lower(): value for name, value in response.getheaders()}, body)
        if response.will_close:
            connection.close()
        else:
            with self._lock:
                self._idle.setdefault(place, []).append(connection)
        return reply


def _read(connection: HTTPConnection, response: HTTPResponse, end: float, silence_s: float) -> bytes:
    """Return the body of an answer, which must be as long as it says and end in time."""
    pieces, size = [], 0
    while piece := response.read1(_PIECE_BYTES):
        pieces.append(piece)
        size += len(piece)
        left = end - clock.monotonic()
        if left <= 0:
            raise TimeoutError
        if size > _MAX_BYTES:
            raise HTTPException("too long")
        if connection.sock is not None:
            connection.sock.settimeout(min(left, silence_s))
    length = response.headers.get("Content-Length", "")
    if response.length or (response.status == _OK and size and length.isdecimal() and int(length) != size):
        raise HTTPException("broken off")
    response.close()  # which lets the connection be used again
    return b"".join(pieces)


def _reason(error: BaseException) -> str:
    return "its answer broke off" if isinstance(error, HTTPException) else "the connection broke"


def _authorization(address: Address) -> str | None:
    """Return the header that has the user and the password of an address, or of the host in ``~/.netrc``."""
    user, password = address.user, address.password
    if user is None:
        import netrc

        with suppress(OSError, netrc.NetrcParseError, UnicodeDecodeError):
            found = netrc.netrc(os.environ.get("NETRC")).authenticators(urlsplit(f"//{address.host}").hostname or "")
            if found is not None:
                user, _, password = found
    if not user:
        return None
    return "Basic " + base64.b64encode(f"{user}:{password or ''}".encode()).decode()


def _connection(target: _Target, timeout: float) -> HTTPConnection:
    """Return a connection to a host, or to the proxy that the environment names for it; it is not made yet."""
    hostname = urlsplit(f"//{target.host}").hostname or ""
    proxy = None if proxy_bypass(hostname) else getproxies().get(target.scheme)
    made: Any
    if not proxy:
        kind = HTTPSConnection if target.scheme == "https" else HTTPConnection
        return kind(target.host, timeout=timeout)
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    credentials = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}".encode()
    headers = {"Proxy-Authorization": "Basic " + base64.b64encode(credentials).decode()} if parts.username else {}
    place = parts.netloc.rpartition("@")[2]
    if target.scheme == "https":
        made = HTTPSConnection(place, timeout=timeout)
        made.set_tunnel(target.host, headers=headers)
    else:
        made = HTTPConnection(place, timeout=timeout)
        made.before_path, made.headers_for_proxy = f"http://{target.host}", headers
    connection: HTTPConnection = made
    return connection
