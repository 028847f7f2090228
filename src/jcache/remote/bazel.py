"""bazel-remote: bytes are stored under their SHA-256, and what an entry is under the SHA-256 of its name.

    PUT /cas/<sha256 of the bytes>          the bytes of an object, first
    PUT /ac/<sha256 of the object's name>   an ActionResult, as bazel-remote checks it: one output file, which is these
                                            bytes, and as standard output the object's metadata

bazel-remote answers a GET below ``/ac/`` with 404 if the bytes have been evicted, and never lists or removes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from jcache.errors import DamagedEntry
from jcache.formats.protobuf import BYTES, Message
from jcache.remote.entries import metadata_of, metadata_text
from jcache.remote.http import WebStore
from jcache.remote.transport import Fetched, ObjectHead, Pace

_OUTPUT_FILES: Final = 2  # of ActionResult
_STDOUT_RAW: Final = 5
_PATH: Final = 1  # of OutputFile
_DIGEST: Final = 2
_HASH: Final = 1  # of Digest
_SIZE: Final = 2


class BazelCache(WebStore):
    """A bazel-remote server. It cannot list; metadata are in the record of an object.

    Args:
        address: address of the server, with the instance's name as its path if there is one.
        timeouts: how long requests may take.
    """

    keeps_metadata = True
    speaks = "bazel-remote"

    def _record(self, name: str) -> tuple[str, int, dict[str, str]] | None:
        """Return digest and size of an object's bytes, and its metadata; None if there is no such object."""
        reply = self._client.request("GET", self._path(f"ac/{_sha256(name.encode())}"))
        return None if reply is None else _parse(reply.data)

    def get(self, name: str, pace: Pace | None = None) -> Fetched | None:
        record = self._record(name)
        if record is None:
            return None
        digest, _, metadata = record
        paced: Pace | None = None if pace is None else lambda size, _: pace(size, metadata)
        reply = self._client.request("GET", self._path(f"cas/{digest}"), paced)
        return None if reply is None else Fetched(reply.data, metadata)

    def start(self, name: str, size: int) -> bytes | None:
        found = self.get(name)
        return None if found is None else found.data[:size]

    def head(self, name: str) -> ObjectHead | None:
        record = self._record(name)
        return None if record is None else ObjectHead(record[1], record[2])

    def put(self, name: str, data: bytes, metadata: Mapping[str, str], *, replace: bool) -> bool:
        if not replace and self._record(name) is not None:
            return False
        digest = _sha256(data)
        self._client.put(self._path(f"cas/{digest}"), data, {})
        self._client.put(self._path(f"ac/{_sha256(name.encode())}"), _action_result(digest, len(data), metadata), {})
        return True


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _action_result(digest: str, size: int, metadata: Mapping[str, str]) -> bytes:
    """Return the record of an object."""
    told = metadata_text(metadata)
    of_bytes = _field(_HASH, digest.encode()) + _varint(_SIZE << 3) + _varint(size)
    file = _field(_PATH, b"entry") + _field(_DIGEST, of_bytes)
    return _field(_OUTPUT_FILES, file) + (_field(_STDOUT_RAW, told.encode()) if told else b"")


def _parse(data: bytes) -> tuple[str, int, dict[str, str]] | None:
    """Return digest, size and metadata of a record; None for bytes that are none."""
    try:
        result = Message(data)
        of_bytes = result.message(_OUTPUT_FILES, _DIGEST)
        digest = None if of_bytes is None else of_bytes.text(_HASH)
        told = result.text(_STDOUT_RAW) or ""
    except DamagedEntry:
        return None
    if of_bytes is None or digest is None or len(digest) != 64 or digest.strip("0123456789abcdef"):
        return None
    return digest, of_bytes.varint(_SIZE) or 0, metadata_of(told)


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | BYTES) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value))
