"""What an entry depends on besides its key: what was read and imported while it was made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jcache.fingerprint import places
from jcache.fingerprint.describe import changes
from jcache.fingerprint.io.digests import is_path, now
from jcache.formats.envelope import EnvelopeHeader
from jcache.layout import Root
from jcache.runtime.worlds import surroundings
from jcache.runtime.worlds.digests import digests_of
from jcache.runtime.worlds.world import IMPORTED, imported_now


def dependencies_of(header: EnvelopeHeader, known: Mapping[str, str]) -> dict[str, str]:
    """Return the dependencies that were found while an entry was made, besides the parts of its key.

    Args:
        header: the header of the entry.
        known: the parts of its key.
    """
    return {label: text for label, text in parts_here(header, known).items() if label not in known}


def parts_here(header: EnvelopeHeader, known: Mapping[str, str]) -> dict[str, str]:
    """Return the parts of an entry, with what it has read at the places where this process would read it.

    Args:
        header: the header of the entry.
        known: the parts of its key.
    """
    return places.moved(header.key_parts, known, places.directories(surroundings.program_directory()))


def other_reads(header: EnvelopeHeader, known: Mapping[str, str], found: Iterable[str]) -> list[str]:
    """Return the labels of what was read now, but not while an entry was made.

    An entry whose result is the same does not stand for what was read elsewhere.

    Args:
        header: the header of the entry.
        known: the parts of its key.
        found: the labels of what was found now, while the same result was made.
    """
    then = parts_here(header, known)
    return sorted(label for label in found if is_path(label) and label not in then)


def staleness(header: EnvelopeHeader, known: Mapping[str, str], root: Root) -> list[str]:
    """Return the changes of what was read and imported while an entry was made, a line each; none for a fresh entry.

    Args:
        header: the header of the entry.
        known: the parts of its key.
        root: the root in use, which remembers the digests of files.
    """
    then = dependencies_of(header, known)
    if not then:
        return []
    modules = [label for label in then if label.startswith(IMPORTED)]
    today = {**now(then), **imported_now(modules, digests_of(root))}
    then = {label: then[label] for label in today}
    return [] if today == then else changes(then, today)
