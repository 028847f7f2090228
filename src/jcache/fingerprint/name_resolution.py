"""Resolution of the names that code looks up."""

# ruff: noqa: ANN401 - names stand for anything

import functools
import importlib
import sys
import types
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from jcache.fingerprint import origins
from jcache.fingerprint.bytecode import IMPORT, Chain
from jcache.fingerprint.describe import vars_of

ABSENT: Final = object()


class Unimported(NamedTuple):
    """Library that is not imported yet, or a member of one."""

    path: str
    origin: origins.Origin


class Resolved(NamedTuple):
    """Result of resolving a chain of names."""

    value: Any  # what the chain stands for, ABSENT or an Unimported
    module: str | None  # the name of the module that holds it; None for a builtin
    name: str
    origin: origins.Origin
    path: str = ""  # the dotted path to it through a library, imported or not
    inside: bool = False  # whether the chain begins with an import in the function
    loader: Any = None  # the function or class with which a module computes its attributes


def find(chain: Chain, namespace: Mapping[str, Any], special: Mapping[str, Any]) -> Resolved:
    """Return what a chain stands for.

    Attributes are resolved only in modules: the resolution stops at the first object that is no module.

    Args:
        chain: the names, see `jcache.fingerprint.bytecode`.
        namespace: the globals of the function.
        special: the builtins of the function.
    """
    first = chain[0]
    if first.startswith(IMPORT):
        found = imported(_name_of_import(first, namespace))
    elif first in namespace:
        home = str(namespace.get("__name__", "?"))
        value = namespace[first]
        found = Resolved(value, home, first, origins.of_module_named(home), _path(value) or f"{home}.{first}")
    else:
        found = Resolved(special.get(first, ABSENT), None, first, origins.STDLIB)
    for at, name in enumerate(chain[1:], 1):
        if isinstance(found.value, Unimported):
            path = f"{found.path}.{name}"
            found = found._replace(value=Unimported(path, found.origin), name=name, path=path)
        elif not isinstance(found.value, types.ModuleType) or name == "__dict__":
            if found.inside:  # as if the library were not imported yet
                found = found._replace(path=".".join([found.path, *chain[at:]]))
            break
        else:
            found = _attribute(found.value, name, found)
    return found


def _path(value: Any) -> str:
    return value.__name__ if isinstance(value, types.ModuleType) else ""


def _attribute(module: types.ModuleType, name: str, above: Resolved) -> Resolved:
    origin = origins.of_module(module)
    path = f"{above.path}.{name}"
    own = vars(module)
    if origin != origins.USER:
        value = own.get(name, sys.modules.get(f"{module.__name__}.{name}", ABSENT))
        if value is ABSENT:
            value = getattr(module, name, ABSENT) if origin == "numpy" else Unimported(path, origin)
        return Resolved(value, module.__name__, name, origin, path, above.inside)
    is_usual = type(module) is types.ModuleType
    if is_usual and name in own:
        return Resolved(own[name], module.__name__, name, origin, _path(own[name]))
    try:
        value = getattr(module, name)
    except Exception:  # noqa: BLE001  the user's code runs here, as it would in the function
        value = _submodule(module, name)
    loader = own.get("__getattr__") if is_usual else type(module)
    return Resolved(value, module.__name__, name, origin, _path(value), loader=loader)


def _submodule(module: types.ModuleType, name: str) -> Any:
    """Import and return a submodule, as ``from package import module`` does if it is no attribute yet."""
    try:
        return importlib.import_module(f"{module.__name__}.{name}")
    except Exception:  # noqa: BLE001  the user's code
        return ABSENT


def is_loaded(first: str, namespace: Mapping[str, Any]) -> bool:
    """Return whether the first name of a chain is no module that has not been imported yet."""
    return not first.startswith(IMPORT) or _name_of_import(first, namespace) in sys.modules


def _name_of_import(text: str, namespace: Mapping[str, Any]) -> str:
    level, _, name = text.removeprefix(IMPORT).partition(":")
    if level != "0":
        package = namespace.get("__package__") or str(namespace.get("__name__", "")).rpartition(".")[0]
        above = str(package).split(".")
        name = ".".join([*above[: len(above) - int(level) + 1], *([name] if name else [])])
    return name


def imported(name: str) -> Resolved:
    """Return a module.

    If it is the user's or the standard library's, it is imported, as the function would do. One of an installed package
    is not.
    """
    module = sys.modules.get(name)
    if module is None:
        origin = origins.of_unimported(name)
        if origin is None:
            return Resolved(ABSENT, name, name, origins.USER)
        if origin not in {origins.USER, origins.STDLIB}:
            return Resolved(Unimported(name, origin), name, name, origin, name, inside=True)
        try:
            module = importlib.import_module(name)
        except Exception:  # noqa: BLE001  the user's code
            return Resolved(ABSENT, name, name, origins.USER)
    return Resolved(module, name, name, origins.of_module(module), name, inside=True)


def is_of_library(chain: Chain, function: types.FunctionType) -> bool:
    """Return whether a chain of names leads a function to a library's module."""
    live: Any = function  # some versions of typeshed lack `__builtins__`
    value = find(chain, function.__globals__, live.__builtins__).value
    if isinstance(value, Unimported):
        return True
    return type(value) is types.ModuleType and origins.of_module(value) not in {origins.USER, origins.OURS}


def is_made_of_users(value: Any, depth: int = 4) -> bool:
    """Return whether a value that a library holds is made of the user's code."""
    if depth == 0:
        return False
    if isinstance(value, types.FunctionType):
        compiled = _is_compiled_by_library(value)
        if of_function(value) == origins.USER and not compiled:
            return True
        cells = [content_of(cell) for cell in value.__closure__ or ()]
        used = [value.__globals__.get(name) for name in value.__code__.co_names] if compiled else []
        inner = [*cells, *used, *(value.__defaults__ or ()), getattr(value, "__wrapped__", None)]
        return any(is_made_of_users(each, depth - 1) for each in inner if callable(each))
    if isinstance(value, type):
        home = sys.modules.get(value.__module__)
        if home is not None and (getattr(home, "__file__", None) or home.__name__ == "__main__"):
            return origins.of_module(home) == origins.USER
        own = vars(value).copy().values()
        return any(is_made_of_users(each, 1) for each in own if isinstance(each, types.FunctionType))
    if isinstance(value, types.MethodType):
        return is_made_of_users(value.__self__, depth - 1) or is_made_of_users(value.__func__, depth - 1)
    inner = [value.func if isinstance(value, functools.partial) else None, vars_of(value).get("__wrapped__")]
    return is_made_of_users(type(value), depth - 1) or any(
        is_made_of_users(each, depth - 1) for each in inner if callable(each)
    )


def _is_compiled_by_library(function: types.FunctionType) -> bool:
    """Return whether a library has compiled a function from a text among its own globals, as networkx does."""
    home = sys.modules.get(str(function.__globals__.get("__name__")))
    if home is None or vars(home) is not function.__globals__ or origins.of_module(home) == origins.USER:
        return False
    return origins.of_path(function.__code__.co_filename) is None


def content_of(cell: types.CellType) -> Any:
    """Return the value of a variable in a closure; None if it has none."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def of_function(function: types.FunctionType) -> origins.Origin:
    """Return where a function comes from: by its file, or else by its module."""
    origin = origins.of_path(function.__code__.co_filename)
    if origin is not None:
        return origin
    return origins.of_module_named(function.__module__) if origins.is_findable(function) else origins.USER
