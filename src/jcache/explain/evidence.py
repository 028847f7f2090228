"""What a root knows of entries: which are damaged, which were removed and by whom, and what an entry itself says."""

from __future__ import annotations

from typing import Protocol

from jcache.explain.change import Change
from jcache.runs.record import ProgramRecord


class Evidence(Protocol):
    """What is known of entries beside the records of runs."""

    def damage(self, key: str, after_ns: int, before_ns: int) -> str | None:
        """Return what was wrong with an entry that was taken out for it between two times; None if none was."""

    def removal(self, key: str, after_ns: int, before_ns: int) -> str | None:
        """Return when and by whom an entry was removed between two times; None if that is not known."""

    def nearest_entry(self, program: ProgramRecord) -> Change | None:
        """Return what tells a program from the nearest entry of its name; None if there is none."""


class NoEvidence:
    """Nothing is known."""

    def damage(self, key: str, after_ns: int, before_ns: int) -> str | None:
        del key, after_ns, before_ns
        return None

    def removal(self, key: str, after_ns: int, before_ns: int) -> str | None:
        del key, after_ns, before_ns
        return None

    def nearest_entry(self, program: ProgramRecord) -> Change | None:
        del program
        return None
