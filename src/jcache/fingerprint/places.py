"""Paths that are others in another process: those in a run's own directory, and those below the program's directory.

A key leaves out clock readings and random names. Where such a text is part of the path of a file that was read, as in
``runs/<time>/scale.npy``, another process reads another file. So an entry keeps these texts, and what it has read is
compared with what is at the same place now. The same holds for a few directories, such as the program's own.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from jcache.fingerprint import origins
from jcache.fingerprint.describe import vars_of
from jcache.fingerprint.encoding import SCALARS
from jcache.fingerprint.io.digests import is_path, path_of
from jcache.fingerprint.readings import Readings

LABEL: Final = "places"
"""The part of a key that has these texts as a JSON object, each under the label of what holds it."""
PROGRAM: Final = "program directory"
BASES: Final = (PROGRAM, "working directory", "temporary directory", "home directory")
"""The parts of an entry with these directories, as far as it has read something below them."""
PACKAGE: Final = "package directory "  # the beginning of the part with that of one of the program's packages
_MOST: Final = 1_000  # texts
_MOST_ABOVE: Final = 3  # steps from a directory to another one that is above both
_DATES: Final = "%Y-%m-%d", "%Y_%m_%d", "%Y%m%d", "%y%m%d", "%b%d", "%H-%M-%S", "%H:%M:%S", "%H_%M_%S", "%H%M%S"


def _as_date(layout: str) -> Callable[[Any], str]:
    return lambda value: format(value, layout)


_WRITTEN: Final[Mapping[type, tuple[Callable[[Any], str], ...]]] = {
    str: (str,),
    int: (str,),
    float: (str, lambda value: str(int(value))),
    uuid.UUID: (str, lambda value: value.hex),
    datetime.datetime: tuple(map(_as_date, _DATES)),
}
"""How values are written in paths, by their types."""
_CHANGED: Final = "another file was read at this place"


def part_of(loose: Iterable[tuple[str, object]]) -> dict[str, str]:
    """Return the part of a key with the clock readings and random names among values that it leaves out, if any.

    Args:
        loose: the labels and the values.
    """
    written = [each for each in loose if type(each[1]) in _WRITTEN]
    if not written:
        return {}
    found = dict[str, str]()
    readings = Readings()
    for label, value in written[:_MOST]:
        kind = type(value)
        if kind not in SCALARS or readings.has(kind, value):
            found |= {f"{label}#{at}": write(value) for at, write in enumerate(_WRITTEN[kind])}
    return {LABEL: json.dumps(found)} if found else {}


def directories(program: str) -> dict[str, str]:
    """Return the directories of this process by their labels, `BASES`; none for one that cannot be told.

    Args:
        program: the directory of the program.
    """
    try:
        working = os.getcwd()
    except OSError:  # it has been removed
        working = ""
    temporary = getattr(sys.modules.get("tempfile"), "tempdir", None)  # where something has asked for it
    found = program, working, temporary, os.path.expanduser("~")
    return {label: each for label, each in zip(BASES, found, strict=True) if type(each) is str and len(each) > 1}


def packages() -> dict[str, str]:
    """Return the directories of the program's own packages that are loaded, by their labels."""
    loaded = [name for name, each in sys.modules.copy().items() if "." not in name and "__path__" in vars_of(each)]
    return {PACKAGE + name: path for name in loaded if (path := _directory_of(name)) is not None}


def _directory_of(name: str) -> str | None:
    """Return the directory of a package of the program; None if it is no such package, or not loaded."""
    module = sys.modules.get(name)
    if module is None or origins.of_module(module) != origins.USER:
        return None
    return next((str(each) for each in getattr(module, "__path__", ())), None)


def is_base(label: str) -> bool:
    """Return whether a part of an entry is one of these directories."""
    return label.startswith((*BASES, PACKAGE))


def bases_of(reads: Iterable[str], bases: Mapping[str, str]) -> dict[str, str]:
    """Return those of some directories below which something was read.

    Args:
        reads: the labels of what was read.
        bases: the directories by their labels.
    """
    paths = [_below(path_of(label)) for label in reads if is_path(label)]
    return {label: base for label, base in bases.items() if any(path.startswith(_above(base, label)) for path in paths)}


