"""Entries of a store as values, and what their metadata claim."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from jcache.formats.digest import is_digest
from jcache.layout import Kind

DIGEST: Final = "digest"  # of metadata
SECONDS: Final = "seconds"
_MAX_SECONDS: Final = 1e10


class RemoteEntry(NamedTuple):
    """An entry of a store.

    Attributes:
        kind, namespace, key: identify it; the namespace of traces and graphs is empty.
        bytes: its size.
        written_ns: when it was stored, by the store's clock, nanoseconds since 1970.
    """

    kind: Kind
    namespace: str
    key: str
    bytes: int
    written_ns: int


class FoundEntry(NamedTuple):
    """An entry that was read, and verified.

    Attributes:
        data: the bytes.
        digest: their digest.
        seconds: what building it took, where that is known.
    """

    data: bytes
    digest: str
    seconds: float | None


class UnverifiedEntry(NamedTuple):
    """The bytes of an object, the digest that it claims to have, and seconds; None for what it does not claim."""

    data: bytes
    claimed: str | None
    seconds: float | None


def metadata_text(metadata: Mapping[str, str]) -> str:
    """Return metadata as lines, for a store that keeps them in the bytes of an object."""
    return "".join(f"{name} {value}\n" for name, value in metadata.items())


def metadata_of(text: str) -> dict[str, str]:
    """Return the metadata of the lines of a text."""
    return {name: value for name, _, value in (line.partition(" ") for line in text.splitlines())}


def claims_of(metadata: Mapping[str, str]) -> tuple[str | None, float | None]:
    """Return the digest and the seconds that metadata have, None where they have none."""
    claimed, seconds = metadata.get(DIGEST, ""), metadata.get(SECONDS, "")
    try:
        number = float(seconds)
    except ValueError:
        number = -1.0
    return claimed if is_digest(claimed) else None, number if 0 <= number < _MAX_SECONDS else None
