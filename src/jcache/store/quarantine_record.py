"""The record of an entry in quarantine, as it lies beside the entry in JSON."""

from __future__ import annotations

from dataclasses import dataclass

from jcache.findings import Damage
from jcache.layout import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineRecord:
    """An entry in quarantine.

    Attributes:
        id: by which it is named.
        kind: of the entry.
        key: of the entry.
        file_name: that it had in its directory.
        damage: what was wrong.
        evidence: of it, as a sentence.
        bytes: of the file, as it is now.
        digest: of it, where it was read.
        expected: the digest on record then, if it was another one, or if the entry was replaced.
        recency_ns: when the entry was last used, nanoseconds since 1970; None where nobody knows.
        quarantined_ns: when it was taken here.
    """

    id: str
    kind: Kind
    key: str
    file_name: str
    damage: Damage
    evidence: str
    bytes: int
    digest: str | None
    expected: str | None
    recency_ns: int | None
    quarantined_ns: int


def fits(record: QuarantineRecord) -> bool:
    """Return whether what a record says are texts and times: it is input."""
    texts = record.id, record.key, record.file_name, record.evidence
    counts = record.bytes, record.quarantined_ns, 0 if record.recency_ns is None else record.recency_ns
    return (
        all(isinstance(text, str) for text in texts)
        and all(isinstance(digest, str | None) for digest in (record.digest, record.expected))
        and all(isinstance(count, int) and 0 <= count < 2**63 for count in counts)
    )
