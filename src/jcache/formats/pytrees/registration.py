"""The registry of classes that the program stores by functions of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, overload

from jcache.errors import InvalidValue, Unresolved
from jcache.formats.pytrees.adapters import PREFIX
from jcache.formats.pytrees.classes import name_of

C = TypeVar("C", bound=type)


class Registered(NamedTuple):
    """A registered class, and the functions that turn an instance into a plain value and back."""

    name: str
    cls: type
    to_dict: Callable[[Any], object]
    from_dict: Callable[[Any], object]


_by_class: dict[type, Registered] = {}
_by_name: dict[str, Registered] = {}


@overload
def register_class(
    cls: None = None,
    *,
    name: str | None = None,
    to_dict: Callable[[Any], object] | None = None,
    from_dict: Callable[[Any], object] | None = None,
) -> Callable[[C], C]: ...


@overload
def register_class(
    cls: C,
    *,
    name: str | None = None,
    to_dict: Callable[[Any], object] | None = None,
    from_dict: Callable[[Any], object] | None = None,
) -> C: ...


def register_class(
    cls: C | None = None,
    *,
    name: str | None = None,
    to_dict: Callable[[Any], object] | None = None,
    from_dict: Callable[[Any], object] | None = None,
) -> C | Callable[[C], C]:
    """Let graphs hold instances of a class, given functions that turn one into a plain value and back.

    Enumerations, namedtuples and dataclasses need not be registered.

    Args:
        cls: the class; without it, a decorator is returned.
        name: the name in stored graphs; by default its module and qualified name.
        to_dict: turns an instance into a value that can be stored, such as a dict; by default the method of this name.
        from_dict: makes the instance from the value of ``to_dict``; by default the class's method of this name.

    Raises:
        InvalidValue: ``cls`` is no class, a function is missing, or another class has the name.

    Example:
        >>> import jcache
        >>> @jcache.register_class
        ... class Mesh:
        ...     def __init__(self, points):
        ...         self.points = points
        ...
        ...     def to_dict(self):
        ...         return {"points": self.points}
        ...
        ...     @classmethod
        ...     def from_dict(cls, state):
        ...         return cls(state["points"])
        >>> from fractions import Fraction
        >>> def two_numbers(fraction):
        ...     return [fraction.numerator, fraction.denominator]
        >>> jcache.register_class(Fraction, to_dict=two_numbers, from_dict=lambda two: Fraction(*two))
        <class 'fractions.Fraction'>
    """
    if cls is None:
        return lambda cls: register_class(cls, name=name, to_dict=to_dict, from_dict=from_dict)
    if not isinstance(cls, type):
        raise InvalidValue(f"{cls!r} cannot be registered: it is not a class.")
    to_dict, from_dict = to_dict or getattr(cls, "to_dict", None), from_dict or getattr(cls, "from_dict", None)
    if not callable(to_dict) or not callable(from_dict):
        raise InvalidValue(f"{name_of(cls)} cannot be registered: it has no `to_dict` or no `from_dict`; give them.")
    if (name or "").startswith(PREFIX):
        raise InvalidValue(f"'{name}' begins with '{PREFIX}', which is for names of jcache's own: give another `name`.")
    new = Registered(name or name_of(cls), cls, to_dict, from_dict)
    old = _by_name.get(new.name)
    if old is not None and name_of(old.cls) != name_of(cls):  # not a new definition of the same class
        raise InvalidValue(f"'{new.name}' is the name of {name_of(old.cls)} already: give another `name`.")
    if old is not None:
        _by_class.pop(old.cls, None)
    if (before := _by_class.pop(cls, None)) is not None:
        _by_name.pop(before.name, None)
    _by_class[cls] = _by_name[new.name] = new
    return cls


def registered(cls: type) -> Registered | None:
    """Return the registration of a class, None if there is none."""
    return _by_class.get(cls)


def registered_as(name: str) -> Registered:
    """Return the registration under a name.

    Raises:
        Unresolved: there is none.
    """
    if name not in _by_name:
        raise Unresolved(f"No class is registered as '{name}': call `jcache.register_class` before.")
    return _by_name[name]


def from_registered(name: str, state: object) -> object:
    """Return the instance that a registered class makes from its stored value.

    Raises:
        Unresolved: no class is registered under the name, or its ``from_dict`` raised.
    """
    how = registered_as(name)
    try:
        return how.from_dict(state)
    except Exception as error:
        raise Unresolved(f"`from_dict` of '{name}' raised {error!r}.") from error
