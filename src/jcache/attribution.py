"""Attribution of a read to the program, to an import or to nobody; `jcache.fingerprint.io` has the rules."""

from __future__ import annotations

import enum
import os
import sys
from types import FrameType, ModuleType
from typing import Final

from jcache.package import OWN_FILES

_NOBODYS: Final = frozenset({"jax", "jaxlib", "jcache", "jax_plugins", "libtpu"})
_PLUGINS: Final = ("jax_cuda", "jax_rocm")
_NEUTRAL: Final = sys.stdlib_module_names | {"etils", "filelock", "zstandard"}
_NEUTRAL_PACKAGE: Final = "sys"
_SOURCES: Final = frozenset({"linecache", "tokenize"})
_SHOWING: Final = frozenset({"inspect", "traceback", "warnings"})  # what runs or fails, also a file that is no module
_FINDERS: Final = _SOURCES | _SHOWING | {"importlib", "pkgutil", "runpy", "zipimport"}
_WRAPPERS: Final = frozenset(  # modules of replaced functions, whose frames lie between a reader and its caller
    {"jcache.patching", *(f"jcache.fingerprint.io.{name}" for name in ("audit", "libraries", "threads"))}
)


class Reader(enum.Enum):
    """Party to which a read is attributed."""

    PROGRAM = enum.auto()
    IMPORT = enum.auto()  # an installed package that is being imported
    NOBODY = enum.auto()  # Python's import system, JAX, jcache


def reader(frame: FrameType | None, block: FrameType | None, path: str = "") -> Reader:
    """Return to whom a read is attributed.

    Args:
        frame: the frame that reads.
        block: the frame that has begun the block, which is the program's; None if there is no block.
        path: the path that is read.
    """
    installed = False  # whether an installed package has been passed on the way
    while frame is not None and frame is not block:
        package = _acting_package(frame)
        if _reads_code(frame, package, path):
            return Reader.IMPORT if installed else Reader.NOBODY
        if package in _NOBODYS or package.startswith(_PLUGINS):
            return Reader.PROGRAM if installed and package != "jcache" else Reader.NOBODY
        if package not in _NEUTRAL:
            if not is_installed(frame):
                return Reader.PROGRAM
            installed = True
        frame = frame.f_back
    return Reader.PROGRAM


def reads_for_itself(frame: FrameType | None, path: str) -> bool:
    """Return whether a file is read for jcache, the import system or one of Python's modules that show sources.

    Args:
        frame: the frame that reads.
        path: the path that is read.
    """
    while frame is not None:
        package = _acting_package(frame)
        if package == "jcache" or _reads_code(frame, package, path):
            return True
        if package not in _NEUTRAL:
            return False
        frame = frame.f_back
    return False


def looks_for_code(frame: FrameType | None) -> bool:
    """Return whether a frame reads for one of Python's modules that find code, which the fingerprint covers."""
    return _acts_for(frame, _FINDERS)


def _acts_for(frame: FrameType | None, packages: frozenset[str]) -> bool:
    """Return whether a frame is of some modules of Python, or was called by one through others of Python alone."""
    while frame is not None and (package := package_of(frame)) in sys.stdlib_module_names:
        if package in packages:
            return True
        frame = frame.f_back
    return False


def is_of_importing(frame: FrameType) -> bool:
    """Return whether a frame is of the import system, or of `importlib`."""
    return _imports(frame) or package_of(frame) == "importlib"


def is_own(frame: FrameType) -> bool:
    """Return whether a frame is jcache's own, but not that of a replaced function: what it reads belongs to nobody."""
    return frame.f_code.co_filename.startswith(OWN_FILES) and frame.f_globals.get("__name__") not in _WRAPPERS


def is_installed(frame: FrameType) -> bool:
    """Return whether a frame runs code of an installed package."""
    return is_in_packages(frame.f_code.co_filename.replace("\\", "/"))


def is_in_packages(path: str) -> bool:
    """Return whether a file lies in a directory of installed packages."""
    return "/site-packages/" in path or "/dist-packages/" in path


def package_of(frame: FrameType) -> str:
    """Return the name of the top-level package or module whose code a frame runs."""
    if frame.f_code.co_filename.startswith(OWN_FILES):  # the recorder's modules have other names
        return "jcache"
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def is_of_jcache(frame: FrameType) -> bool:
    """Return whether a frame runs code of jcache, for jcache itself."""
    return _acting_package(frame) == "jcache"


def _acting_package(frame: FrameType) -> str:
    """Return the package whose code a frame runs; a replaced function acts for its caller."""
    return _NEUTRAL_PACKAGE if frame.f_globals.get("__name__") in _WRAPPERS else package_of(frame)


def _reads_code(frame: FrameType, package: str, path: str) -> bool:
    """Return whether a frame is of the import system, or of a module of Python that reads the source of a module."""
    reads_source = package in _SOURCES and path.endswith(".py")
    return _imports(frame) or (reads_source and (_acts_for(frame, _SHOWING) or _is_source(path)))


def _is_source(path: str) -> bool:
    """Return whether a file is the source of a module that is loaded; others may be anything, such as settings."""
    whole, last = os.path.abspath(path), os.path.basename(path)
    files = map(_file_of, [*sys.modules.values()])
    return any(name.endswith(last) and os.path.abspath(name) == whole for name in files)


def _file_of(module: object) -> str:
    name = vars(module).get("__file__") if isinstance(module, ModuleType) else None
    return name if isinstance(name, str) else ""


def _imports(frame: FrameType) -> bool:
    """Return whether a frame is of the import system, without its ``get_data``, which also reads for others."""
    code = frame.f_code
    is_frozen = code.co_filename.startswith(("<frozen importlib", "<frozen zipimport"))
    return is_frozen and code.co_name not in {"get_data", "_get_data"}
