"""What becomes of a put."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from jcache.store.ledger import Known


class Outcome(StrEnum):
    """What became of a put."""

    STORED = "stored"
    PRESENT = "present"
    TOO_LARGE = "too large"


class PutResult(NamedTuple):
    """The outcome of a put, and the record for the ledger, if the entry was stored."""

    outcome: Outcome
    record: Known | None = None
