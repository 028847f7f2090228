"""Origin of code: the standard library, an installed package, jcache, or the user.

Code in a ``site-packages`` directory is installed, and so are other files there that a distribution's record names.
Everything else outside of the standard library is the user's, such as editable installations and directories on
``PYTHONPATH``.
"""

import os
import re
import sys
import sysconfig
from contextlib import suppress
from functools import lru_cache
from importlib import util
from types import FunctionType, ModuleType
from typing import Any, Final

from jcache.fingerprint.describe import attribute_of
from jcache.package import OWN_FILES

STDLIB: Final = "stdlib"
USER: Final = ""
OURS: Final = "jcache"
Origin = str  # STDLIB, USER, OURS, or the name of an installed top-level package or module

_PACKAGES: Final = re.compile(rf".*{re.escape(os.sep)}(?:site|dist)-packages{re.escape(os.sep)}", re.DOTALL)
_STANDARD: Final = tuple(
    os.path.join(path, "")
    for name in ("stdlib", "platstdlib")
    if (given := sysconfig.get_paths().get(name))
    for path in {os.path.normpath(given), os.path.realpath(given)}
)
_CODE: Final = ("", ".py", ".pyc", ".pyi", ".so", ".pyd", ".dylib")
_modules: dict[str, tuple[ModuleType, Origin]] = {}


def is_installed(origin: Origin) -> bool:
    return origin not in {STDLIB, USER, OURS}


def of_module(module: ModuleType) -> Origin:
    name = module.__name__
    known = _modules.get(name)
    if known is None or known[0] is not module:
        known = _modules[name] = module, _of_module(module)
    return known[1]


def of_module_named(name: str) -> Origin:
    """Return the origin of the module that is loaded under a name; USER if there is none."""
    module = sys.modules.get(name)
    return USER if module is None else of_module(module)


def path_of(cls: type) -> str:
    """Return the module and name of a class; for jcache's own, the package and name: their modules may change."""
    module = str(cls.__module__)
    return f"{OURS if of_module_named(module) == OURS else module}.{cls.__qualname__}"


def is_findable(value: FunctionType | type) -> bool:
    """Return whether a library has a function or class under the name that it bears."""
    module = sys.modules.get(value.__module__ or "")
    if module is None or of_module(module) == USER:
        return False
    if isinstance(value, type) and vars(module).get(value.__name__) is value:  # `jax.Array` has another __qualname__
        return True
    found: Any = module
    for name in value.__qualname__.split("."):
        found = vars(found).get(name) if isinstance(found, type | ModuleType) else None
    return (found.__func__ if isinstance(found, staticmethod | classmethod) else found) is value


def of_unimported(name: str) -> Origin | None:
    """Return the origin of a module without importing it; None if there is no such module."""
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
    return (of_path(places[0]) or USER) if places else STDLIB


def _place_of(module: ModuleType) -> str | None:
    """Return the file of a module or a directory of a package; None if neither is known."""
    if file := getattr(module, "__file__", None):
        return str(file)
    try:
        return next(map(str, getattr(module, "__path__", None) or ()), None)
    except KeyError:  # of a package without a file, whose parent is not loaded any more
        return None


def _of_module(module: ModuleType) -> Origin:
    path = _place_of(module)
    if path or module.__name__ == "__main__":
        return (of_path(path) if path else None) or USER
    spec = getattr(module, "__spec__", None)
    if module.__name__ in sys.builtin_module_names or getattr(spec, "origin", None) in {"built-in", "frozen"}:
        return STDLIB
    parent = sys.modules.get(module.__name__.rpartition(".")[0])
    return of_module(parent) if parent is not None and parent is not module else USER  # a package made it at run time


def has_code_of_the_user(value: Any) -> bool:  # noqa: ANN401
    """Return whether a value is the user's function, or a library's object around one, whatever module it names."""
    for each in (value, attribute_of(value, "__wrapped__")):
        if type(each) is FunctionType:
            return of_path(each.__code__.co_filename) == USER
    return of_module_named(type(value).__module__) == USER


@lru_cache(maxsize=65536)
def of_path(path: str) -> Origin | None:
    """Return the origin of a file or a package's directory; None for what is no path, such as ``<string>``."""
    if path.startswith("<frozen "):
        return STDLIB
    if path.startswith("<"):
        return None
    path = os.path.normpath(path)
    if path.startswith(OWN_FILES):
        return OURS
    packages = _PACKAGES.match(path)
    if packages is not None:
        inner = path[packages.end() :]
        is_installed = os.path.splitext(inner)[1] in _CODE or _is_recorded(packages[0], inner.replace(os.sep, "/"))
        return inner.partition(os.sep)[0].partition(".")[0] if is_installed else USER
    return STDLIB if path.startswith(_STANDARD) else USER


def is_unrecorded(path: str) -> bool:
    """Return whether a file in a directory of packages is named by no record of a distribution."""
    packages = _PACKAGES.match(os.path.normpath(path))
    return packages is not None and not _is_recorded(packages[0], path[packages.end() :].replace(os.sep, "/"))


def _is_recorded(directory: str, inner: str) -> bool:
    """Return whether the record of a distribution in a directory names a file."""
    name = os.fsencode(inner)
    return any(b"\n%b" % each in _records(directory) for each in (b"%b," % name, b'"%b",' % name))


@lru_cache(maxsize=64)
def _records(directory: str) -> bytes:
    found = []
    for name in sorted(os.listdir(directory)):
        with suppress(OSError), open(os.path.join(directory, name, "RECORD"), "rb") as file:
            found.append(file.read().replace(b"\r\n", b"\n"))
    return b"\n" + b"\n".join(found)


def is_extension(module: ModuleType) -> bool:
    return str(getattr(module, "__file__", None) or "").endswith((".so", ".pyd", ".dylib"))
