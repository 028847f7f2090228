"""Which members of a user's class code may reach: those that it names, its operators, and what makes an instance.

Names of members are looked for among the names of all attributes that the visited code reads, of any object. What a
walk leaves out is compared all the same, like an attribute that no code names.
"""

# ruff: noqa: ANN401 - classes hold anything

from collections.abc import Collection, Iterable
from functools import cached_property
from types import FunctionType
from typing import Any, Final

from jcache.fingerprint.attributes import ALL, FIELDS, functions_of, has_fields
from jcache.fingerprint.classes import FACTORY
from jcache.fingerprint.code import meaning_of

ANY_CLASS: Final = "type()"
"""Stands among the names for making an instance of the class of any object."""
_ANY_CLASS: Final = frozenset({ANY_CLASS, "__class__"})
_METHODS: Final = frozenset({FunctionType, staticmethod, classmethod})
_BY_NAME: Final = frozenset(
    {"__init_subclass__", "__getstate__", "__setstate__", "__reduce__", "__reduce_ex__", "__getnewargs__",
     "__getnewargs_ex__", "__replace__", "__copy__", "__deepcopy__", "__sizeof__"}
)  # fmt: skip
"""Special methods that no operator of Python calls, but `copy`, which reads all attributes, and class statements."""
CONSTRUCTORS: Final = frozenset({"__init__", "__new__", "__post_init__", "__del__"})
_MADE: Final = ("__create_fn__.<locals>.", "namedtuple.<locals>.")  # the beginnings of names of code objects
_FILES_MADE: Final = ("<attrs generated ", "<generated_flatten_", "<generated_unflatten_")  # those of files


def is_reached(cls: type, name: str, value: Any, names: Collection[str]) -> bool:
    """Return whether code may call a method of a class, or read another value that the class has.

    Args:
        cls: the class.
        name: the name of the member.
        value: the member.
        names: the names of attributes that code reads, with `constructor_of` each class that it names.
    """
    if not (type(value) in _METHODS or _is_data(name, value) or _is_getter(value) or name.startswith(FACTORY)):
        return True
    is_operator = _is_special(name) and name not in CONSTRUCTORS | _BY_NAME and not is_generated(value)
    return is_operator or ALL in names or not names_reaching(cls, name, value).isdisjoint(names)


def _is_getter(value: Any) -> bool:
    """Return whether a member is called only where its name is read; an assignment may call another property."""
    return type(value) is cached_property or (type(value) is property and value.fset is None and value.fdel is None)


def _is_special(name: str) -> bool:
    return name[:2] == "__" and name[-2:] == "__"


def _is_data(name: str, value: Any) -> bool:
    """Return whether a member of a class is used only where code reads an attribute of that name."""
    kind = type(value)
    is_descriptor = any(hasattr(kind, each) for each in ("__get__", "__set__", "__delete__"))
    return not (is_descriptor or _is_special(name) or name[:1] == "(" or issubclass(kind, type))


def is_generated(value: Any) -> bool:
    """Return whether `dataclasses`, attrs, `namedtuple` or equinox has made a method, which reads each field anyway.

    A function may compare or print instances, but hardly any does while it is traced.
    """
    if type(value) is not FunctionType:
        return False
    code = value.__code__
    return code.co_qualname.startswith(_MADE) or code.co_filename.startswith(_FILES_MADE)


def names_reaching(cls: type, name: str, value: Any) -> set[str]:
    """Return the names, besides `ALL`, by which code may reach a member of a class that no operator calls."""
    by_fields = {FIELDS} if has_fields(cls) else set()
    if name in CONSTRUCTORS or name.startswith(FACTORY):
        return {name, constructor_of(cls)} | _ANY_CLASS | by_fields
    is_data = type(value) not in _METHODS and not _is_getter(value)
    return {name, all_of(cls)} | by_fields if is_data else {name}


def all_of(cls: type) -> str:
    """Return what stands among the names of attributes for all values that a class has, beside its methods."""
    return f"{cls.__module__}.{cls.__qualname__}.*"


def constructor_of(cls: type) -> str:
    """Return what stands among the names of attributes for making an instance of a class."""
    return f"{cls.__module__}.{cls.__qualname__}()"


def add_names(classes: Iterable[type], names: set[str]) -> None:
    """Add the names of the attributes that methods of some classes read, for each method that code may call."""
    left = [(cls, name, value) for cls in classes for name, value in vars(cls).copy().items() if functions_of(value)]
    before = -1
    while len(left) != before:
        before = len(left)
        called = [each for each in left if is_reached(*each, names)]
        left = [each for each in left if each not in called]
        for _, _, value in called:
            names |= {ANY_CLASS} if type(value) is classmethod else set()
            for function in functions_of(value):
                names |= meaning_of(function).attributes
