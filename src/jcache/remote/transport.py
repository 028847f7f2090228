"""What a store must be able to do: the protocol that object stores and HTTP servers are used by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol

SILENCE_S: Final = 20.0  # after which a server that sends nothing counts as hanging


Pace = Callable[[int | None, Mapping[str, str]], float]
"""Takes the size and the metadata of an object once they are known; returns the seconds that its bytes may take."""


class Timeouts(NamedTuple):
    """How long requests may take.

    Attributes:
        connect_s: seconds until the connection must stand.
        request_s: seconds that a whole request may take.
        retries: how often a request is repeated after it failed.
        silence_s: seconds without a byte after which reading fails.
    """

    connect_s: float = 5.0
    request_s: float = 600.0
    retries: int = 2
    silence_s: float = SILENCE_S


class ObjectHead(NamedTuple):
    """An object without its bytes; the size is None where the store does not say it."""

    bytes: int | None
    metadata: Mapping[str, str]


class Fetched(NamedTuple):
    """The bytes of an object, and its metadata."""

    data: bytes
    metadata: Mapping[str, str]


class Listed(NamedTuple):
    """An object of a listing.

    Attributes:
        name: name below the prefix.
        bytes: its size.
        written_ns: when it was stored, by the store's clock, nanoseconds since 1970.
    """

    name: str
    bytes: int
    written_ns: int


class Transport(Protocol):
    """A store of objects, as values by names below a prefix. Every method may be called from several threads.

    Every method raises `RemoteUnavailable` if the store cannot be reached or fails, `RemoteDenied` if it does not allow
    the request, and `NoCacheHere` if there is no such bucket.

    Attributes:
        keeps_metadata: whether objects have metadata of their own.
        can_list: whether objects can be listed and removed.
    """

    @property
    def keeps_metadata(self) -> bool: ...
    @property
    def can_list(self) -> bool: ...

    def get(self, name: str, pace: Pace | None = None) -> Fetched | None:
        """Return an object; None if there is none."""

    def start(self, name: str, size: int) -> bytes | None:
        """Return the first bytes of an object that has so many or more; None if there is none."""

    def head(self, name: str) -> ObjectHead | None:
        """Return what is known of an object; None if there is none."""

    def put(self, name: str, data: bytes, metadata: Mapping[str, str], *, replace: bool) -> bool:
        """Store an object at once and whole; return False, and change nothing, if one is there and stays."""

    def objects(self, prefix: str) -> Iterator[list[Listed]]:
        """Yield all objects whose names begin with a prefix, which ends in a slash, in batches."""

    def delete(self, names: Iterable[str]) -> None:
        """Remove objects; those that are gone already count as removed."""

    def close(self) -> None:
        """Close connections."""
