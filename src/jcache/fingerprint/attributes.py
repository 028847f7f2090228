"""Selection of the attributes of an object that count: those whose names are used in the code that a walk visits.

If that code can read attributes without naming them, all attributes count.
"""

# ruff: noqa: ANN401 - programs hold anything

import functools
import sys
import types
from collections.abc import Collection, Iterator
from typing import Any, Final

from jcache.fingerprint import origins
from jcache.fingerprint.describe import vars_of
from jcache.fingerprint.weak_map import WeakIdentities
from jcache.jax_internals.registry import registry

ALL: Final = "*"
FIELDS: Final = "*fields"
"""Stands among the names for all fields of dataclasses, and for making instances of them."""
_NEUTRAL: Final = frozenset({"builtins", "abc", "typing", "collections.abc"})  # their classes read no attributes
_HOLDERS: Final = frozenset({"argparse.Namespace", "argparse._AttributeHolder", "types.SimpleNamespace"})
GIVES_ANY: Final = ("__getattr__", "__getattribute__")
_INNER: Final[dict[type, tuple[str, ...]]] = {
    staticmethod: ("__func__",), classmethod: ("__func__",), property: ("fget", "fset", "fdel"),
    functools.cached_property: ("func",),
}  # fmt: skip
READ: Final = {
    **dict.fromkeys(
        ("builtins.vars", "builtins.dir", "copy.copy", "copy.deepcopy", "dataclasses.asdict", "dataclasses.astuple",
         "dataclasses.fields", "_pickle.dumps", "_pickle.dump", "inspect.getmembers"), ALL,
    ),
    "dataclasses.replace": FIELDS,
}  # fmt: skip
"""What functions read of their argument: all of its attributes, or all fields."""
CACHED: Final = "cached property"
HANDED_ON: Final = "handed-on "
"""Begins the label of what is left out of something that code hands to functions which are not known."""
_LEAST_HASH: Final = 1 << 40
_POINTER: Final = 8
_MANAGED_WEAKREF, _MANAGED_DICT = 1 << 3, 1 << 4
_known_slots: Final[WeakIdentities[list[tuple[int, str]]]] = WeakIdentities()


def held(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and values in an object's ``__dict__`` and ``__slots__``, without running code of its class."""
    for name, each in vars_of(value).items():
        yield str(name), each
    classes = type(value).__mro__
    for at, name in _slots(type(value)):
        try:
            slot = vars(classes[at])[name]
            yield slot.__name__, slot.__get__(value)
        except (AttributeError, KeyError):
            continue


def slots(cls: type) -> list[str]:
    return [name for _, name in _slots(cls)]


def slot_of(cls: type, name: str) -> types.MemberDescriptorType | None:
    """Return the slot of a class that holds an attribute of some name, also if a derived class hides it."""
    return next((vars(cls.__mro__[at])[each] for at, each in _slots(cls) if each == name), None)


def _slots(cls: type) -> list[tuple[int, str]]:
    """Return the slots of a class, each as the position of its class in the method resolution order and its name.

    A derived class may hide a slot, by one of the same name or by another attribute: the object has its value still.
    """
    known = _known_slots.get(cls)
    if known is None:
        found = [
            (at, name)
            for at, base in enumerate(cls.__mro__)
            if "__slots__" in vars(base)
            for name, each in vars(base).copy().items()
            if type(each) is types.MemberDescriptorType and each.__objclass__ is base and each.__name__ == name
        ]
        _known_slots.put(cls, known := found)
    return known


def is_plain(cls: type, base: type) -> bool:
    """Return whether instances hold only the base's state, ``__dict__`` and ``__slots__``; pickle tests the same."""
    size = base.__basicsize__ + _POINTER * len(slots(cls))
    flags = cls.__flags__
    if cls.__dictoffset__ and not base.__dictoffset__ and not flags & _MANAGED_DICT:
        size += _POINTER
    if cls.__weakrefoffset__ > 0 and not base.__weakrefoffset__ and not flags & _MANAGED_WEAKREF:
        size += _POINTER
    return cls.__basicsize__ <= size


def is_of_linen(cls: type) -> bool:
    """Return whether a class is a module of flax.linen; flax numbers the instances anew in each process."""
    return any((each.__module__, each.__name__) == ("flax.linen.module", "Module") for each in cls.__mro__)


def is_neutral(cls: type) -> bool:
    """Return whether the methods of a class decide nothing about which attributes count."""
    return cls.__module__ in _NEUTRAL or is_holder(cls) or _is_test_case(cls)


def _is_test_case(cls: type) -> bool:
    """Return whether a class is a library's for test cases, whose methods check no more than what they are given."""
    case = getattr(sys.modules.get("unittest.case"), "TestCase", None)
    return case is not None and issubclass(cls, case) and origins.of_module_named(str(cls.__module__)) != origins.USER


def is_holder(cls: type) -> bool:
    """Return whether a class of the standard library only holds the attributes that a program gives to its objects."""
    return f"{cls.__module__}.{cls.__qualname__}" in _HOLDERS


def is_whole(cls: type) -> bool:
    """Return whether all attributes of the instances of a user's class count."""
    classes = [each for each in cls.__mro__ if each.__module__ != "builtins" and not is_holder(each)]
    return cls in registry() or any(name in vars(each) for each in classes for name in GIVES_ANY)


def is_frozen(cls: type) -> bool:
    """Return whether a class is a frozen dataclass, whose instances count as values do."""
    return bool(getattr(vars(cls).get("__dataclass_params__"), "frozen", False))


def has_fields(cls: type) -> bool:
    """Return whether a class is a dataclass, or derived from one."""
    return any("__dataclass_fields__" in vars(each) for each in cls.__mro__)


def names_reading(cls: type, name: str) -> set[str]:
    """Return the names, besides `ALL`, by which code may read an attribute of an object of a class."""
    return {name, FIELDS} if has_fields(cls) else {name}


def is_kept(cls: type, name: str) -> bool:
    """Return whether an attribute is the cached value of a property, which follows from the object's other state.

    The first class that has the name decides, as it does for Python: a derived class may replace the property.
    """
    found = next((members[name] for each in cls.__mro__ if name in (members := vars(each))), None)
    return type(found) is functools.cached_property


def label_of(kind: type, name: str, *, is_cached: bool, is_handed_on: bool) -> str:
    """Return the label of an attribute that is left out, which may be the cached value of a property."""
    what = CACHED if is_cached else f"{HANDED_ON if is_handed_on else ''}attribute"
    return f"{what} {name} of {kind.__qualname__}"


def are_read(cls: type, names: Collection[str]) -> bool:
    """Return whether code may read all attributes of an object of a class, by the names of attributes that it reads."""
    return ALL in names or (FIELDS in names and has_fields(cls))


def is_hash(value: Any, name: str = "") -> bool:
    """Return whether a value that a library holds may be a hash, or an address: each process has another one.

    Under a name that says so, None stands for one that nobody has asked for.
    """
    return (type(value) is int and abs(value) >= _LEAST_HASH) or (value is None and "hash" in name)


def is_hash_of(number: int, value: Any) -> bool:
    """Return whether a number is the hash of an object, which the object keeps; that of a text is another one."""
    try:
        own = getattr(type(value), "__hash__", None)
        return own is not object.__hash__ and hash(value) == number
    except Exception:  # noqa: BLE001  the program's code
        return False


def functions_of(value: Any) -> list[types.FunctionType]:
    if type(value) is types.FunctionType:
        return [value]
    inner = [getattr(value, name, None) for name in _INNER.get(type(value), ())]
    return [each for each in inner if type(each) is types.FunctionType]
