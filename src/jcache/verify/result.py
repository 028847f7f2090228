"""The request for a verification, and its result with all findings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from jcache.entry import GRACE_NS
from jcache.findings import Finding
from jcache.layout import Kind
from jcache.verify.checks import Claim
from jcache.verify.subset import Subset


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
    sound: list[Claim] = field(default_factory=list)
    seconds: float = 0.0
    complete: bool = False
    quick: bool = False
