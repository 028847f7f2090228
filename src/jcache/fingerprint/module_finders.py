"""Functions that find modules, or what is in them, by texts, and which modules they may find."""

from collections.abc import Iterable
from types import BuiltinFunctionType, FunctionType
from typing import Final

from jcache.fingerprint import chance
from jcache.fingerprint.name_resolution import of_function
from jcache.fingerprint.origins import STDLIB

_IMPORTING: Final = frozenset(
    {"builtins.__import__", "importlib.import_module", "_frozen_importlib.__import__", "pkgutil.resolve_name"}
)
_READING: Final = frozenset(
    {"builtins.eval", "builtins.exec", "builtins.globals", "pydoc.locate", "_pickle.loads", "_pickle.load",
     "inspect.getmodule", "inspect.get_annotations", "typing.get_type_hints"}
)  # fmt: skip


def name_of_finder(value: object) -> str | None:
    """Return the name of a function that finds modules by texts; None for every other value, also one of that name."""
    if type(value) is BuiltinFunctionType or (type(value) is FunctionType and of_function(value) == STDLIB):
        name = chance.name_of(value)
        return name if name in _IMPORTING or name in _READING else None
    return None


def found_by(finder: str, given: Iterable[object]) -> set[str] | None:
    """Return the names of the modules that a function may find, with the packages above them; None if it may be any.

    Args:
        finder: the name of the function.
        given: what code calls it with, as in `jcache.fingerprint.bytecode.CodeReads`.
    """
    if finder not in _IMPORTING:
        return None
    found: set[str] = set()
    for each in given or (None,):
        if type(each) is not str or each.startswith("."):
            return None
        parts = each.replace(":", ".").split(".")
        found |= {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
    return found
