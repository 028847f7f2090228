"""Write structures as JSON; the grammar is in the package's docstring."""

# ruff: noqa: ANN401 - treedefs belong to JAX and have no stable types

from __future__ import annotations

import base64
import json
import math
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from jcache.errors import DamagedEntry, NotStorable, Unresolved
from jcache.fingerprint import digest_of
from jcache.formats import pytrees
from jcache.formats.pytrees.classes import find, name_of
from jcache.formats.pytrees.grammar import is_text
from jcache.jax_internals import treedefs
from jcache.jax_internals.treedefs import LEAF, Json, Node, Treedef, nodes_of
from jcache.traces.structures.decoding import decode

_WAY_OUT: Final = "make it a part of an argument, or register its class with `jcache.register_class`"


def encode(treedef: Treedef, likes: Sequence[Treedef], objects: list[Any] | None = None, why: str = "") -> list[Json]:
    """Return a structure as JSON, from which `decode` makes the same structure.

    Args:
        treedef: the structure.
        likes: the structures that the JSON may refer to; `decode` needs the same ones.
        objects: takes the objects that JSON cannot have and that are in no like; `decode` needs equal ones. Without it,
            a structure that has such an object is refused.
        why: what the refusal says besides.

    Raises:
        NotStorable: a part of the structure cannot be written, or would be read as another one.
    """
    try:
        encoded = _encoded(treedef, likes, objects)
        again = decode(encoded, likes, objects or ())
        same = bool(again == treedef) and _encoded(again, likes, None if objects is None else []) == encoded
    except NotStorable as refused:
        raise NotStorable(f"The structure of the result cannot be stored: {refused}{why}: {_WAY_OUT}.") from refused
    except Exception as error:
        reason = error if isinstance(error, DamagedEntry | Unresolved) else repr(error)
        raise NotStorable(f"The structure of the result cannot be stored: {reason}") from error
    if not same:
        raise NotStorable("The structure of the result cannot be stored: it would be read as another one.")
    return encoded


def _encoded(treedef: Treedef, likes: Sequence[Treedef], objects: list[Any] | None = None) -> list[Json]:
    known = _Likes(likes)
    known.objects = objects
    nodes = list(nodes_of(treedef))
    auxes = [_attempt(known, node) for node in nodes]
    numbers = known.numbers(nodes, [None if isinstance(aux, NotStorable) else json.dumps(aux) for aux in auxes])
    encoded: list[Json] = []
    beyond = 0  # the first node that is not below a copied node
    for index, (node, aux, number) in enumerate(zip(nodes, auxes, numbers, strict=True)):
        if index < beyond:
            continue
        if node is None or node.cls is type(None):
            encoded.append(LEAF if node is None else None)
        elif number in known.first:
            encoded.append(known.first[number])
            beyond = index + node.treedef.num_nodes
        elif isinstance(aux, NotStorable):
            raise NotStorable(f"{name_of(node.cls)} has beside its children {aux}")
        else:
            encoded.append([known.class_of(node), aux, node.children, *treedefs.registered_by(node.cls)])
    return encoded


def _attempt(known: _Likes, node: Node | None) -> Json | NotStorable:
    if node is not None and treedefs.is_error_of_checkify(node.cls):  # its numbers are constants of the program
        return NotStorable("kinds of errors whose numbers are others in each process")
    try:
        return node and known.written(node.aux)
    except NotStorable as refused:
        return refused


