"""Growth of containers: whether one has only grown, and what it has got."""

# ruff: noqa: ANN401 - programs hold anything

import collections
from collections.abc import Mapping
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final

_FUNCTIONS: Final = frozenset({FunctionType, BuiltinFunctionType})
MEMOS: Final = (dict, collections.OrderedDict, collections.defaultdict)


def has_grown(before: Any, now: Any) -> bool:
    """Return whether all items of a container are still there, in their places."""
    if type(before) is not type(now) or len(before) > len(now):
        return False
    if isinstance(before, dict):
        missing = object()
        return has_all_keys(before, now) and all(is_same(each, now.get(key, missing)) for key, each in before.items())
    if isinstance(before, set):
        return bool(before <= now)
    return all(is_same(one, other) for one, other in zip(before, now, strict=False))


def has_all_keys(before: Mapping[Any, Any], now: Mapping[Any, Any]) -> bool:
    """Return whether all keys of a dict are still there, before any new one: none was removed and added again."""
    return [*now][: len(before)] == [*before]


def counts(before: Any, now: Any) -> bool:
    """Return whether an integer in a container was replaced."""
    if isinstance(before, dict):
        return any(now.get(key) is not value for key, value in before.items())
    return not isinstance(before, set) and any(one is not other for one, other in zip(before, now, strict=False))


def is_memo(before: Any, now: Any) -> bool:
    """Return whether a container that has grown is a dict that has got what memos keep: arrays, and plain functions.

    A number or text under a new key may count, or number something, and what can change itself may be a log. What else
    a memo keeps may depend on more than its key; an array that does has another shape, which does not fit.
    """
    return type(now) in MEMOS and all(_is_kept(value) for key, value in now.items() if key not in before)


def _is_kept(value: Any) -> bool:
    if type(value) is tuple:
        return any(map(_is_kept, value))
    is_array = hasattr(value, "dtype") and bool(getattr(value, "shape", ()))
    has_state = type(value) is FunctionType and (value.__closure__ or value.__defaults__ or value.__kwdefaults__)
    return is_array or (type(value) in _FUNCTIONS and not has_state)


def tells(before: Any, now: Any) -> bool:
    """Return whether a container that has grown tells of arrays: a dict of their shapes or types, or of structures and
    functions; any other container of the latter two. Counts, times and the records of a log tell nothing.
    """
    if isinstance(now, dict):
        return any(_is_of_array(value) for key, value in now.items() if key not in before)
    added = now - before if isinstance(now, set) else list(now)[len(before) :]
    return any(map(_is_structure, added))


def _is_of_array(value: Any) -> bool:
    is_shape = type(value) is tuple and all(type(each) is int for each in value)
    return is_shape or hasattr(value, "dtype") or type(value).__module__.startswith("numpy") or _is_structure(value)


def _is_structure(value: Any) -> bool:
    return type(value) is FunctionType or type(value).__name__ == "PyTreeDef"


def is_same(before: Any, now: Any) -> bool:
    return before is now or type(before) is type(now) is int
