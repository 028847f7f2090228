"""A store of entries behind a URL: read, store, list and remove entries. What is read was verified.

Every entry has a digest: in the metadata of its object or, where a store keeps none, in an object beside it that is
written first. Bytes that have no digest, or another one, are never returned. Entries are immutable: storing one that is
there already is a lost race, and a success. Only an entry that was found damaged is overwritten.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from threading import Lock
from typing import Final, Self

from jcache.errors import InvalidValue, NoCacheHere, RemoteUnavailable
from jcache.formats.digest import digest as digest_of
from jcache.layout import Kind
from jcache.remote import names
from jcache.remote.address import BAZEL, OBJECT_STORES, Address, parse_address
from jcache.remote.entries import (
    DIGEST,
    SECONDS,
    FoundEntry,
    RemoteEntry,
    UnverifiedEntry,
    claims_of,
    metadata_of,
    metadata_text,
)
from jcache.remote.transport import Fetched, Listed, ObjectHead, Pace, Timeouts, Transport
from jcache.text import command, quoted

_MAX_DIGEST_BYTES: Final = 1024


class Remote:
    """The entries of a store.

    Args:
        address: its address.
        transport: the store itself.

    Attributes:
        address: its address; as text without credentials.
        transport: the store itself.
    """

    def __init__(self, address: Address, transport: Transport) -> None:
        self.address = address
        self.transport = transport
        self._damaged: set[str] = set()  # names of entries that were found damaged, and may be overwritten
        self._lock = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __str__(self) -> str:
        return str(self.address)

    @property
    def can_list(self) -> bool:
        """Whether entries can be listed and removed."""
        return self.transport.can_list

    def close(self) -> None:
        """Close the connections."""
        self.transport.close()

    def get(self, kind: Kind, namespace: str, key: str) -> bytes | None:
        """Return the verified bytes of an entry; None if there is none, or it is damaged.

        Raises:
            RemoteUnavailable: the store cannot be reached or fails.
            RemoteDenied: the store does not allow that.
        """
        found = self.find(kind, namespace, key)
        return None if found is None else found.data

    def find(self, kind: Kind, namespace: str, key: str, pace: Pace | None = None) -> FoundEntry | None:
        """Return an entry as `get` does, with its digest and seconds, in the time that `pace` gives it."""
        read = self.read(kind, namespace, key, pace)
        if read is None:
            return None
        if read.claimed is None or digest_of(read.data) != read.claimed:
            self._note_damaged(names.entry_name(kind, namespace, key))
            return None
        return FoundEntry(read.data, read.claimed, read.seconds)

    def find_exact(self, kind: Kind, namespace: str, key: str, digest: str, size: int) -> bytes | None:
        """Return the bytes of an entry of a known digest and size by one request; None if it does not give them."""
        try:
            data = self.transport.start(names.entry_name(kind, namespace, key), size)
        except RemoteUnavailable:  # the object may have become shorter
            return None
        return data if data is not None and len(data) == size and digest_of(data) == digest else None

    def read(self, kind: Kind, namespace: str, key: str, pace: Pace | None = None) -> UnverifiedEntry | None:
        """Return the bytes of an object as they are, for those who look for damage; raise as `get`."""
        name = names.entry_name(kind, namespace, key)
        told = None if self.transport.keeps_metadata else self._beside(name)
        if told is None and not self.transport.keeps_metadata:
            return None
        beside = told  # of a store without metadata
        paced = pace if pace is None or beside is None else lambda size, _: pace(size, beside)
        fetched = self.transport.get(name, paced)
        if fetched is None:
            return None
        return UnverifiedEntry(fetched.data, *claims_of(fetched.metadata if told is None else told))

    def exists(self, kind: Kind, namespace: str, key: str) -> bool:
        """Return whether there is an entry that has a digest; raise as `get`. Its bytes are not read."""
        return self.digest(kind, namespace, key) is not None

    def digest(self, kind: Kind, namespace: str, key: str) -> str | None:
        """Return the digest that an entry claims to have; None if there is no entry, or none with a digest."""
        return self.claims(kind, namespace, key)[0]

    def claims(self, kind: Kind, namespace: str, key: str) -> tuple[str | None, int]:
        """Return the digest that an entry claims to have, as `digest` does, and its size, 0 if that is not told."""
        head = self._head(names.entry_name(kind, namespace, key))
        return (None, 0) if head is None else (claims_of(head.metadata)[0], head.bytes or 0)

    def size(self, kind: Kind, namespace: str, key: str) -> int | None:
        """Return the bytes of an entry that has a digest, 0 where the store does not say; None if there is none."""
        digest, size = self.claims(kind, namespace, key)
        return None if digest is None else size

    def _head(self, name: str) -> ObjectHead | None:
        """Return what is known of an object, with the metadata beside it."""
        told = None if self.transport.keeps_metadata else self._beside(name)
        if told is None and not self.transport.keeps_metadata:
            return None
        head = self.transport.head(name)
        return head if head is None or told is None else ObjectHead(head.bytes, told)

    def put(
        self,
        kind: Kind,
        namespace: str,
        key: str,
        data: bytes,
        *,
        seconds: float | None = None,
        digest: str | None = None,
        replace: bool = False,
    ) -> bool:
        """Store an entry, unless a sound one is there; return whether it was stored.

        Args:
            kind: kind of the entry.
            namespace: namespace of an executable, else empty.
            key: key of the entry.
            data: its bytes, which the caller has checked.
            seconds: what building it took, where that is known.
            digest: the digest of the bytes, if the caller has just computed it.
            replace: whether to overwrite an entry that is there; without it, only one that this client has found
                damaged is overwritten.

        Raises:
            RemoteUnavailable: the store cannot be reached or fails.
            RemoteDenied: the store does not allow that.
        """
        name = names.entry_name(kind, namespace, key)
        metadata = {DIGEST: digest or digest_of(data)} | ({} if seconds is None else {SECONDS: f"{seconds:.6g}"})
        over = replace or name in self._damaged
        if self.transport.keeps_metadata:
            stored = self.transport.put(name, data, metadata, replace=over)
        else:
            stored = self._put_beside(name, data, metadata, replace=over)
        with self._lock:
            self._damaged.discard(name)
        return stored

    def was_damaged(self, kind: Kind, namespace: str, key: str) -> bool:
        """Return whether this client has found an entry damaged, and nobody has replaced it through it since."""
        return names.entry_name(kind, namespace, key) in self._damaged

    def _note_damaged(self, name: str) -> None:
        with self._lock:
            self._damaged.add(name)

    # -- digests beside the entries

    def _beside(self, name: str) -> dict[str, str] | None:
        """Return the metadata in the object beside an entry; None if there is none."""
        found = self.transport.get(names.digest_name(name))
        if found is None:
            return None
        return metadata_of(found.data[:_MAX_DIGEST_BYTES].decode(errors="replace"))

    def _put_beside(self, name: str, data: bytes, metadata: dict[str, str], *, replace: bool) -> bool:
        """Store the digest, then the entry.

        Two who store different bytes at once may leave the digest of one with the bytes of the other: nobody is served
        those, and the loser, who finds them, overwrites both.
        """
        text = metadata_text(metadata).encode()
        beside = names.digest_name(name)
        if not self.transport.put(beside, text, {}, replace=replace):
            there = self._beside(name) or {}
            if there.get(DIGEST) != metadata[DIGEST]:
                if self.transport.head(name) is not None:
                    return False
                self.transport.put(beside, text, {}, replace=True)
        if self.transport.put(name, data, {}, replace=replace):
            return True
        if (found := self.transport.get(name)) is not None and self._is_claimed(name, found):
            return False
        self.transport.put(beside, text, {}, replace=True)
        return self.transport.put(name, data, {}, replace=True)

    def _is_claimed(self, name: str, found: Fetched) -> bool:
        """Return whether the bytes of an entry have the digest beside it."""
        return claims_of(self._beside(name) or {})[0] == digest_of(found.data)

    # -- all entries

    def list(self, kind: Kind | None = None, namespace: str = "") -> Iterator[RemoteEntry]:
        """Yield the entries, of a kind and of a namespace if they are given, in any order.

        Raises:
            InvalidValue: the store cannot list.
            RemoteUnavailable, RemoteDenied: as `get`.
        """
        self.check_can_list()
        for one in Kind if kind is None else (kind,):
            prefix = names.directory_of(one, namespace)
            with_digests = None if self.transport.keeps_metadata else self._with_digests(prefix)
            for listed in self._objects(prefix):
                parsed = names.parse_name(listed.name)
                if parsed is None or parsed.is_digest:
                    continue
                if with_digests is None or names.digest_name(listed.name) in with_digests:
                    yield RemoteEntry(*parsed[:3], listed.bytes, listed.written_ns)

    def check_can_list(self) -> None:
        """Raise InvalidValue if the store cannot list."""
        if not self.can_list:
            raise InvalidValue(f"{self} is plain HTTP, which cannot list or remove entries: name the store behind it.")

    def _objects(self, prefix: str) -> Iterator[Listed]:
        for batch in self.transport.objects(prefix):
            yield from batch

    def _with_digests(self, prefix: str) -> frozenset[str]:
        return frozenset(one.name for one in self._objects(prefix) if one.name.endswith(names.DIGEST_SUFFIX))

    def delete(self, entries: Iterable[tuple[Kind, str, str]]) -> None:
        """Remove entries, given as kind, namespace and key, in few requests; raise as `get`."""
        wanted = [names.entry_name(*entry) for entry in entries]
        self.transport.delete(wanted)
        if not self.transport.keeps_metadata:
            self.transport.delete(map(names.digest_name, wanted))


def open_remote(url: str, timeouts: Timeouts | None = None) -> Remote:
    """Return the store at a URL. Nothing is asked of it yet.

    Args:
        url: ``s3://``, ``gs://``, ``az://``, ``file://``, ``http(s)://`` or ``bazel+http(s)://``.
        timeouts: how long requests may take; by default as long as a command waits.

    Raises:
        InvalidValue: it is no URL of a store, or a package is not installed.
    """
    address, timeouts = parse_address(url), timeouts or Timeouts()
    transport: Transport
    if address.scheme in OBJECT_STORES:
        from jcache.remote.object_store import ObjectStore

        transport = ObjectStore(address, timeouts)
    elif address.scheme.startswith(BAZEL):
        from jcache.remote.bazel import BazelCache

        transport = BazelCache(address, timeouts)
    else:
        from jcache.remote.http import WebStore

        transport = WebStore(address, timeouts)
    return Remote(address, transport)


def open_existing(url: str) -> Remote:
    """Return the store at a URL, as `open_remote` does, for whoever wants to read what is there.

    Raises:
        InvalidValue: it is no URL of a store, or a package is not installed.
        NoCacheHere: it is a directory that does not exist.
    """
    remote = open_remote(url)
    if remote.address.scheme == "file" and not os.path.isdir(remote.address.path):
        raise NoCacheHere(
            f"There is no directory {remote.address.path}, so nothing is stored at {remote}: check the URL, or store"
            f" something with `{command(f'push {quoted(str(remote))}', None)}`."
        )
    return remote
