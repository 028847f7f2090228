"""Plain HTTP servers: GET, HEAD and PUT below a prefix, as nginx and WebDAV servers speak them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote

from jcache.errors import InvalidValue
from jcache.remote.address import Address
from jcache.remote.failures import failed
from jcache.remote.transport import Fetched, Listed, ObjectHead, Pace, Timeouts
from jcache.remote.web_client import Reply, WebClient


class WebStore:
    """A directory of a web server. It cannot list, and keeps no metadata.

    Args:
        address: address of the directory.
        timeouts: how long requests may take.
    """

    keeps_metadata = False
    can_list = False
    speaks = "plain HTTP"

    def __init__(self, address: Address, timeouts: Timeouts) -> None:
        self._address = address
        self._client = WebClient(address, timeouts)

    def _path(self, name: str) -> str:
        return "/" + quote("/".join(filter(None, (self._address.path, name))))

    def get(self, name: str, pace: Pace | None = None) -> Fetched | None:
        reply = self._client.request("GET", self._path(name), pace)
        return None if reply is None else Fetched(reply.data, {})

    def start(self, name: str, size: int) -> bytes | None:
        found = self.get(name)  # not every server knows ranges, and none of them lists what has a start to look at
        return None if found is None else found.data[:size]

    def head(self, name: str) -> ObjectHead | None:
        reply = self._client.request("HEAD", self._path(name))
        return None if reply is None else ObjectHead(_length(reply), {})

    def put(self, name: str, data: bytes, metadata: Mapping[str, str], *, replace: bool) -> bool:
        del metadata
        if not replace and self.head(name) is not None:
            return False
        # servers that know no conditions replace the entry of whoever came first in between: the digest tells
        return self._client.put(self._path(name), data, {} if replace else {"If-None-Match": "*"})

    def objects(self, prefix: str) -> Iterator[list[Listed]]:
        del prefix
        raise self._cannot()

    def delete(self, names: Iterable[str]) -> None:
        if any(True for _ in names):
            raise self._cannot()

    def _cannot(self) -> Exception:
        return failed(self._address, "list or remove from", f"{self.speaks} cannot do that", InvalidValue)

    def close(self) -> None:
        self._client.close()


def _length(reply: Reply) -> int | None:
    text = reply.headers.get("content-length", "")
    return int(text) if text.isdecimal() else None
