"""What functions have beside their code: defaults, attributes, and variables of functions around them."""

# ruff: noqa: ANN401 - programs hold anything

import dis
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, Final

from jcache.fingerprint import name_resolution, origins
from jcache.fingerprint.encoding import text
from jcache.fingerprint.instructions import steps_of
from jcache.fingerprint.references import References
from jcache.jax_internals.registry import SHARD_MAP

_NO_CELL: Final = b"empty0:"
_STORE: Final = dis.opmap["STORE_DEREF"]
_EXACT: Final = 2**53  # up to which every whole number is a float


class States(References):
    """The part of a walk that looks at them."""

    def _add_state(self, function: FunctionType, code: CodeType, label: str, items: list[bytes]) -> None:
        """What a function has beside its code."""
        if function.__name__ != code.co_name:
            items.append(text(function.__name__))
        if function.__defaults__ or function.__kwdefaults__:
            self._defaults(function, code, label)
        if function.__closure__:
            items += self._closure(function, code, self._short(label))
        if function.__dict__:
            name = self._short(label)
            for attribute, value in sorted(function.__dict__.items()):
                items.append(
                    text(attribute)
                    + self._member(f"attribute {attribute} of {name}", self.then(function, attribute, value))
                )

    def _short(self, label: str) -> str:
        return label.partition(" ")[2] or self._name

    def _defaults(self, function: FunctionType, code: CodeType, label: str) -> None:
        name = self._short(label)
        if function.__defaults__:
            last = code.co_argcount
            count = min(last, len(function.__defaults__))
            for each, value in zip(code.co_varnames[last - count : last], function.__defaults__[-count:], strict=False):
                self.part(f"default {each} of {name}", value)
        if function.__kwdefaults__:
            for each, value in sorted(function.__kwdefaults__.items()):
                self.part(f"default {each} of {name}", value)

    def _closure(self, function: FunctionType, code: CodeType, name: str) -> list[bytes]:
        items = []
        for each, cell in sorted(zip(code.co_freevars, function.__closure__ or (), strict=True), key=lambda it: it[0]):
            try:
                value = cell.cell_contents
            except ValueError:
                items.append(_NO_CELL)
                continue
            value = _as_it_becomes(function, each, self.then(cell, each, value))
            items.append(self._member(f"closure {each} of {name}", value))
        return items

    def _member(self, label: str, value: Any) -> bytes:
        """Code is referred to where it stands, anything else is a part of its own."""
        if isinstance(value, FunctionType):
            return self.function(value)
        if isinstance(value, type):
            return self.class_(value)
        return self.value(label, value)


def _as_it_becomes(function: FunctionType, name: str, value: Any) -> Any:
    """The value of a variable around a library's function as that itself sets it when it first runs.

    Whether it has run already is then no part of what it depends on. What JAX's `shard_map` returns sets the names of
    the axes that it is mapped over, by default all of its mesh's.
    """
    if type(value) is int and _may_become_float(function, name, value):
        return float(value)
    if name == "axis_names" and function.__module__ == SHARD_MAP and type(value) in {set, frozenset}:
        around = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        mesh = next((cell.cell_contents for each, cell in around if each == "mesh"), None)
        return frozenset(value or getattr(mesh, "axis_names", ()))
    return value


def _may_become_float(function: FunctionType, name: str, value: int) -> bool:
    """Whether a library's function sets a variable around it, of which it may make a float: schedules of optax do."""
    code = function.__code__
    if _STORE not in code.co_code[::2] or name_resolution.of_function(function) == origins.USER or abs(value) > _EXACT:
        return False
    return name in _stored(code)


@lru_cache(maxsize=256)
def _stored(code: CodeType) -> frozenset[str]:
    """The variables around a function that it sets, and those of its own that functions in it use."""
    return frozenset(each.value for each in steps_of(code) if each.name == "STORE_DEREF")
