"""What is pinned: prune, clear and eviction must keep it.

    ROOT/.jcache/pins/<kind>/<key>     an empty file for each pinned entry, whose time is when it was pinned

Pins do not depend on the ledger, which may be damaged and begun anew. Until jcache 0.2 the ledger held them: they are
copied here as soon as they are seen. While there is no ``pins`` directory and a ledger is damaged, or was set aside,
what is pinned is not known, and nothing may be removed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from jcache import files
from jcache.directories import Directories, is_there, opened
from jcache.errors import LedgerUnavailable
from jcache.layout import TEMPORARY_PREFIX, Kind, Root

if TYPE_CHECKING:
    from jcache.ledger import Ledger

Names = Iterable[tuple[Kind, str]]
_KINDS: Final = {kind.value: kind for kind in Kind}


class Pins:
    """The pins of a root.

    Args:
        root: which.
        ledger: its ledger, which may still hold pins.
    """

    def __init__(self, root: Root, ledger: Ledger) -> None:
        self._root = root
        self._ledger = ledger

    def known(self) -> set[tuple[Kind, str]]:
        """The pinned entries.

        Raises:
            LedgerUnavailable: what is pinned cannot be known.
        """
        here = self._listed()
        if here is None and self._set_aside():
            raise self._unknown()
        try:
            theirs = self._ledger.pins()
            if here is None or theirs:
                self._take_over(theirs, begin=here is None)
        except LedgerUnavailable as error:
            if here is not None:
                return here
            raise self._unknown() if error.lost else error from error
        return theirs if here is None else here | theirs

    def copy(self) -> None:
        """Copies the pins that the ledger holds, if that was not done yet, softly."""
        if not os.path.isdir(self._root.pins):
            with suppress(LedgerUnavailable):
                self.known()

    def add(self, names: Names) -> None:
        """Pins entries. What is pinned is known from then on.

        Raises:
            CannotWrite: a pin cannot be written.
        """
        self.copy()
        with files.refusal(f"write to {self._root.pins}"), Directories(self._root) as directories:
            for kind, key in names:
                files.touch(key, directory=directories.descriptor(self._root.pins / kind, make=True))

    def remove(self, names: Names) -> None:
        """Unpins entries.

        Raises:
            CannotWrite: a pin cannot be removed.
            LedgerUnavailable: the ledger holds pins, and cannot be written.
        """
        names = list(names)
        self.copy()
        if set(names) & self._in_ledger():
            self._ledger.unpin(names)
        with files.refusal(f"remove from {self._root.pins}"), Directories(self._root) as directories:
            for kind, key in names:
                with suppress(FileNotFoundError):
                    os.unlink(key, dir_fd=directories.descriptor(self._root.pins / kind))

    def clear(self) -> set[tuple[Kind, str]]:
        """Unpins all entries; returns those of which it was known. That nothing is pinned is known from then on.

        Raises:
            CannotWrite: a pin cannot be removed.
        """
        gone = (self._listed() or set()) | self._in_ledger()
        with files.refusal(f"write to {self._root.pins}"), opened(self._root, self._root.pins, make=True):
            pass
        self.remove(gone)
        return gone

    def _in_ledger(self) -> set[tuple[Kind, str]]:
        try:
            return self._ledger.pins()
        except LedgerUnavailable:
            return set()

    def _listed(self) -> set[tuple[Kind, str]] | None:
        """The pins that are files; None if there is no directory for them.

        Raises:
            LedgerUnavailable: there is one, and it cannot be read.
        """
        found: set[tuple[Kind, str]] = set()
        try:
            with Directories(self._root) as directories:
                for name in os.listdir(directories.descriptor(self._root.pins)):
                    if name in _KINDS:
                        keys = os.listdir(directories.descriptor(self._root.pins / name))
                        found.update((_KINDS[name], key) for key in keys)
        except FileNotFoundError:
            return None
        except OSError as error:
            reason = error.strerror or error
            raise LedgerUnavailable(f"What is pinned is not known: {self._root.pins}: {reason}.") from error
        return found

    def _set_aside(self) -> bool:
        """Whether a damaged ledger was set aside, which may have held pins."""
        from jcache.database import DAMAGED

        start = self._root.ledger.name + DAMAGED
        with suppress(OSError), opened(self._root, self._root.state) as state:
            return any(name.startswith(start) for name in os.listdir(state))
        return False

    def _take_over(self, pins: set[tuple[Kind, str]], *, begin: bool) -> None:
        """Copies the ledger's pins, where that can be done; a ledger that is damaged anywhere may not tell of all.

        Raises:
            LedgerUnavailable: it is damaged.
        """
        if not os.path.lexists(self._root.ledger):
            return  # who makes one makes the directory of pins as well
        if begin:
            self._ledger.check()
        with suppress(OSError), Directories(self._root) as directories:
            state = directories.descriptor(self._root.state)
            if begin and not is_there(self._root.pins.name, state):
                self._begin(pins, state, directories)
            else:
                for kind, key in pins:
                    files.touch(key, directory=directories.descriptor(self._root.pins / kind, make=True))
            with suppress(LedgerUnavailable):
                if pins:
                    self._ledger.unpin(pins)

    def _begin(self, pins: set[tuple[Kind, str]], state: int, directories: Directories) -> None:
        """Makes the directory with all pins in it at once: what is there is then always all of them."""
        aside = self._root.state / f"{TEMPORARY_PREFIX}{os.urandom(8).hex()}"
        directories.descriptor(aside, make=True)
        try:
            for kind, key in pins:
                files.touch(key, directory=directories.descriptor(aside / kind, make=True))
            os.rename(aside.name, self._root.pins.name, src_dir_fd=state, dst_dir_fd=state)
        except OSError:
            with suppress(OSError):
                files.remove_tree(aside.name, directory=state)
            raise

    def _unknown(self) -> LedgerUnavailable:
        return LedgerUnavailable(
            f"What is pinned in {self._root.path} is not known, since the ledger that held it was damaged: nothing is "
            "removed until `jcache pin KEY` has pinned again what must stay, or `jcache unpin --all` has said that "
            "nothing is.",
            lost=True,
        )
