"""Statements that do no more than count that they ran, as ``n += 1``, ``calls.append("f")``, ``counts["f"] += 1``.

What such a variable holds decides no result where nothing else in the code looks at it. So it is no part of a key, nor
is it a change that it counts; and where a result comes from the cache it stays as it is, as whoever counts wants it.
"""

# ruff: noqa: ANN401 - variables hold anything

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import CodeType, FunctionType, SimpleNamespace
from typing import Any, Final

from jcache.fingerprint.instructions import ATTRIBUTE, INDEX, Step

Kind = tuple[str, Any]
"""A way to count: "number", "append", "add", "item" with the index or "attribute" with its name, else None."""

_STORE_OF: Final = {"LOAD_GLOBAL": "STORE_GLOBAL", "LOAD_DEREF": "STORE_DEREF"}
_CONSTANT: Final = frozenset({"LOAD_CONST", "LOAD_SMALL_INT"})
_ADDED: Final = frozenset({0, 13})  # of BINARY_OP: + and +=
_ITEM: Final = (("COPY", 2), ("COPY", 2), ("GET", 0), ("CONSTANT", 0), ("ADD", 0), ("SWAP", 3), ("SWAP", 2))
_ATTRIBUTE: Final = (("CONSTANT", 0), ("ADD", 0), ("SWAP", 2), ("STORE_ATTR", 0))
_NUMBERS: Final = (int, float)
_TABLES: Final = (Counter, dict, list)
_CELLS: Final = frozenset({"LOAD_DEREF", "STORE_DEREF", "DELETE_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"})


def counting(listing: Sequence[Step]) -> dict[int, Kind]:
    """The instructions of a code object that load or store a variable in order to count, and how."""
    found: dict[int, Kind] = {}
    for at, each in enumerate(listing):
        store = _STORE_OF.get(each.name)
        kind = None if store is None else _kind(each, store, listing[at + 1 : at + 11])
        if kind is not None:
            found[at] = kind
            if kind[0] == "number":
                found[at + 3] = kind
    return found


def _kind(load: Step, store: str, rest: Sequence[Step]) -> Kind | None:
    first = rest[0] if rest else load
    if first.name in ATTRIBUTE and first.value in {"append", "add"}:
        shapes = [_shape(each) for each in rest[1:4]]
        return (first.value, None) if shapes == [("CONSTANT", 0), ("CALL", 1), ("POP_TOP", 0)] else None
    shapes = [_shape(each) for each in rest]
    if shapes[:2] == [("CONSTANT", 0), ("ADD", 0)] and rest[2:3] and rest[2][:2] == (store, load.value):
        return "number", None
    if shapes[:1] == [("COPY", 1)] and rest[1].name == "LOAD_ATTR" and tuple(shapes[2:6]) == _ATTRIBUTE:
        return ("attribute", rest[1].value) if rest[5].value == rest[1].value else None
    if shapes[:1] == [("CONSTANT", 0)] and tuple(shapes[1:9]) == (*_ITEM, ("STORE_SUBSCR", 0)):
        return "item", first.value
    return None


def _shape(step: Step) -> tuple[str, int]:
    """What an instruction does, as far as it matters here."""
    if step.name in _CONSTANT:
        return "CONSTANT", 0
    if step.name == "BINARY_OP" and step.number in _ADDED:
        return "ADD", 0
    if step.name == "BINARY_SUBSCR" or (step.name == "BINARY_OP" and step.number == INDEX):
        return "GET", 0
    return step.name, step.number if step.name in {"COPY", "SWAP", "CALL"} else 0


def counted_cells(codes: Collection[tuple[CodeType, Sequence[Step]]]) -> Mapping[str, frozenset[Kind]]:
    """The variables of functions around some code with which it does nothing but count, and how."""
    counted: dict[str, set[Kind]] = {}
    used: set[str] = set()
    for code, listing in codes:
        found = counting(listing)
        for at, name in _cells(code, listing):
            if at in found:
                counted.setdefault(name, set()).add(found[at])
            else:
                used.add(name)
    return {name: frozenset(kinds) for name, kinds in counted.items() if name not in used}


def _cells(code: CodeType, listing: Sequence[Step]) -> Iterator[tuple[int, str]]:
    """The instructions that use variables which functions share."""
    shared = {*code.co_freevars, *code.co_cellvars}
    for at, each in enumerate(listing):
        if each.name in _CELLS and each.value in shared:
            yield at, each.value


def only_counts(value: Any, kinds: Collection[Kind]) -> bool:
    """Whether counting in these ways is all that happens to a value: it is of a type that does so."""
    kind = type(value)
    return all(_counts(value, kind, way, index) for way, index in kinds)


def _counts(value: Any, kind: type, way: str, index: Any) -> bool:
    if way == "number":
        return kind in _NUMBERS
    if way == "item":
        try:
            return kind in _TABLES and type(value[index]) in _NUMBERS
        except (IndexError, KeyError, TypeError):
            return False
    if way == "attribute":
        return _is_plain(kind, index) and type(getattr(value, "__dict__", {}).get(index)) in _NUMBERS
    return kind is {"append": list, "add": set}[way]


def _is_plain(kind: type, attribute: str) -> bool:
    """Whether objects of a type do nothing of their own where an attribute is read and set."""
    if kind in {type, FunctionType, SimpleNamespace}:
        return True
    special = ("__getattribute__", "__setattr__")
    is_usual = all(getattr(kind, name) is getattr(object, name) for name in special)
    return is_usual and not hasattr(type(getattr(kind, attribute, None)), "__set__")
