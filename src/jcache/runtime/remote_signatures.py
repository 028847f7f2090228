"""Which entries of a store an allowed signer has pushed, by the manifests that pushes sign.

The manifests are read once in a process, before the first entry is asked for, the newest first: so many, so large and
for so long at most. Their signatures are checked as `jcache pull --require-signature` checks them. Whoever can write to
the store can cause misses, and cannot have bytes served under a key for which no allowed signer has pushed them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Final, NamedTuple

from jcache.errors import JcacheError, RemoteDenied, Untrusted
from jcache.formats.digest import digest
from jcache.layout import Kind
from jcache.remote.address import check_can_sign
from jcache.remote.client import Remote
from jcache.remote.names import MANIFEST_SUFFIX, MANIFESTS, SIGNATURE_SUFFIX
from jcache.remote.transfer import in_parallel
from jcache.remote.transport import Pace
from jcache.runtime.remote_request import Request
from jcache.verify.signatures import Signers, verify_by

SCHEMA_VERSION: Final = 2  # of a manifest, as `jcache.shipping.archive.manifest_codec` writes it
_MOST_LISTED: Final = 20_000  # objects
_MOST_MANIFESTS: Final = 1000
_MOST_BYTES: Final = 64 << 20  # of all manifests; an entry takes about 335
_MOST_SIGNATURE_BYTES: Final = 1 << 16
_CHECKING_S: Final = 20.0  # for all signatures
_CHECKS_AT_ONCE: Final = 4

EntryId = tuple[Kind, str]
Digests = dict[EntryId, tuple[str, ...]]


class SignedManifest(NamedTuple):
    """The name and the bytes of a manifest and of its signature, which nobody has checked."""

    name: str
    data: bytes
    signature: bytes


Read = Callable[[Pace], "list[SignedManifest]"]


class SignedEntries:
    """The entries of a store that allowed signers have pushed; several threads may use it.

    Args:
        remote: the store.
        signers: who may sign.
        ask: sends a request to the store, and returns its answer; None if there is none in time.
        note: receives a sentence on what keeps entries from being used.

    Raises:
        InvalidValue: the store cannot list manifests.
    """

    def __init__(
        self,
        remote: Remote,
        signers: Signers,
        ask: Callable[[Read], list[SignedManifest] | None],
        note: Callable[[str], object],
    ) -> None:
        check_can_sign(remote.address)
        self._remote = remote
        self._signers = signers
        self._ask = ask
        self._note = note
        self._lock = threading.Lock()
        self._digests: Digests | None = None  # None until the manifests have been read
        self._failures = 0
        self._number = 0  # of manifests, signed or not
        self._counting = 0  # of manifests that an allowed signer has signed

    def digests(self, kind: Kind, key: str) -> tuple[str, ...] | None:
        """Return the digests that an entry may have, none if no signer has pushed it; None if the store fails."""
        failures = self._failures
        with self._lock:  # those who ask meanwhile wait for the one who reads
            if self._digests is None:
                if self._failures > failures or (found := self._ask(self._read)) is None:
                    self._failures += 1
                    return None
                self._digests = self._checked(found)
            return self._digests.get((kind, key), ())

    def refuse(self, kind: Kind, key: str) -> None:
        """Say why an entry that the store has is not used."""
        if (self._digests or {}).get((kind, key)):
            self._note(f"{key} in {self._remote} has other bytes than its signer has pushed: it is not used.")
            return
        self._note(
            f"{key} in {self._remote} is in no manifest that a signer of {self._signers.path} has signed: it is not "
            f"used. {self._counting:,} of {self._number:,} manifests count: push them with --sign."
        )

    def _read(self, pace: Pace) -> list[SignedManifest]:
        """Return the newest manifests that have a signature; raise as `Remote.get`."""
        transport = self._remote.transport
        try:
            listed = list(islice(chain.from_iterable(transport.objects(MANIFESTS)), _MOST_LISTED))
        except RemoteDenied as error:
            self._note(f"{error} Without its manifests, nothing of it is used.")
            return []
        signed = {one.name for one in listed if one.bytes <= _MOST_SIGNATURE_BYTES}
        manifests = [one for one in listed if one.name.endswith(MANIFEST_SUFFIX)]
        manifests.sort(key=lambda one: one.written_ns, reverse=True)
        self._number, left = len(manifests), _MOST_BYTES
        names = list[str]()
        for one in manifests:
            if one.name + SIGNATURE_SUFFIX in signed and one.bytes <= left and len(names) < _MOST_MANIFESTS:
                names.append(one.name)
                left -= one.bytes
        pace(_MOST_BYTES - left, {})
        wanted = [each for name in names for each in (name, name + SIGNATURE_SUFFIX)]
        found = {name: fetched.data for name, fetched in in_parallel(transport.get, wanted) if fetched is not None}
        return [
            SignedManifest(name, found[name], found[name + SIGNATURE_SUFFIX])
            for name in names
            if name in found and name + SIGNATURE_SUFFIX in found
        ]

    def _checked(self, found: list[SignedManifest]) -> Digests:
        """Return what the manifests list that an allowed signer has signed."""
        request = Request(lambda _: self._listed(found), within_s=_CHECKING_S)
        if not request.is_answered():
            self._note(f"The signatures of {self._remote} could not be checked in time: nothing of it is used.")
            return {}
        return request.found or {}

    def _listed(self, found: list[SignedManifest]) -> Digests:
        digests: Digests = {}
        try:
            for _, entries in in_parallel(self._entries_of, found, connections=_CHECKS_AT_ONCE):
                self._counting += bool(entries)
                for name, told in entries:
                    digests[name] = tuple({*digests.get(name, ()), told})
        except JcacheError as error:
            self._note(f"{error} What it could not check of {self._remote} is not used.")
        return digests

    def _entries_of(self, signed: SignedManifest) -> list[tuple[EntryId, str]]:
        """Return the entries of a manifest with their digests; none if no allowed signer has signed it.

        Raises:
            JcacheError: ssh-keygen, which checks signatures, is missing or too old.
        """
        if signed.name != f"{MANIFESTS}{digest(signed.data).partition(':')[2]}{MANIFEST_SUFFIX}":
            return []
        try:
            verify_by(signed.data, signed.signature, self._signers)
            return list(entries_of(signed.data))
        except (Untrusted, ValueError, KeyError, TypeError, RecursionError):
            return []


def entries_of(manifest: bytes) -> Iterator[tuple[EntryId, str]]:
    """Yield kind, key and digest of the entries of a manifest whose signature was checked.

    `jcache.shipping.archive.manifest_codec` is as strict as the manifests of strangers need it. This takes a tenth of
    its time to import, and raises ValueError, KeyError, TypeError or RecursionError for what a signer did not mean.
    """
    told = json.loads(manifest)
    if told["schema_version"] != SCHEMA_VERSION:
        raise ValueError
    for item in told["items"]:
        yield (Kind(item["kind"]), str(item["key"])), str(item["digest"])
