"""What an entry depends on besides its key: what was read and imported while it was made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from jcache.fingerprint import places
from jcache.fingerprint.describe import changes
from jcache.fingerprint.io.digests import is_path, now
from jcache.formats.envelope import EnvelopeHeader
from jcache.layout import Kind, Root
from jcache.runtime.sealed_store import OpenedEntry, open_softly
from jcache.runtime.worlds import surroundings
from jcache.runtime.worlds.comparisons import variant_key
from jcache.runtime.worlds.digests import digests_of
from jcache.runtime.worlds.world import IMPORTED, imported_now

_MOST_ALIKE: Final = 4  # entries with one result that were made from other files each


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


def variants(key: str, content: str, found: Iterable[str]) -> tuple[str, str, str]:
    """Return the keys under which an entry may be stored, in this order.

    These are the key of its call, one for what it holds, and one for what was read as well.

    Args:
        key: the key of the call.
        content: the digest by which entries of the call are compared.
        found: the labels of what was found while it was made.
    """
    reads = "\n".join(sorted(filter(is_path, found)))
    return key, variant_key(key, content), variant_key(key, f"{content}\n{reads}")


def reads_other_files(
    root: Root, kind: Kind, keys: Iterable[str], content: str, content_of: Callable[[EnvelopeHeader], str | None]
) -> bool:
    """Return whether several entries of one call hold the same, and were made from other files each.

    Args:
        root: the root in use.
        kind: their kind.
        keys: their keys.
        content: the digest by which entries of the call are compared.
        content_of: returns that of an entry.
    """
    opened = (open_softly(root, kind, key) for key in keys)
    return [content_of(each.header) for each in opened if isinstance(each, OpenedEntry)].count(content) >= _MOST_ALIKE


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
