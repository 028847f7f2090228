"""Read structures from JSON; the grammar is in the package's docstring."""

# ruff: noqa: ANN401 - treedefs belong to JAX and have no stable types

from __future__ import annotations

import base64
import binascii
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final

from jcache.errors import DamagedEntry, Unresolved
from jcache.formats import pytrees
from jcache.formats.pytrees.classes import fields_of_namedtuple, find, is_namedtuple, lookup, name_of
from jcache.jax_internals import treedefs
from jcache.jax_internals.registry import registry
from jcache.jax_internals.treedefs import LEAF, Json, Node, Treedef, nodes_of

_MAX_DEPTH: Final = 200  # levels of a node's auxiliary data
_NOT_THERE: Final = "A stored structure is like a part of the arguments that they do not have."


def decode(value: Json, likes: Sequence[Treedef], objects: Sequence[Any] = ()) -> Treedef:
    """Return the structure that was encoded.

    Args:
        value: the JSON.
        likes: the structures that the JSON may refer to.
        objects: the objects that it may refer to.

    Raises:
        DamagedEntry: the value does not follow the grammar.
        Unresolved: a class is not imported or not registered here, or the likes are not those of the encoding.
    """
    if type(value) is not list:
        raise _malformed()
    reader = _Reader(likes, objects)
    waiting: list[Treedef] = []
    for node in reversed(value):
        waiting.append(reader.treedef(node, waiting))
    if len(waiting) != 1:
        raise _malformed()
    return waiting[0]


def _malformed() -> DamagedEntry:
    return DamagedEntry("A stored structure does not follow the grammar.")


class _Reader:
    """A reader of nodes."""

    def __init__(self, likes: Sequence[Treedef], objects: Sequence[Any]) -> None:
        self._likes = list(nodes_of(*likes))
        self._objects = objects

    def treedef(self, node: Json, waiting: list[Treedef]) -> Treedef:
        """Return the treedef of a node.

        Args:
            node: the JSON of the node.
            waiting: the treedefs of the nodes that follow and have no parent yet, the next one last; the node's
                children are taken from its end.
        """
        if node is None or (type(node) is str and node == LEAF):
            return _structure(node)
        if type(node) is int:
            return self._like(node).treedef
        if type(node) is not list or len(node) not in (3, 4):
            raise _malformed()
        if type(node[2]) is not int or not 0 <= node[2] <= len(waiting):
            raise _malformed()
        cls = find(node[0]) if type(node[0]) is str else self._like(node[0]).cls
        if node[3:] != _registered_by(cls):
            raise Unresolved(f"{name_of(cls)} is taken apart and put together by other functions than before.")
        return _made(cls, self._aux(node[1]), [waiting.pop() for _ in range(node[2])])

    def _like(self, number: Json) -> Node:
        if type(number) is int and 0 <= number < len(self._likes) and (node := self._likes[number]) is not None:
            return node
        raise Unresolved(_NOT_THERE)

    def _aux(self, aux: Json, depth: int = 0) -> Any:
        if depth > _MAX_DEPTH:
            raise _malformed()
        if type(aux) is list:
            return [self._aux(part, depth + 1) for part in aux]
        if type(aux) is not dict:
            return aux
        tag, value = next(iter(aux.items()), ("", None))
        if len(aux) != 1 or tag not in _READ or type(value) is not _READ[tag][0]:
            raise _malformed()
        return _READ[tag][1](self, value, depth + 1)

    def _dict(self, value: list[Json], depth: int) -> Any:
        if not all(type(pair) is list and len(pair) == 2 for pair in value):
            raise _malformed()
        try:
            return {self._aux(key, depth): self._aux(part, depth) for key, part in value}
        except TypeError as error:  # a key that cannot be hashed
            raise _malformed() from error

    def _object(self, name: str, _depth: int) -> Any:
        return treedefs.object_named(name)

    def _sentinel(self, names: list[Json], _depth: int) -> Any:
        if len(names) != 2 or not all(type(name) is str for name in names):
            raise _malformed()
        found = lookup(names[0])
        if type(found) is not find(names[1]) or not treedefs.is_sentinel(found):
            raise Unresolved(f"`{names[0]}` is no sentinel any more.")
        return found

    def _part(self, path: list[Json], _depth: int) -> Any:
        if not path:
            raise _malformed()
        aux = self._like(path[0]).aux
        for position in path[1:]:
            parts = treedefs.parts_of(aux)
            if parts is None or type(position) is not int or not 0 <= position < len(parts):
                raise Unresolved(_NOT_THERE)
            aux = parts[position]
        return aux

    def _made(self, number: int, _depth: int) -> Any:
        if not 0 <= number < len(self._objects):
            raise _malformed()
        return self._objects[number]

    def _data(self, text: str, _depth: int) -> Any:
        try:
            payload = bytearray(base64.b64decode(text, validate=True))
        except (binascii.Error, ValueError) as error:
            raise _malformed() from error
        return pytrees.load(memoryview(payload))


_READ: Final[dict[str, tuple[type, Callable[[_Reader, Any, int], Any]]]] = {
    "tuple": (list, lambda reader, value, depth: tuple(reader._aux(part, depth) for part in value)),
    "dict": (list, _Reader._dict),
    "object": (str, _Reader._object),
    "sentinel": (list, _Reader._sentinel),
    "like": (list, _Reader._part),
    "made": (int, _Reader._made),
    "data": (str, _Reader._data),
    "structure": (list, lambda _, value, __: decode(value, ())),
}


def _registered_by(cls: type) -> list[str] | None:
    try:
        return treedefs.registered_by(cls)
    except Exception:  # noqa: BLE001 - this runs the program's own code
        return None


def _made(cls: type, aux: Any, children: list[Treedef]) -> Treedef:
    from jax import tree_util

    _check(cls, aux, len(children))
    make = getattr(tree_util.PyTreeDef, "from_node_data_and_children", None)
    try:
        if make is not None:
            return make(tree_util.default_registry, (cls, aux), children)
        return _structure(_unflattened(cls, aux, children))
    except Exception as error:
        raise Unresolved(f"{name_of(cls)} is no such node of JAX's here: {str(error).rstrip('.')}.") from error


def _check(cls: type, aux: Any, count: int) -> None:
    """Check the auxiliary data of a node of Python's own classes, which JAX does not check.

    Raises:
        DamagedEntry: the auxiliary data do not fit the class or the number of children.
    """
    if cls is dict:
        try:
            good = type(aux) is list and len(aux) == count and _structure(dict.fromkeys(aux)).node_data()[1] == aux
        except Exception as error:
            raise _malformed() from error
    elif cls is OrderedDict:
        good = type(aux) is tuple and len(aux) == count
    elif cls is defaultdict:
        good = type(aux) is tuple and len(aux) == 2 and type(aux[1]) is tuple and len(aux[1]) == count
    elif is_namedtuple(cls):
        good = aux is not None or len(fields_of_namedtuple(cls)) == count
    else:
        good = cls not in (tuple, list) or aux is None
    if not good:
        raise _malformed()


def _unflattened(cls: type, aux: Any, children: list[Treedef]) -> Any:
    """Return an instance with arbitrary leaves, for a JAX (until 0.8) that cannot make a treedef from its parts."""
    parts = [child.unflatten([0] * child.num_leaves) for child in children]
    if cls in registry():
        return registry()[cls].from_iter(aux, parts)
    if is_namedtuple(cls):
        return tuple.__new__(cls, parts)
    raise ValueError("it is not registered")


def _structure(tree: Any) -> Treedef:
    from jax.tree_util import tree_structure

    return tree_structure(tree)
