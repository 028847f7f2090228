"""What something of a library is by its own account, whatever name it is looked up under."""

# ruff: noqa: ANN401 - libraries hold anything

from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Final

_MOST_WRAPPED: Final = 3


def own_name(value: Any) -> str:
    """The module and the name that it gives for itself, and for what it wraps; the same in each process."""
    names = [_own(value)]
    while len(names) < _MOST_WRAPPED and (value := _get(value, "__wrapped__")) is not None:
        names.append(_own(value))
    return " of ".join(names)


def is_as_called(value: Any, name: str, package: str) -> bool:
    """Whether it bears the name that a package has it under, and comes from there, as far as it says."""
    if isinstance(value, ModuleType):
        home, _, own = value.__name__.rpartition(".")
        return own == name.rpartition(".")[2] and (home or own).partition(".")[0] == package
    own = _text(value, "__qualname__") or _text(value, "__name__")
    is_named = own == name or (not own and not callable(value))  # a partial may be of anything
    return is_named and _text(value, "__module__").partition(".")[0] in {"", package}


def is_other_name(value: Any, name: str) -> bool:
    """Whether a name stands for a function or a class that calls itself otherwise, and may stand for another one."""
    return isinstance(value, FunctionType | BuiltinFunctionType | type) and value.__name__ != name


def _own(value: Any) -> str:
    if isinstance(value, ModuleType):
        return value.__name__
    words = [
        type(value).__qualname__,
        _text(value, "__module__"),
        _text(value, "__qualname__") or _text(value, "__name__"),
    ]
    if isinstance(value, FunctionType):
        words += [str(value.__globals__.get("__name__", "")), value.__code__.co_qualname]
    return " ".join(words)


def _text(value: Any, name: str) -> str:
    found = _get(value, name)
    return found if isinstance(found, str) else ""


def _get(value: Any, name: str) -> Any:
    plainly = type if isinstance(value, type) else object  # `__getattr__` may give anything
    try:
        return plainly.__getattribute__(value, name)
    except Exception:  # noqa: BLE001  some library's code
        return None
