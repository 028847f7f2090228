"""What a root knows of entries beside the records of runs: its ledger, its quarantine, and the entries themselves."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from functools import cached_property
from typing import Final

from jcache import clock
from jcache.errors import DamagedEntry
from jcache.explain.change import Change
from jcache.explain.entries import entry_changes
from jcache.findings import Damage
from jcache.formats.inspection import Inspection, inspect
from jcache.layout import FileKind, Kind, member, name_of, storable
from jcache.runs.record import ProgramRecord
from jcache.store import files
from jcache.store.ledger_removals import KnownRemoval, removals
from jcache.store.quarantine import Quarantine
from jcache.store.quarantine_record import QuarantineRecord
from jcache.store.store import Store
from jcache.units import format_age
from jcache.vocabulary import CauseKind

_MAX_INSPECTED: Final = 8  # entries of a name, the latest first
_MAX_READ: Final = 500  # entries for one diagnosis
_MAX_BYTES: Final = 256 << 20  # of an entry that is read
_KIND: Final = Kind.EXECUTABLES


class RootEvidence:
    """What a root knows; what cannot be read counts as not known.

    Args:
        store: the store of the root.
        recorded: keys of recorded programs, which no program is compared with by their entries alone.
        reads_entries: whether entries are listed and read, which takes a while in a large root.
    """

    def __init__(self, store: Store, recorded: Collection[str], *, reads_entries: bool = True) -> None:
        self._store = store
        self._reads_entries = reads_entries
        self._inspected: dict[str, Inspection | None] = {}
        self._recorded = frozenset(map(storable, recorded))

    def damage(self, key: str, after_ns: int, before_ns: int) -> str | None:
        """Return what was wrong with an entry that was quarantined between two times; None if none was."""
        record = self._quarantined.get(storable(key))
        if record is None or not after_ns < record.quarantined_ns < before_ns:
            return None
        return f"it was damaged ({record.damage}) and taken out {self._ago(record.quarantined_ns)}"

    def removal(self, key: str, after_ns: int, before_ns: int) -> str | None:
        """Return when and by what an entry was removed between two times; None if that is not known."""
        removal = self._removals.get(storable(key))
        if removal is None or not after_ns < removal.removed_ns < before_ns:
            return None
        return f"removed {format_age(clock.now_ns() - removal.removed_ns)} ago by {removal.remover}"

    def nearest_entry(self, program: ProgramRecord) -> Change | None:
        """Return what tells a program from the nearest entry of its name that no run has recorded; None without one."""
        others = self.others_of(program.key or "") if self._reads_entries else []
        if not others:
            return None
        own = self.inspection(program.key or "")
        if own is None:
            return Change(CauseKind.UNKNOWN, "", "", others[0])
        found = [(other, self.compared(program.key or "", other)) for other in others[:_MAX_INSPECTED]]
        key, nearest = min(found, key=lambda pair: (len(pair[1]), others.index(pair[0])))
        return nearest[0] if nearest else Change(CauseKind.UNKNOWN, "", "", key)

    def others_of(self, key: str) -> list[str]:
        """Return the keys of entries of the same name that no run has recorded, the latest first."""
        named = sorted(self._by_name.get(name_of(key), []), reverse=True)
        return [other for _, other in named if other != storable(key) and other not in self._recorded]

    def compared(self, current: str, baseline: str) -> list[Change]:
        """Return what two entries say that differs; empty if they tell no difference or cannot be read."""
        ours, theirs = self.inspection(current), self.inspection(baseline)
        if ours is None or theirs is None:
            return []
        keys = [storable(current), storable(baseline)]
        known = self._store.queue.attempt(lambda: self._store.ledger.known(_KIND, keys)) or {}
        return entry_changes(ours, theirs, *(known.get(key) for key in keys))

    def inspection(self, key: str) -> Inspection | None:
        """Return the facts in an entry; None if it is not there or cannot be read."""
        if key not in self._inspected:
            if not key or self._store.root.adapter is not None or len(self._inspected) >= _MAX_READ:
                return None
            self._inspected[key] = self._inspect(key)
        return self._inspected[key]

    def _inspect(self, key: str) -> Inspection | None:
        with suppress(OSError, DamagedEntry, ValueError):
            path = self._store.root.place(_KIND, storable(key))
            if os.path.getsize(path) <= _MAX_BYTES:
                return inspect(files.read(path))
        return None

    @cached_property
    def _removals(self) -> dict[str, KnownRemoval]:
        return self._store.queue.attempt(lambda: removals(self._store.ledger, _KIND)) or {}

    @cached_property
    def _quarantined(self) -> dict[str, QuarantineRecord]:
        records = Quarantine(self._store.root).records()
        lasting = (one for one in records if one.damage is not Damage.REPLACED)  # that one went for a sound one
        return {one.key: one for one in lasting if one.kind is _KIND}

    @staticmethod
    def _ago(then_ns: int) -> str:
        return f"{format_age(clock.now_ns() - then_ns)} ago"

    @cached_property
    def _by_name(self) -> dict[str, list[tuple[int, str]]]:
        """The entries by name, each with the time when it was written."""
        found: dict[str, list[tuple[int, str]]] = {}
        root = self._store.root
        if not root.layout.follows_jax:
            return found
        with suppress(OSError), os.scandir(root.directory(_KIND)) as items:
            for item in items:
                what, key = member(item.name)
                if what is FileKind.ENTRY:
                    with suppress(OSError):
                        written_ns = item.stat(follow_symlinks=False).st_mtime_ns
                        found.setdefault(name_of(key), []).append((written_ns, key))
        return found
