"""What is pinned: prune, clear and eviction must keep it.

    ROOT/.jcache/pins/<kind>/<key>     an empty file for each pinned entry, whose time is when it was pinned

Pins do not depend on the ledger, which may be damaged and begun anew, nor on where the root lies or who uses it: they
are in the root also where that is another program's. Until jcache 0.2 the ledger held them, or, for another program's
root, the state directory in the user's home: they are copied here as soon as they are seen. While there is no ``pins``
directory and a ledger is damaged, or was set aside, what is pinned is not known, and nothing may be removed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jcache.errors import LedgerUnavailable
from jcache.layout import PINS_NAME, TEMPORARY_PREFIX, Kind, Root
from jcache.store import file_tree, files
from jcache.store.directories import Directories, opened
from jcache.text import command

if TYPE_CHECKING:
    from jcache.store.ledger import Ledger

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

    def known(self, *, sure: bool = False) -> set[tuple[Kind, str]]:
        """Return the pinned entries.

        Args:
            sure: whether something is to be removed: then a ledger that may hold pins is read as a whole before.

        Raises:
            LedgerUnavailable: what is pinned cannot be known.
        """
        here = self._as_files()
        if here is None and self._set_aside():
            raise self._unknown()
        try:
            if here is None and sure:
                self._ledger.check()
            theirs = self._ledger.pins()
        except LedgerUnavailable as error:
            if not error.lost:
                raise
            if here is None:
                raise self._unknown() from error
            return here
        return theirs | (here or set())

    def copy(self) -> set[tuple[Kind, str]]:
        """Copy the pins that the ledger holds, where that can be done, and return all that are known.

        Raises:
            LedgerUnavailable: what is pinned cannot be known; a damaged ledger may not tell of all.
        """
        here = self._listed(self._root.pins)
        begin = here is None
        complete = self._as_files() is not None
        pins = self.known(sure=not complete)
        news = pins - (here or set())
        if not news and (complete or not os.path.lexists(self._root.ledger)):
            return pins
        with suppress(OSError), Directories(self._root) as directories:
            if begin:
                self._begin(pins, directories)
            else:
                self._write(news, self._root.pins, directories)
            for place in self._places[1:]:
                self._unlink(pins, place, directories)
            with suppress(LedgerUnavailable):
                self._ledger.unpin(pins)
        return pins

    def add(self, names: Names) -> None:
        """Pin entries. What is pinned is known from then on.

        Raises:
            CannotWrite: a pin cannot be written.
        """
        with suppress(LedgerUnavailable):
            self.copy()
        with files.refusal(f"write to {self._root.pins}"), Directories(self._root) as directories:
            self._write(names, self._root.pins, directories)

    def remove(self, names: Names) -> None:
        """Unpin entries.

        Raises:
            CannotWrite: a pin cannot be removed.
            LedgerUnavailable: the ledger holds pins, and cannot be written.
        """
        names = list(names)
        with suppress(LedgerUnavailable):
            self.copy()
        if set(names) & self._in_ledger():
            self._ledger.unpin(names)
        with files.refusal(f"remove from {self._root.pins}"), Directories(self._root) as directories:
            for place in self._places:
                self._unlink(names, place, directories)

    def clear(self) -> set[tuple[Kind, str]]:
        """Unpin all entries; return those of which it was known. That nothing is pinned is known from then on.

        Raises:
            CannotWrite: a pin cannot be removed.
        """
        gone = (self._as_files() or set()) | self._in_ledger()
        with files.refusal(f"write to {self._root.pins}"), opened(self._root, self._root.pins, make=True):
            pass
        self.remove(gone)
        return gone

    def _in_ledger(self) -> set[tuple[Kind, str]]:
        try:
            return self._ledger.pins()
        except LedgerUnavailable:
            return set()

    @property
    def _places(self) -> tuple[Path, ...]:
        """The directories of pins: the one of now, and the one of before where that was another one."""
        return tuple(dict.fromkeys((self._root.pins, self._root.state / PINS_NAME)))

    def _as_files(self) -> set[tuple[Kind, str]] | None:
        """Return the pins that are files, in any place; None without a directory of pins; raise as `_listed`."""
        found = [pins for place in self._places if (pins := self._listed(place)) is not None]
        return set().union(*found) if found else None

    def _listed(self, place: Path) -> set[tuple[Kind, str]] | None:
        """Return the pins that are files in a place; None if there is no such directory.

        Raises:
            LedgerUnavailable: there is one, and it cannot be read.
        """
        found: set[tuple[Kind, str]] = set()
        try:
            with Directories(self._root) as directories:
                for name in os.listdir(directories.descriptor(place)):
                    if name in _KINDS:
                        keys = os.listdir(directories.descriptor(place / name))
                        found.update((_KINDS[name], key) for key in keys)
        except FileNotFoundError:
            return None
        except OSError as error:
            reason = error.strerror or error
            raise LedgerUnavailable(f"The pins are not known: {place}: {reason}.") from error
        return found

    def _set_aside(self) -> bool:
        """Return whether a damaged ledger was set aside, which may have held pins."""
        from jcache.store.sqlite import DAMAGED

        start = self._root.ledger.name + DAMAGED
        with suppress(OSError), opened(self._root, self._root.state) as state:
            return any(name.startswith(start) for name in os.listdir(state))
        return False

    def _begin(self, pins: Names, directories: Directories) -> None:
        """Make the directory with all pins in it at once: what is there is then always all of them."""
        state = directories.descriptor(self._root.pins.parent, make=True)
        aside = self._root.pins.parent / f"{TEMPORARY_PREFIX}{os.urandom(8).hex()}"
        directories.descriptor(aside, make=True)
        try:
            self._write(pins, aside, directories)
            os.rename(aside.name, self._root.pins.name, src_dir_fd=state, dst_dir_fd=state)
        except OSError:
            with suppress(OSError):
                file_tree.remove_tree(aside.name, directory=state)
            raise

    def _write(self, pins: Names, place: Path, directories: Directories) -> None:
        for kind, key in pins:
            files.touch(key, directory=directories.descriptor(place / kind, make=True))

    def _unlink(self, pins: Names, place: Path, directories: Directories) -> None:
        for kind, key in pins:
            with suppress(FileNotFoundError):
                os.unlink(key, dir_fd=directories.descriptor(place / kind))

    def _unknown(self) -> LedgerUnavailable:
        pin, unpin = command("pin KEY", self._root.path), command("unpin --all", self._root.path)
        return LedgerUnavailable(
            f"The pins in {self._root.path} are not known, since the ledger that held them was damaged, and nothing "
            f"is removed until they are known: pin again what must stay with `{pin}`, or declare with `{unpin}` that "
            "nothing is pinned.",
            lost=True,
        )
