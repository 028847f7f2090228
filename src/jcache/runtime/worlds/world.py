"""The world of a call: all that the program can be made of, each component with a digest.

Two processes in one world run the same program: the same sources, distributions, interpreter, command and environment.
Neither the host nor the user nor the time is a part of it.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import os
import sys
from collections.abc import Iterable, Mapping
from operator import is_
from typing import Final, NamedTuple

from jcache import clock, input_files
from jcache.fingerprint import origins
from jcache.fingerprint.io.digests import Contents, Look, label_of
from jcache.runtime.worlds import surroundings
from jcache.runtime.worlds.digests import Digests
from jcache.runtime.worlds.distributions import Distributions
from jcache.runtime.worlds.inputs import Inputs
from jcache.runtime.worlds.sources import Sources, file_of, imported_since

IMPORTED: Final = "imported "
LOOSE: Final = "loose "
_DISTRIBUTION: Final = "distribution "
_AS_INSTALLED: Final = "as installed"
_ABSENT: Final = "absent"
_DIRECTORY: Final = "a directory"  # of a package without a file
_LATELY_NS: Final = 250_000_000


class World(NamedTuple):
    """The world of a call.

    Attributes:
        components: by label, such as ``source train.py``, a digest or a version with one.
        unknown: why the world cannot be told from others, None if it can.
    """

    components: Mapping[str, str]
    unknown: str | None = None

    @property
    def digest(self) -> str:
        """32 hexadecimal digits."""
        global _last_digest
        components, digest = _last_digest
        if components is not self.components:
            components, digest = _last_digest = self.components, digest_of(self.components)
        return digest

    def of_call(self, loose: Mapping[str, str], **more: str) -> World:
        """Return the world of one call.

        Args:
            loose: the digests of values that the function can reach only by other ways than by their names.
            more: more components.
        """
        if not loose and not more:
            return self
        found = {f"{LOOSE}{name}": text for name, text in loose.items()}
        return World({**self.components, **found, **more}, self.unknown)


def digest_of(components: Mapping[str, str]) -> str:
    """Return the digest of a world's components."""
    text = "\n".join(f"{label}\t{value}" for label, value in sorted(components.items()))
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]


def take(digests: Digests) -> World:
    """Return the world as it is now.

    Args:
        digests: the remembered digests of the root in use.
    """
    top = surroundings.program_directory()
    contents = _distributions.contents(sys.path, digests)
    found, variables, reason = _sources.take(_distributions, digests, top)
    read = _inputs.take(top)
    around, unseen = surroundings.take(top, variables | _inputs.variables(), _sources.packages)
    digests.save()
    installed = {_DISTRIBUTION + name: text for name, text in contents.items()}
    return World({**installed, **found, **around, **read}, reason or unseen)


def take_lately(digests: Digests) -> World:
    """Return the world as it is now, but for files that were changed within the last quarter of a second.

    What the process itself can change (modules, variables, directory, arguments) is always looked at.

    Args:
        digests: the remembered digests of the root in use.
    """
    global _taken
    here, known = _here(), _taken
    at_ns = clock.now_ns()
    if known is not None and known.digests is digests and known.is_of(here) and known.is_late_enough(at_ns):
        return known.world
    world = take(digests)
    _taken = None if here is None else _Taken(here, digests, at_ns, world)
    return world


class _Here(NamedTuple):
    """What the process itself can change: things that are compared by their values, and modules, by identity."""

    values: tuple[object, ...]
    modules: list[object]


class _Taken(NamedTuple):
    """A world, what the process was when it was taken, and when that was, nanoseconds since 1970."""

    here: _Here
    digests: Digests
    at_ns: int
    world: World

    def is_late_enough(self, now_ns: int) -> bool:
        return 0 <= now_ns - self.at_ns < _LATELY_NS

    def is_of(self, here: _Here | None) -> bool:
        then = self.here
        if here is None or then.values != here.values or len(then.modules) != len(here.modules):
            return False
        return all(map(is_, then.modules, here.modules))


def _here() -> _Here | None:
    main, variables = sys.modules.get("__main__"), vars(os.environ).get("_data")
    if not isinstance(variables, dict) or hasattr(main, "In"):  # a notebook, whose cells count
        return None
    try:
        directory = os.getcwd()
    except OSError:
        directory = ""
    main_file = getattr(main, "__file__", None)
    values = variables.copy(), directory, sys.path[:], sys.argv[:], sys.warnoptions[:], dict(sys._xoptions), main_file
    return _Here((*values, input_files.changes(), [*sys.modules]), [*sys.modules.values()])


_taken: _Taken | None = None
_last_digest: tuple[Mapping[str, str], str] = {}, ""


def loaded() -> frozenset[str]:
    """Return the names of the modules that are loaded."""
    return frozenset(sys.modules)


def imported(
    before: frozenset[str], sought: Iterable[str], executed: Iterable[str], digests: Digests
) -> dict[str, str]:
    """Return what was imported since: each module with what its file holds, and other files that were executed.

    Args:
        before: what `loaded` has returned.
        sought: the names of modules that were looked for, also in vain.
        executed: the absolute paths of files that were executed.
        digests: the remembered digests of the root in use.
    """
    asked = (name for name in sorted(sought) if file_of(sys.modules.get(name)) is None)
    found = imported_now([IMPORTED + name for name in asked], digests)
    others = {path for path in executed if origins.of_path(path) == origins.USER}
    for name, path in imported_since(before):
        text = _text(name, path, digests)
        if text is not None and _find(name) == path:
            found[IMPORTED + name] = text
            others.discard(path)
        elif text is not None and text != _AS_INSTALLED:  # a later process cannot find it by its name
            others.add(path)
    return found | {label_of(Look.FILE, path): Contents().of_file(path) for path in sorted(others)}


def imported_now(labels: Iterable[str], digests: Digests) -> dict[str, str]:
    """Return the modules of labels as they are now; those that are not loaded are found and not imported.

    A process that is served a result counts the modules that making it would have imported as loaded.
    """
    found = {}
    for label in labels:
        name = label.removeprefix(IMPORTED)
        path = _path_of(name)
        found[label] = path if path == _DIRECTORY else (path and _text(name, path, digests)) or _ABSENT
    return found


def _text(name: str, path: str, digests: Digests) -> str | None:
    """Return the digest of a module's file; None for a file of Python or jcache."""
    _sources.add(name, path, _distributions, digests, surroundings.program_directory())
    if not _sources.has(path):
        return None
    return _sources.digest(path, digests) or _AS_INSTALLED


def _path_of(name: str) -> str | None:
    return file_of(sys.modules.get(name)) or _find(name)


def _find(name: str) -> str | None:
    """Return the path of a module's file, which is found without importing anything; `_DIRECTORY` for a package that
    has none.
    """
    places = None
    parts = name.split(".")
    for end, part in enumerate(parts, 1):
        try:  # its parents need not be loaded: without them, a namespace package is found by its last name alone
            spec = importlib.machinery.PathFinder.find_spec(part, places)
        except (ImportError, ValueError, AttributeError, TypeError):
            return None
        if spec is None:
            return None
        if end == len(parts):
            return os.path.abspath(spec.origin) if spec.has_location and spec.origin else _DIRECTORY
        places = list(spec.submodule_search_locations or ())
    return None


_sources: Final = Sources()
_distributions: Final = Distributions()
_inputs: Final = Inputs()
