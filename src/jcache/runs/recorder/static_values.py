"""Write the values of static arguments as text, without running code of the program.

No ``repr`` of the program's own classes is called: it may be slow, raise, or print secrets. This module needs the
standard library alone, as `jcache.runs.recorder.key_parts`.
"""

# ruff: noqa: ANN401 - any value of the program

import enum

if False:  # for the type checker: typing and collections.abc are not needed to run
    from collections.abc import Mapping
    from typing import Any

_MAX_CHARS = 300
_MAX_ITEMS = 32
_MAX_DEPTH = 4
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))


def texts(info: "Any", positional: "tuple[Any, ...]", by_name: "Mapping[str, Any]") -> "dict[str, str]":
    """Return the values of the static arguments of a call, by their names; by their positions where they have none.

    Args:
        info: JAX's ``PjitInfo`` of the function.
        positional: the positional arguments.
        by_name: the keyword arguments.
    """
    names = list(info.fun_signature.parameters) if info.fun_signature is not None else []
    found = {}
    for number in info.static_argnums:
        if -len(positional) <= number < len(positional):
            at = number % len(positional)
            found[names[at] if at < len(names) else str(at)] = text_of(positional[number])
    for name in info.static_argnames:
        if name in by_name:
            found[str(name)] = text_of(by_name[name])
    return found


def text_of(value: "Any") -> str:
    """Return a value as text of at most 300 characters; an object of an unknown class as the name of its class."""
    return _text(value, 0)[:_MAX_CHARS]


def _text(value: "Any", depth: int) -> str:
    kind = type(value)
    if kind in _PLAIN:
        return repr(value[:_MAX_CHARS] if kind in (str, bytes) else value)
    if isinstance(value, enum.Enum):
        return f"{kind.__qualname__}.{value._name_}"
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        return f"{getattr(value, '__module__', '')}.{value.__qualname__}"
    if depth < _MAX_DEPTH:
        if kind in (tuple, list, set, frozenset):
            items = [_text(item, depth + 1) for item in list(value)[:_MAX_ITEMS]]
            return "(" + ", ".join(sorted(items) if kind in (set, frozenset) else items) + ")"
        if kind is dict:
            return "{" + ", ".join(_pairs(list(value.items())[:_MAX_ITEMS], depth)) + "}"
        fields = getattr(kind, "__dataclass_fields__", None) or getattr(kind, "_fields", None)
        if fields is not None:
            stored = [(name, _field(value, name)) for name in list(fields)[:_MAX_ITEMS]]
            return f"{kind.__qualname__}({', '.join(f'{name}={_text(item, depth + 1)}' for name, item in stored)})"
    return f"<{kind.__module__}.{kind.__qualname__}>"


def _pairs(items: "list[tuple[Any, Any]]", depth: int) -> "list[str]":
    return [f"{_text(name, depth + 1)}: {_text(item, depth + 1)}" for name, item in items]


def _field(value: "Any", name: str) -> "Any":
    """Return a field without running a property of the program."""
    if isinstance(value, tuple):
        return tuple.__getitem__(value, type(value)._fields.index(name))  # type: ignore[attr-defined]
    return getattr(value, "__dict__", {}).get(name, ...)
