"""Pytrees made of recipes, and a process that encodes or decodes their structures: a JSON line in, a JSON line out.

A recipe is JSON: "leaf", null, or [kind, auxiliary data, children].
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import json
import sys
from collections.abc import Callable
from typing import Any

import jax
from jax import tree_util

from jcache.errors import DamagedEntry, NotStorable, Unresolved
from jcache.fingerprint import fingerprint
from jcache.traces.structures import Structure, decode, encode

unflattened = 0


class Flat:
    """Takes itself apart; `aux` may be anything."""

    def __init__(self, aux: Any, *children: Any) -> None:
        self.aux = aux
        self.children = children

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        return self.children, self.aux

    @classmethod
    def tree_unflatten(cls, aux: Any, children: Any) -> Any:
        global unflattened
        unflattened += 1
        return cls(aux, *children)


@tree_util.register_pytree_node_class
class Custom(Flat):
    """A class of a module."""


class WithKeys(Flat):
    """Registered with functions."""


tree_util.register_pytree_with_keys(
    WithKeys, lambda self: ([(str(i), c) for i, c in enumerate(self.children)], self.aux), WithKeys.tree_unflatten
)


def make_local() -> type[Flat]:
    class Local(Flat):
        pass

    return tree_util.register_pytree_node_class(Local)


Local = make_local()  # which has another name, and so cannot be found by it


class Pair(collections.namedtuple("Pair", "a b")):
    """A class derived from a namedtuple, which is a node as well."""

    __slots__ = ()


@functools.partial(tree_util.register_dataclass, data_fields=["data"], meta_fields=["meta", "more"])
@dataclasses.dataclass
class Dataclass:
    data: Any
    meta: Any
    more: int = 1


@dataclasses.dataclass(frozen=True)
class Static:
    value: Any


tree_util.register_static(Static)


class Sentinel:
    """Compared by identity."""


SENTINEL = Sentinel()
functions: dict[str, Callable[[], None]] = {name: (lambda: None) for name in ("f", "g")}  # none can be found by a name


def beside(aux: Any) -> Any:
    """Return the part of a recipe that stands for a node's auxiliary data."""
    if not isinstance(aux, dict):
        return [beside(part) for part in aux] if isinstance(aux, list) else aux
    ((tag, value),) = aux.items()
    made: dict[str, Callable[[], Any]] = {
        "tuple": lambda: tuple(map(beside, value)),
        "dict": lambda: {key: beside(part) for key, part in value},
        "bytes": lambda: bytes.fromhex(value),
        "complex": lambda: complex(*value),
        "infinite": lambda: float("inf"),
        "local": lambda: functions[value],
        "named": lambda: {"Pair": Pair, "len": len, "make_local": make_local, "sin": jax.numpy.sin}[value],
        "sentinel": lambda: SENTINEL,
    }
    return made[tag]()


def tree(recipe: Any) -> Any:
    """The pytree of a recipe."""
    if recipe == "leaf":
        return 0
    if recipe is None:
        return None
    kind, aux, below = recipe
    children = [tree(child) for child in below]
    made: dict[str, Callable[[], Any]] = {
        "tuple": lambda: tuple(children),
        "list": lambda: children,
        "dict": lambda: dict(zip(aux, children, strict=True)),
        "ordered": lambda: collections.OrderedDict(zip(aux, children, strict=True)),
        "default": lambda: collections.defaultdict(list, zip(aux, children, strict=True)),
        "pair": lambda: Pair(*children),
        "dataclass": lambda: Dataclass(children[0], beside(aux)),
        "static": lambda: Static(beside(aux)),
        "partial": lambda: vars(tree_util)["Partial"](make_local, *children),
        "custom": lambda: Custom(beside(aux), *children),
        "keys": lambda: WithKeys(beside(aux), *children),
        "local": lambda: Local(beside(aux), *children),
    }
    return made[kind]()


def structures(recipes: list[Any]) -> list[Any]:
    return [tree_util.tree_structure(tree(recipe)) for recipe in recipes]


def key(recipe: Any) -> str:
    return fingerprint(key, (Structure(tree_util.tree_structure(tree(recipe))),)).hash


def answer(question: dict[str, Any]) -> Any:
    """Return the answer of the process; a refusal is a list of its class and its text."""
    likes = structures(question["likes"])
    try:
        if "encode" in question:
            return {"encoded": encode(structures([question["encode"]])[0], likes)}
        before, modules = unflattened, set(sys.modules)
        found = decode(question["decode"], likes)
        ran = unflattened > before and hasattr(tree_util.PyTreeDef, "from_node_data_and_children")
        silent = not ran and set(sys.modules) == modules
        return {"equal": [found] == structures(question.get("equals", [])), "silent": silent}
    except (DamagedEntry, Unresolved, NotStorable) as refused:
        return {"refused": [type(refused).__name__, str(refused)]}


def serve() -> None:
    """Answer until the questions end."""
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
