"""Records that wait to be written to a root's ledger in batches, and notices of what went on without the ledger."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from jcache.entry import Entry
from jcache.errors import LedgerUnavailable
from jcache.layout import Kind, Root
from jcache.store.ledger import Known, Ledger
from jcache.store.pins import Pins

T = TypeVar("T")

_FLUSH_EVERY: Final = 64
_FLUSH_EVERY_OF_MANY: Final = 4096


class LedgerQueue:
    """The queue in front of a root's ledger. A ledger that fails gives a notice, and nothing else fails.

    Args:
        root: the root.
        ledger: its ledger.

    Attributes:
        ledger: the ledger.
        pins: the pins of the root.
        notices: one sentence for each way in which the ledger failed.
    """

    def __init__(self, root: Root, ledger: Ledger) -> None:
        self.ledger = ledger
        self.pins = Pins(root, ledger)
        self.notices: list[str] = []
        self._root = root
        self._records: list[Known] = []
        self._removed: dict[tuple[Kind, str], None] = {}  # in the order in which they went

    def attempt(self, action: Callable[[], T]) -> T | None:
        """Return the result of an action on the ledger; if it fails, add a notice and return None."""
        try:
            return action()
        except LedgerUnavailable as error:
            self.notice(str(error))
            return None

    def notice(self, text: str) -> None:
        """Add a sentence to the notices, once."""
        if text not in self.notices:
            self.notices.append(text)

    def add(self, record: Known) -> None:
        """Queue the record of one entry."""
        self._records.append(record)
        if len(self._records) + len(self._removed) >= _FLUSH_EVERY:
            self.flush()

    def add_many(self, records: Iterable[Known]) -> None:
        """Queue records of many entries, which are written in large batches."""
        self._records += records
        if len(self._records) >= _FLUSH_EVERY_OF_MANY:
            self.flush()

    def forget(self, kind: Kind, key: str) -> None:
        """Have the record of a removed entry deleted: it would be wrong for a new entry of the same key."""
        self._removed[kind, key] = None
        self.drop(kind, key)

    def forget_all(self, entries: Sequence[Entry]) -> None:
        """Write what is queued, then delete the records of removed entries."""
        self.flush()
        if entries and self._is_ready():
            self.attempt(lambda: self.ledger.forget(((entry.kind, entry.key) for entry in entries), _this_program()))

    def drop(self, kind: Kind, key: str) -> None:
        """Take the records of an entry out of the queue."""
        self._records = [record for record in self._records if (record.kind, record.key) != (kind, key)]

    def flush(self) -> None:
        """Write the queue to the ledger, if the ledger can be written and the root is still there."""
        removed, records = self._removed, self._records
        self._records, self._removed = [], {}
        if not (removed or records) or not self._is_ready():
            return
        if removed:
            self.attempt(lambda: self.ledger.forget(removed, _this_program()))
        if records:
            self.attempt(lambda: self.ledger.record(records))

    def _is_ready(self) -> bool:
        """Return whether the root is still there; give it a directory of pins then."""
        if not os.path.isdir(self._root.path):
            return False
        if not os.path.isdir(self._root.pins):
            self.attempt(self.pins.copy)
        return True


def _this_program() -> str:
    """Return the name of the program that this process runs, without its arguments; of jcache, with its command."""
    path = sys.argv[0] if sys.argv else ""
    name = os.path.basename(os.path.dirname(path) if path.endswith("__main__.py") else path)
    words = ["python" if name in ("", "-c", "-m") else name]
    if name == "jcache":
        words += [word for word in sys.argv[1:] if word.isalpha()][:1]
    return os.fsencode(" ".join(words)).decode(errors="backslashreplace")  # SQLite refuses lone surrogates
