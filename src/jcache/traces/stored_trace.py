"""A stored trace and its programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from jcache.findings import Finding
from jcache.fingerprint.restored import are_once
from jcache.runtime.sealed_store import OpenedEntry, SealedStore, open_softly
from jcache.store.lineage import belongs_to, version_of
from jcache.traces.format import TRACES, Trace, program_key

CONTENT: Final = "content"  # the key part with the digest of `content_of`
NO_PROGRAM: Final = "none of its programs is for such shardings, devices and options"


class StoredTrace:
    """A stored trace, whose programs are read when they are needed.

    Args:
        store: the store of the root that is written.
        opened: the entry of the trace, perhaps in another root.
        trace: the trace.

    Attributes:
        opened, trace: as given.
    """

    def __init__(self, store: SealedStore, opened: OpenedEntry, trace: Trace) -> None:
        self.trace = trace
        self.opened = opened
        self._store = store
        self._programs: dict[str, OpenedEntry] = {}

    @property
    def content(self) -> str:
        """What is the same for two traces only if their programs are the same, whichever root they are in."""
        header = self.opened.header
        return header.key_parts.get(CONTENT) or version_of(header)

    @property
    def sets_once(self) -> bool:
        """Whether serving it sets something else than a further trace in the process would."""
        return are_once(self.trace.settings)

    def executables(self, signature: str, device: str) -> Iterator[str]:
        """Yield the keys in JAX's cache of the executables for a signature and a device.

        They are in the program of the signature, and in the entry that was added for the device later.
        """
        for of in (signature, device):
            program = self._program(of)
            parts = {} if program is None else program.header.key_parts
            if parts.get("device") == device and "executable" in parts:
                yield parts["executable"]

    def artifact(self, signature: str) -> bytes | None:
        """Return the portable artifact of the program of a signature; None if there is none."""
        program = self._program(signature)
        return None if program is None else bytes(program.payload)

    def text(self, signature: str) -> str | None:
        """Return the SHA-256 of the text of the program of a signature; None if it is not known."""
        program = self._program(signature)
        return None if program is None else program.header.key_parts.get("text")

    def _program(self, of: str) -> OpenedEntry | None:
        """Return an entry of this trace, from its root or the root that is written; None if there is none.

        A damaged entry in the root that is written is moved to quarantine.

        Args:
            of: the signature or the device digest of the entry.
        """
        key = program_key(self.opened.header, of)
        for root in () if of in self._programs else dict.fromkeys((self.opened.root, self._store.root)):
            found = open_softly(root, TRACES, key)
            if found is None and root == self._store.root and self._store.fetch(key):
                found = open_softly(root, TRACES, key)
            if isinstance(found, Finding):
                if root == self._store.root:
                    self._store.quarantine_softly(found)
            elif found is not None and belongs_to(found.header, self.opened.header):
                self._programs[of] = found
                break
        return self._programs.get(of)

    @property
    def used(self) -> list[str]:
        """The keys of the entries that were read from the root that is written."""
        served = (self.opened, *self._programs.values())
        return [entry.header.key for entry in served if entry.root == self._store.root]
