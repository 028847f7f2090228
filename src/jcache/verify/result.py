"""Values of a verification: its `Request`, and the `Verification` with all findings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from jcache.entry import GRACE_NS
from jcache.findings import Finding
from jcache.layout import Kind
from jcache.verify.checks import Claim
from jcache.verify.subset import Subset


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The options of a verification.

    Attributes:
        kinds: entries of these kinds.
        subset: so many of them, the least recently verified first; None for all.
        max_seconds: begin with no further entry after so long; None for no limit.
        quick: do without decompression.
        grace_ns: what was written less than this ago may still be in the making.
        processes: how many check at once; None for as many as there are cores for us.
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
        findings: damages, in the order of their paths.
        notes: what is no damage and still worth telling.
        entries: how many entries there are.
        bytes: of them.
        checked: how many of them were checked.
        checked_bytes: of those.
        unchanged: how many had passed before and have the very same bytes.
        anew: how many were written anew since their digest was recorded.
        being_written: how many changed while they were looked at, and were not judged.
        opaque: how many were not checked inside, by the reason.
        sound: the entries without a finding.
        seconds: how long it took.
        complete: whether entries of all kinds were to be checked, and were.
        quick: whether they were checked without decompression.
    """

    findings: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)
    entries: int = 0
    bytes: int = 0
    checked: int = 0
    checked_bytes: int = 0
    unchanged: int = 0
    anew: int = 0
    being_written: int = 0
    opaque: Counter[str] = field(default_factory=Counter)
    sound: list[Claim] = field(default_factory=list)
    seconds: float = 0.0
    complete: bool = False
    quick: bool = False
