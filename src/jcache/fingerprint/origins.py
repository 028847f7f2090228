"""Where code comes from: the standard library, an installed distribution, or the user.

What is installed is known by name and version, what is the user's by its content. A distribution counts as installed
where its files lie in a ``site-packages`` directory and its record names them: editable installs, directories on
``PYTHONPATH`` and files that somebody has put beside the packages are the user's.
"""

import os
import re
import sys
import sysconfig
from functools import lru_cache
from importlib import util
from types import FunctionType, ModuleType
from typing import Any, Final

from jcache.package import OWN_FILES

STDLIB: Final = "stdlib"
USER: Final = ""
OURS: Final = "jcache"
Origin = str  # STDLIB, USER, OURS, or the names of distributions with blanks between

_PACKAGES: Final = re.compile(rf".*{re.escape(os.sep)}(?:site|dist)-packages(?={re.escape(os.sep)})", re.DOTALL)
_STANDARD: Final = tuple(
    os.path.join(path, "")
    for name in ("stdlib", "platstdlib")
    if (given := sysconfig.get_paths().get(name))
    for path in {os.path.normpath(given), os.path.realpath(given)}
)
_BEFORE: Final = (b"\n", b'\n"', b"\n../")  # in a distribution's record, the name of a file, and behind it
_AFTER: Final = (b",", b'",', b"/", b"\n")
_modules: dict[str, tuple[ModuleType, Origin]] = {}


def of_module(module: ModuleType) -> Origin:
    """Of an imported module."""
    name = module.__name__
    known = _modules.get(name)
    if known is None or known[0] is not module:
        known = _modules[name] = module, _of_module(module)
    return known[1]


def of_module_named(name: str) -> Origin:
    """Of a module that may be imported; the user's, if there is none."""
    module = sys.modules.get(name)
    return USER if module is None else of_module(module)


def path_of(cls: type) -> str:
    """The module and the name of a class; of a class of jcache's the name alone, so that its module may move."""
    module = str(cls.__module__)
    return f"{OURS if of_module_named(module) == OURS else module}.{cls.__qualname__}"


def is_findable(value: FunctionType | type) -> bool:
    """Whether a function or class is what a library has under its name."""
    module = sys.modules.get(value.__module__ or "")
    if module is None or of_module(module) == USER:
        return False
    if isinstance(value, type) and vars(module).get(value.__name__) is value:  # as `jax.Array`, made by another one
        return True
    found: Any = module
    for name in value.__qualname__.split("."):
        found = vars(found).get(name) if isinstance(found, type | ModuleType) else None
    return (found.__func__ if isinstance(found, staticmethod | classmethod) else found) is value


def of_unimported(name: str) -> Origin | None:
    """Of a module that need not be imported, and is not by asking; None if there is none."""
    top = name.partition(".")[0]
    if top in sys.modules:
        return of_module(sys.modules[top])
    try:
        spec = util.find_spec(top)
    except (ImportError, ValueError, AttributeError):
        return None
    if spec is None:
        return None
    places = [spec.origin] if spec.has_location and spec.origin else list(spec.submodule_search_locations or ())
    return (_of_places(places) if places else None) or (USER if places else STDLIB)


def _of_module(module: ModuleType) -> Origin:
    if module.__name__ == "__main__":
        path = getattr(module, "__file__", None)
        return (of_path(path) or USER) if path else USER
    path = getattr(module, "__file__", None)
    if path:
        return of_path(path) or USER
    places = [str(place) for place in getattr(module, "__path__", None) or ()]
    if places:
        return _of_places(places) or USER
    spec = getattr(module, "__spec__", None)
    built_in = module.__name__ in sys.builtin_module_names or getattr(spec, "origin", None) in {"built-in", "frozen"}
    if built_in:
        return STDLIB
    parent = sys.modules.get(module.__name__.rpartition(".")[0])
    return of_module(parent) if parent is not None and parent is not module else USER  # made by a package as it runs


def _of_places(places: list[str]) -> Origin | None:
    found = sorted({origin for place in places if (origin := of_path(place))})
    return " ".join(found) or None


@lru_cache(maxsize=65536)
def of_path(path: str) -> Origin | None:
    """Of a file or a package's directory; None for what is no path, as ``<string>``."""
    if path.startswith("<frozen "):
        return STDLIB
    if path.startswith("<"):
        return None
    path = os.path.normpath(path)
    if path.startswith(OWN_FILES):
        return OURS
    packages = _PACKAGES.match(path)
    if packages is not None:
        return " ".join(_owners(packages[0], path[packages.end() + 1 :]))
    return STDLIB if path.startswith(_STANDARD) else USER


def _owners(directory: str, inner: str) -> list[str]:
    """The distributions whose records have the file, or have something in the directory."""
    inner = inner.replace(os.sep, "/")
    top = normalised(inner.partition("/")[0].partition(".")[0])
    known = metadata_in(directory)
    likely = [name for name in known if name == top]
    return _having(directory, likely, inner) or _having(directory, [name for name in known if name != top], inner)


def _having(directory: str, names: list[str], inner: str) -> list[str]:
    known = metadata_in(directory)
    wanted = os.fsencode(inner)
    return sorted(name for name in names if _has(record(os.path.join(directory, known[name])), wanted))


def normalised(name: str) -> str:
    """A distribution's name as all write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


@lru_cache(maxsize=64)
def metadata_in(directory: str) -> dict[str, str]:
    """The metadata directories in a directory, by the names of the distributions."""
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return {}
    return {normalised(name.partition("-")[0]): name for name in names if name.endswith((".dist-info", ".egg-info"))}


@lru_cache(maxsize=512)
def record(metadata: str) -> bytes:
    """A line for each file that a distribution has installed."""
    for name in ("RECORD", "installed-files.txt", "top_level.txt"):
        try:
            with open(os.path.join(metadata, name), "rb") as file:
                return b"\n" + file.read().replace(b"\r\n", b"\n") + b"\n"
        except OSError:
            continue
    return b""


def _has(record: bytes, inner: bytes) -> bool:
    """Whether a file, or something in a directory, is in a record."""
    at = record.find(inner)
    while at >= 0:
        end = at + len(inner)
        if record[max(at - 4, 0) : at].endswith(_BEFORE) and record.startswith(_AFTER, end):
            return True
        at = record.find(inner, at + 1)
    return False
