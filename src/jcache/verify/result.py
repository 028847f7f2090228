"""The request for a verification, and its result with all findings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from jcache.entry import GRACE_NS
from jcache.findings import Finding
from jcache.layout import Kind
from jcache.layout.key_list import KeyList
from jcache.store.entries import KIND_CODES, Lazy
from jcache.verify.checks import Claim
from jcache.verify.subset import Subset

_AT_ONCE: Final = 1000
_KINDS: Final = tuple(Kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRequest:
    """The options of a verification.

    Attributes:
        kinds: kinds of the entries to check.
        subset: part of the entries to check, the least recently verified first; None for all.
        max_seconds: time after which no further entry is begun; None for no limit.
        quick: whether to omit the checks that decompress entries.
        grace_ns: age in nanoseconds below which a file may be unfinished.
        processes: number of processes; None for one on each usable core.
    """

    kinds: tuple[Kind, ...] = tuple(Kind)
    subset: Subset | None = None
    max_seconds: float | None = None
    quick: bool = False
    grace_ns: int = GRACE_NS
    processes: int | None = None


class SoundEntries(Lazy[Claim]):
    """Entries without a finding."""

    def __init__(self) -> None:
        self._keys = KeyList()
        self._latest: list[str] = []
        self._kinds = bytearray()
        self._adapter: Any = None

    def append(self, claim: Claim) -> None:
        """Add an entry."""
        self._latest.append(claim.key)
        self._kinds.append(KIND_CODES[claim.kind])
        self._adapter = claim.adapter
        if len(self._latest) >= _AT_ONCE:
            self._settle()

    def _settle(self) -> None:
        """Add the latest keys to the others, which take less memory."""
        if self._adapter is None:
            self._keys.extend(self._latest)
        else:
            for key in self._latest:
                self._keys.append(key)
        self._latest.clear()

    def __len__(self) -> int:
        return len(self._kinds)

    def _item(self, at: int) -> Claim:
        self._settle()
        return Claim(_KINDS[self._kinds[at]], self._keys[at], adapter=self._adapter)


@dataclass(slots=True)
class Verification:
    """The results of a verification.

    Attributes:
        findings: damage that was found, in the order of paths.
        notes: findings that are no damage.
        entries: number of entries in the root.
        bytes: size of all entries.
        checked: number of entries that were checked.
        checked_bytes: size of the checked entries.
        unchanged: number of entries that passed before and have the same bytes.
        rewritten: number of entries that were written again after their digest was recorded.
        being_written: number of entries that changed during the check, and have no result.
        opaque: number of entries whose content was not checked, by reason.
        sound: entries without a finding.
        seconds: duration of the verification.
        complete: whether all entries of all kinds were checked, with decompression.
        quick: whether entries were checked without decompression.
    """

    findings: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)
    entries: int = 0
    bytes: int = 0
    checked: int = 0
    checked_bytes: int = 0
    unchanged: int = 0
    rewritten: int = 0
    being_written: int = 0
    opaque: Counter[str] = field(default_factory=Counter)
    sound: SoundEntries = field(default_factory=lambda: SoundEntries())
    seconds: float = 0.0
    complete: bool = False
    quick: bool = False
