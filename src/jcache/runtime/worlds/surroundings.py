"""What surrounds a program: interpreter, command, directory and the environment variables that can matter to it."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Collection
from typing import Any, Final

from jcache.runtime.worlds.digests import is_secret, short, variables_in

_PREFIXES: Final = ("JAX_", "XLA_", "EQX_", "LIBTPU_", "TPU_", "NVIDIA_TF32")
_OF_CACHES: Final = tuple(
    f"JAX_{name}" for name in ("COMPILATION_CACHE", "PERSISTENT_CACHE", "LOG", "DEBUG_LOG", "EXPLAIN_CACHE")
)
_NO_PACKAGES: Final = sys.stdlib_module_names | {"__main__", "__mp_main__", "jcache", "pytest", "xdist"}
_NAME: Final = re.compile(r"-{0,2}[A-Za-z_][\w.+~/-]*", re.ASCII)  # of an option
_OPTIONS: Final = (
    *(f"JAX_{name}" for name in ("ENABLE_COMPILATION_CACHE", "RAISE_PERSISTENT_CACHE_ERRORS", "ENABLE_PGLE")),
    "TPU_SKIP_MDS_QUERY",  # which JAX sets where there is no TPU, so that processes that it starts have it, too
)  # which are about caches, or say what the devices say, and change no program


def program_directory() -> str:
    """Return the directory of the program's main file, or the working directory."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return os.path.dirname(os.path.abspath(file)) if isinstance(file, str) else _working_directory()


def take(top: str, variables: Collection[str], packages: Collection[str]) -> tuple[dict[str, str], str | None]:
    """Return the components, and why the program's code is not known, or None.

    Args:
        top: the directory of the program.
        variables: the names of variables that stand in the program's own code.
        packages: the names of the loaded packages.
    """
    found = {
        "interpreter": f"{platform.python_implementation()} {platform.python_version()}",
        "flags": _digest(list(sys.flags), sorted(sys._xoptions.items()), sys.warnoptions),
        "directory": os.path.relpath(_working_directory(), top),
    }
    found |= _by_name([_relative(each, top) for each in _arguments()])
    code, reason = _main_code()
    if code is not None:
        found["code"] = _digest(code)
        variables = {*variables, *variables_in(code.encode(errors="replace"))}
    prefixes = _PREFIXES + tuple(each for each in variables if each.endswith("_"))  # as in ``env_prefix="APP_"``
    prefixes += tuple(f"{name.upper()}_" for name in packages if name not in _NO_PACKAGES)
    for name in (name for name in list(os.environ) if not is_secret(name, os.environ.get(name, ""))):
        if name == "PYTHONHASHSEED" or ((name in variables or name.startswith(prefixes)) and not _is_of_caches(name)):
            found[f"environment {name}"] = _digest(_relative(os.environ.get(name, ""), top))
    return found, reason


def _arguments() -> list[str]:
    """Return the arguments of the program; those of a notebook's kernel name a file of this one process."""
    return [] if sys.argv[:1] and sys.argv[0].endswith("kernel_launcher.py") else sys.argv[1:]


def _by_name(arguments: list[str]) -> dict[str, str]:
    """Return a component for the order of the options and one for each option, so that each is learnt by itself.

    An option is ``--name=value``, ``--name value`` or ``name=value``; any other argument has its number as its name. In
    ``--set lr=0.1`` the name is ``--set lr``.
    """
    values: list[tuple[str, str]] = []
    given = iter([*zip(arguments, [*arguments[1:], "-"], strict=False)])
    for each, after in given:
        name, equals, value = each.partition("=")
        if not _NAME.fullmatch(name) or (not name.startswith("-") and value.strip("=") == ""):
            name, value = f"{sum(one.isdecimal() for one, _ in values) + 1}", each
        elif not equals and not after.startswith("-"):
            value = next(given)[0]
        inner, is_setting, further = value.partition("=")
        if name.startswith("-") and is_setting and _NAME.fullmatch(inner):  # as in ``--set lr=0.1``
            name, value = f"{name} {inner}", further
        values.append((name, "" if is_secret(name.replace("-", "_"), value) else value))
    names = [name for name, _ in values]
    found = {f"argument {each}": _digest([value for name, value in values if name == each]) for each in names}
    return {"arguments": _digest(names), **found}


def _is_of_caches(name: str) -> bool:
    return name.startswith((*_OF_CACHES, "JCACHE_")) or name in _OPTIONS


def _main_code() -> tuple[str | None, str | None]:
    """Return the text of a main program that has no file, and why it is not known."""
    main: Any = sys.modules.get("__main__")
    if isinstance(getattr(main, "__file__", None), str):
        return None, None
    cells = getattr(main, "In", None)
    if isinstance(cells, list):  # a notebook's
        return "\n".join(map(str, cells)), None
    given = list(sys.orig_argv)
    if "-c" in given[:-1]:
        return given[given.index("-c") + 1], None
    return None, "the program was not read from a file"


def _relative(text: str, top: str) -> str:
    """Return a path below the program's directory from there; any other text as it is."""
    return os.path.relpath(text, top) if text.startswith(os.path.join(top, "")) else text


def place() -> tuple[str, ...]:
    """Return the working directory and the arguments of the program, which it may change while it runs."""
    return _working_directory(), *_arguments()


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # it has been removed
        return os.sep


def _digest(*values: object) -> str:
    return short(repr(values).encode(errors="surrogatepass"))
