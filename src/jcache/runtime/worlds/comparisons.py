"""In which worlds the entries of a key were compared.

``ROOT/.jcache/worlds`` has a file for each world, and files of lines, one for each comparison, by the beginning of the
digest of the call's key::

    world-DIGEST    the components of a world: the SHA-256 of the rest, a line feed, a JSON object
    keys-XX         CHECKSUM KEY WORLD LEFT VERSION TEXT

CHECKSUM is the SHA-256 of the rest of the line, KEY the digest of kind and key of the call, LEFT how many starts still
have to compare, TEXT the key of the entry that has this world's result, and VERSION when that was made. Where two
starts in one world had different results LEFT is -1 and TEXT the reason. Where the root is read-only all this goes to
the user's own cache directory.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Final, NamedTuple

from jcache import clock
from jcache.formats.envelope import EnvelopeHeader
from jcache.layout import Kind, Root, name_of, storable
from jcache.runtime.worlds.world import World
from jcache.store import files
from jcache.store.directories import opened
from jcache.store.lineage import version_of
from jcache.store.verified_files import Identity, identity_of

_REFUSED: Final = -1
_LARGEST: Final = 1 << 20  # bytes of a file of lines
_KEPT: Final = 16  # comparisons of a key, where a file of lines has become too large
_OLDEST_NS: Final = 90 * 86_400_000_000_000  # of a world's file, where there are many
_MOST_WORLDS: Final = 1_000
_FIELDS: Final = re.compile(r"([0-9a-f]{32}) ([0-9a-f]{32}) (-1|\d{1,9}) (\S+) (.*)", re.ASCII)
_MOST_TEXTS: Final = 8
_WORLD: Final = "world-"
_LINES: Final = "keys-"


class Compared(NamedTuple):
    """One comparison.

    Attributes:
        of: digest of the kind and key of the call.
        world: digest of the world.
        left: how many starts have to compare before the entry may be served.
        version: when the entry was made.
        text: key of the entry with this world's result; of a refusal the reason.
    """

    of: str
    world: str
    left: int
    version: str
    text: str

    @property
    def is_refusal(self) -> bool:
        """Whether nothing may be served in this world."""
        return self.left == _REFUSED

    def line(self) -> str:
        """Return the line of a file."""
        rest = f"{self.of} {self.world} {self.left} {self.version} {self.text}"
        return f"{_sum(rest)} {rest}"


def parse(line: str) -> Compared | None:
    """Return the comparison of a line; None if the line is damaged."""
    told, _, rest = line.partition(" ")
    fields = _FIELDS.fullmatch(rest) if told == _sum(rest) else None
    if fields is None:
        return None
    of, world, left, version, text = fields.groups()
    return Compared(of, world, int(left), version, text)


class Comparisons:
    """The comparisons of a kind of entries in some roots.

    Args:
        root: the root that is written.
        kind: traces or graphs.
        shared: more roots, which are read only.
    """

    def __init__(self, root: Root, kind: Kind, shared: Sequence[Root] = ()) -> None:
        self._kind = kind
        self._written = (root, _local(root))
        self._read = (*shared, *reversed(self._written))

    def of(self, key: str) -> list[Compared]:
        """Return the comparisons of a key, the latest last; those of read-only roots first."""
        return [each for root in self._read for each in comparisons_of(root, self._kind, key)]

    def entries(self, key: str) -> set[str]:
        """Return the keys of the entries with which calls of a key were compared."""
        return {each.text for each in self.of(key) if not each.is_refusal}

    def components(self, world: str) -> Mapping[str, str] | None:
        """Return the components of a world; None if they are not there any more."""
        return next((found for root in self._read if (found := components_of(root, world)) is not None), None)

    def add(self, key: str, entry: EnvelopeHeader, world: World, left: int = 0) -> None:
        """Add that an entry has the result of a world; a failure costs only another comparison."""
        compared = Compared(digest_of_key(self._kind, key), world.digest, left, version_of(entry), entry.key)
        self._write(compared, world)

    def refuse(self, key: str, world: World, reason: str) -> None:
        """Add that two starts in a world had different results."""
        line = " ".join(reason.split())
        self._write(Compared(digest_of_key(self._kind, key), world.digest, _REFUSED, "-", line), world)

    def _write(self, compared: Compared, world: World) -> None:
        own, local = self._written
        for root in (own, local):
            with suppress(OSError):
                if root is local:
                    local.path.mkdir(parents=True, exist_ok=True)
                write(root, [compared], {compared.world: world.components}.get)
                return


def write(root: Root, compared: Iterable[Compared], components: Callable[[str], Mapping[str, str] | None]) -> None:
    """Add comparisons to a root.

    Args:
        root: the root.
        compared: the comparisons.
        components: returns the components of a world; None where they are not known.

    Raises:
        OSError: the root cannot be written.
    """
    by_file: dict[str, list[Compared]] = {}
    for each in compared:
        by_file.setdefault(_file_of(each.of), []).append(each)
    with opened(root, root.worlds, make=True) as directory:
        for world in {each.world for some in by_file.values() for each in some}:
            if not os.path.exists(root.worlds / f"{_WORLD}{world}") and (found := components(world)) is not None:
                text = text_of(found).encode()
                files.publish(f"{_WORLD}{world}", f"{_sum(text)}\n".encode() + text, directory=directory)
                _remove_old(directory)
        for name, some in by_file.items():
            data = "".join(f"{each.line()}\n" for each in some).encode(errors="backslashreplace")
            if files.append(name, data, directory=directory, limit=_LARGEST) > _LARGEST:
                kept = "".join(f"{each.line()}\n" for each in _latest(_lines_of(root, name)))
                files.publish(name, kept.encode(errors="backslashreplace"), directory=directory)


def comparisons_of(root: Root, kind: Kind, key: str) -> Iterator[Compared]:
    """Yield the comparisons of a key in one root; damaged lines are left out."""
    of = digest_of_key(kind, key)
    return (each for each in _lines_of(root, _file_of(of), f" {of} ") if each.of == of)


def every_comparison(root: Root) -> Iterator[Compared]:
    """Yield all comparisons of a root, file by file."""
    try:
        names = sorted(os.listdir(root.worlds))
    except OSError:
        return
    for name in names:
        if name.startswith(_LINES):
            yield from _lines_of(root, name)


def components_of(root: Root, world: str) -> Mapping[str, str] | None:
    """Return the components of a world of one root; None if they are not there, or damaged."""
    try:
        told, _, text = (root.worlds / f"{_WORLD}{world}").read_bytes().partition(b"\n")
    except OSError:
        return None
    found: dict[str, str] | None = json.loads(text) if told.decode(errors="replace") == _sum(text) else None
    return found


def text_of(components: Mapping[str, str]) -> str:
    """Return the components of a world as JSON, which is the same for the same world."""
    return json.dumps(components, sort_keys=True, separators=(",", ":"))


def digest_of_key(kind: Kind, key: str) -> str:
    """Return what stands for a kind and key in the lines."""
    return hashlib.sha256(f"{kind} {key}".encode(errors="surrogatepass")).hexdigest()[:32]


def variant_key(key: str, content: str) -> str:
    """Return the key of an entry for a call whose own key has another one, of another world.

    Args:
        key: the key of the call.
        content: the digest by which entries of the call are compared.
    """
    return storable(f"{name_of(key)}-{hashlib.sha256(f'{key} {content}'.encode()).hexdigest()}")


def _lines_of(root: Root, name: str, has: str = "") -> Iterator[Compared]:
    for line in _text_of(os.path.join(root.worlds, name)).split("\n"):
        if has in line and line and (compared := parse(line)) is not None:
            yield compared


def _text_of(path: str) -> str:
    """Return what is in a file of lines; one that has not changed is not read again, as each line makes it longer."""
    try:
        now = identity_of(os.stat(path))
        known = _texts.get(path)
        if known is None or known[0] != now:
            with open(path, "rb") as file:
                known = now, file.read(2 * _LARGEST).decode(errors="replace")
            if len(_texts) >= _MOST_TEXTS:
                _texts.clear()
            _texts[path] = known
    except OSError:
        return ""
    return known[1]


_texts: Final[dict[str, tuple[Identity, str]]] = {}


def _latest(lines: Iterable[Compared]) -> list[Compared]:
    by_key: dict[str, dict[str, Compared]] = {}
    for each in lines:
        known = by_key.setdefault(each.of, {})
        known.pop(each.world, None)
        known[each.world] = each
    kept = [each for known in by_key.values() for each in list(known.values())[-_KEPT:]]
    return kept[-_LARGEST // 256 :]


def _remove_old(directory: int) -> None:
    """Remove the components of old worlds, where there are many."""
    names = [name for name in os.listdir(directory) if name.startswith(_WORLD)]
    for name in names if len(names) > _MOST_WORLDS else ():
        with suppress(OSError):
            if clock.now_ns() - os.lstat(name, dir_fd=directory).st_mtime_ns > _OLDEST_NS:
                os.unlink(name, dir_fd=directory)


def _file_of(of: str) -> str:
    return f"{_LINES}{of[:2]}"


@lru_cache(maxsize=8)  # each graph that is asked for needs it
def _local(root: Root) -> Root:
    """Return the place for the comparisons of a root that cannot be written."""
    import platformdirs

    digest = hashlib.sha256(os.fsencode(root.path)).hexdigest()[:24]
    return Root(platformdirs.user_cache_path("jcache-worlds") / digest, plain=False)  # not in the default root


def _sum(text: str | bytes) -> str:
    data = text.encode(errors="backslashreplace") if isinstance(text, str) else text
    return hashlib.sha256(data).hexdigest()[:32]