def moved(then: Mapping[str, str], now: Mapping[str, str], bases: Mapping[str, str]) -> dict[str, str]:
    """Return the parts of an entry with the labels that its reads have in this process.

    Args:
        then: the parts of the entry.
        now: the parts of the same key in this process.
        bases: the directories of this process by their labels.
    """
    texts, here = _texts(then), _texts(now)
    random = {text: here[label] for label, text in texts.items() if here.get(label, text) != text}
    before = {label: text for label, text in then.items() if is_base(label)}
    present = {label: bases.get(label) or _directory_of(label.removeprefix(PACKAGE)) for label in before}
    if not random and before == present:
        return dict(then)
    pairs = {label: (_below(text), _below(present[label] or text)) for label, text in before.items()}
    own = [pair for label, pair in pairs.items() if label not in BASES[2:]]
    move = _Moves(random, [*pairs.values()], own)
    found = dict[str, str]()
    for label, text in then.items():
        if label in before:
            found[label] = present[label] or text
            continue
        for other in move.labels(label):
            found[other] = text if found.get(other, text) == text else _CHANGED
    return found


class _Moves:
    """What stands for texts and directories in paths now.

    Args:
        random: the texts that stand for others.
        directories: the directories of an entry, and those of this process.
        own: those of them from which the program may tell paths that are not below them.
    """

    def __init__(
        self, random: Mapping[str, str], directories: list[tuple[str, str]], own: list[tuple[str, str]]
    ) -> None:
        self._random = random
        self._directories = directories
        self._own = own
        longest_first = sorted(random, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    def labels(self, label: str) -> set[str]:
        """Return the labels of a read in this process; the label itself if it is that of anything else."""
        if not is_path(label):
            return {label}
        path = path_of(label)
        look = label.removesuffix(path)
        return {look + other for other in self._paths(path)}

    def _paths(self, path: str) -> Iterator[str]:
        """Yield the paths at which a process reads now what was at a path; all must be as it was.

        What was below a directory is compared where it was, too, if it is still there: the program may have read it by
        an absolute path.
        """
        is_absolute = any(os.path.isabs(text) and path.startswith(text) for text in self._random)
        above = [each for each in self._directories if _below(path).startswith(each[0]) and not is_absolute]
        longest = max((len(before) for before, _ in above), default=0)
        for before, now in above:
            if len(before) == longest or ((before, now) in self._own and now != before):
                yield (now + self._without_random(path[len(before) :])).rstrip(os.sep)
                yield from [path] if now != before and os.path.lexists(path) else []
        if not above:
            yield self._without_random(path)
        if not (is_absolute or any(now != before for before, now in above)):
            yield from self._beside(path)

    def _beside(self, path: str) -> Iterator[str]:
        """Yield what is there now as far from the program's or working directory as a path was from the earlier one."""
        for before, now in self._own if os.path.isabs(path) else ():
            way = os.path.relpath(path, before)
            other = os.path.normpath(os.path.join(now, way))
            is_near = way.split(os.sep).count(os.pardir) <= _MOST_ABOVE and os.path.isdir(os.path.dirname(other))
            yield from [other] if is_near and other != path else []

    def _without_random(self, path: str) -> str:
        return self._pattern.sub(lambda found: self._random[found[0]], path)


def _above(base: str, label: str) -> str:
    """Return the directory from which on paths are told by their way from a directory of a process."""
    steps = base.split(os.sep)
    kept = max(2, len(steps) - _MOST_ABOVE) if label in BASES[:2] else len(steps)
    return _below(os.sep.join(steps[:kept]))


def _below(directory: str) -> str:
    return os.path.join(directory, "")


def _texts(parts: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of an entry or key; none if they cannot be read."""
    try:
        return {str(label): str(text) for label, text in json.loads(parts.get(LABEL, "{}")).items()}
    except (AttributeError, ValueError):
        return {}