class _Likes:
    """The nodes of the likes, with a number for each distinct node; equal nodes with equal children have one number.

    Attributes:
        first: the position in the likes of the first node with each number.
        objects: takes the objects that cannot be written otherwise; None if such objects are refused.
    """

    def __init__(self, likes: Sequence[Treedef]) -> None:
        nodes = list(nodes_of(*likes))
        self._odd: list[tuple[object, list[int]]] = []  # data that JSON cannot have, and their paths
        self._numbers: dict[tuple[object, ...], int] = {}
        self._classes: dict[type, int] = {}
        self.first: dict[int, int] = {}
        self.objects: list[Any] | None = None
        texts = [json.dumps(node and self.written(node.aux, [index])) for index, node in enumerate(nodes)]
        for index, number in enumerate(self.numbers(nodes, texts)):
            self.first.setdefault(number, index)
            if (node := nodes[index]) is not None:
                self._classes.setdefault(node.cls, index)

    def numbers(self, nodes: Sequence[Node | None], texts: Sequence[str | None]) -> list[int]:
        """Return the number of each node, which stands for the node with all nodes below it.

        Args:
            nodes: the nodes of a structure; None for a leaf.
            texts: the auxiliary data of each node as JSON; None if they cannot be written.

        Returns:
            The numbers; -1 for a node that cannot be written, or has such a node below it.
        """
        numbers: list[int] = []
        waiting: list[int] = []
        for node, text in zip(reversed(nodes), reversed(texts), strict=True):
            below = [waiting.pop() for _ in range(node.children if node else 0)]
            whole = (node and node.cls, text, *below)
            unknown = text is None or -1 in below
            waiting.append(-1 if unknown else self._numbers.setdefault(whole, len(self._numbers)))
            numbers.append(waiting[-1])
        return numbers[::-1]

    def class_of(self, node: Node) -> str | int:
        """Return the JSON of a node's class; raise `NotStorable` if neither its name nor a like has it."""
        with suppress(Unresolved):
            if find(name_of(node.cls)) is node.cls:
                return name_of(node.cls)
        if node.cls in self._classes:
            return self._classes[node.cls]
        raise NotStorable(f"{name_of(node.cls)} cannot be found again by its name")

    def written(self, aux: Any, at: list[int] | None = None) -> Json:
        """Return the JSON of auxiliary data.

        Args:
            aux: the auxiliary data of a node, or a part of them.
            at: the path to them in the likes, if they are a part of the likes.

        Raises:
            NotStorable: JSON cannot have them, and they are in no like.
        """
        if is_plain(aux):
            return aux
        if type(aux) is list or type(aux) is tuple:
            parts = [self.written(part, at and [*at, index]) for index, part in enumerate(aux)]
            return parts if type(aux) is list else {"tuple": parts}
        if type(aux).__name__ == "PyTreeDef":
            return {"structure": _encoded(aux, ())}
        written = self._dict(aux, at) if type(aux) is dict else _by_name(aux)
        return written or _data(aux) or self._like(aux, at)

    def _dict(self, aux: dict[Any, Any], at: list[int] | None) -> Json:
        text = all(type(key) is str for key in aux)
        places = {key: place for place, key in enumerate(sorted(aux))} if text else {}
        pairs = []
        with suppress(NotStorable):
            for key, value in aux.items():
                pairs.append([self.written(key), self.written(value, [*at, places[key]] if at and text else None)])
            return {"dict": pairs}
        return None

    def _like(self, aux: object, at: list[int] | None) -> Json:
        for known, where in self._odd:
            if known is aux or (type(known) is type(aux) and _equal(known, aux)):
                return {"like": where}
        if at is None and self.objects is not None:
            self.objects += [] if any(each is aux for each in self.objects) else [aux]
            return {"made": next(number for number, each in enumerate(self.objects) if each is aux)}
        if at is None:
            shown, within = name_of(type(aux)).removeprefix("builtins:"), self._reason_within(aux)
            raise NotStorable(f"a {shown}, {within or 'which cannot be written and is in no argument'}")
        self._odd.append((aux, at))
        return {"like": at}

    def _reason_within(self, aux: object) -> str | None:
        """Return what in a dict cannot be written; None for any other object."""
        for value in aux.values() if type(aux) is dict else ():
            try:
                self.written(value)
            except NotStorable as refused:
                return f"in which {refused}"
        return None


def is_plain(aux: Any) -> bool:
    """Return whether JSON has a value as it is."""
    if type(aux) is str:
        return is_text(aux)
    if type(aux) is float:
        return math.isfinite(aux)
    return aux is None or type(aux) is bool or (type(aux) is int and aux.bit_length() <= 64)


def _by_name(aux: object) -> Json:
    """Return the JSON of an object that has a name in a module; None for anything else."""
    if (found := treedefs.findable_name(aux)) is not None:
        return {"object": found}
    if treedefs.is_sentinel(aux):
        module = type(aux).__module__
        named = vars(sys.modules.get(module, object)).copy()
        for name in sorted(name for name, value in named.items() if value is aux):
            return {"sentinel": [f"{module}:{name}", name_of(type(aux))]}
    return None


def _data(aux: object) -> Json:
    with suppress(NotStorable):
        return {"data": base64.b64encode(b"".join(pytrees.dump(aux).pieces)).decode()}
    return None


def _equal(one: object, other: object) -> bool:
    """Return whether two objects are equal by their own judgement and by their content, as a key has it."""
    try:
        is_equal = (one == other) is True
    except Exception:  # noqa: BLE001  the program's ``__eq__`` may raise anything
        return False
    return is_equal and (content := digest_of(one)) is not None and content == digest_of(other)
