"""Whose reading it is: see the package's docstring."""

from __future__ import annotations

import enum
import sys
from types import FrameType
from typing import Final

from jcache.package import OWN_FILES

_NOBODYS: Final = frozenset({"jax", "jaxlib", "jcache", "jax_plugins", "libtpu"})
_PLUGINS: Final = ("jax_cuda", "jax_rocm")
_NEUTRAL: Final = sys.stdlib_module_names | {"etils", "filelock", "zstandard"}
_NEUTRAL_PACKAGE: Final = "sys"
_SOURCES: Final = frozenset({"linecache", "tokenize"})
_FINDERS: Final = _SOURCES | {"importlib", "inspect", "pkgutil", "runpy", "traceback", "warnings", "zipimport"}
_WRAPPERS: Final = frozenset(  # whose frames are between what reads and its caller, where functions are replaced
    {"jcache.patching", *(f"jcache.fingerprint.io.{name}" for name in ("audit", "libraries", "threads"))}
)
_INSTALLED: Final = ("/site-packages/", "/dist-packages/")


class Reader(enum.Enum):
    """Who reads."""

    PROGRAM = enum.auto()
    IMPORT = enum.auto()  # an installed package, which is being imported
    NOBODY = enum.auto()  # Python's import system, JAX, jcache


def reader(frame: FrameType | None, block: FrameType | None, path: str = "") -> Reader:
    """Return who reads in a frame; what the frame that has begun the block does is the program's."""
    installed = False  # whether the frame that decides is an installed package's
    while frame is not None and frame is not block:
        package = package_of(frame) if frame.f_globals.get("__name__") not in _WRAPPERS else _NEUTRAL_PACKAGE
        if _imports(frame) or (package in _SOURCES and path.endswith(".py")):
            return Reader.IMPORT if installed else Reader.NOBODY
        if package in _NOBODYS or package.startswith(_PLUGINS):
            return Reader.PROGRAM if installed else Reader.NOBODY
        if package not in _NEUTRAL:
            if not is_installed(frame):
                return Reader.PROGRAM
            installed = True
        frame = frame.f_back
    return Reader.PROGRAM


def looks_for_code(frame: FrameType | None) -> bool:
    """Whether it is one of Python's own modules that find code and its source, which the fingerprint covers."""
    while frame is not None and (package := package_of(frame)) in sys.stdlib_module_names:
        if package in _FINDERS:
            return True
        frame = frame.f_back
    return False


def is_own(frame: FrameType) -> bool:
    """Whether a frame is jcache's own and none that is between what reads and its caller, so that nobody reads."""
    return frame.f_code.co_filename.startswith(OWN_FILES) and frame.f_globals.get("__name__") not in _WRAPPERS


def is_installed(frame: FrameType) -> bool:
    """Whether a frame runs code of an installed package."""
    path = frame.f_code.co_filename.replace("\\", "/")
    return any(part in path for part in _INSTALLED)


def package_of(frame: FrameType) -> str:
    """The name of the package, or of the module outside of any, whose code a frame runs."""
    if frame.f_code.co_filename.startswith(OWN_FILES):  # the recorder's modules have other names
        return "jcache"
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _imports(frame: FrameType) -> bool:
    """Whether a frame is of the import system; its ``get_data`` also reads for others."""
    code = frame.f_code
    return code.co_filename.startswith(("<frozen importlib", "<frozen zipimport")) and code.co_name != "get_data"
