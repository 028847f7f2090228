"""Digests of values that a function may reach but that its key leaves out, such as attributes that no code names.

The digests tell whether such a value is still the same as when a result was compared.
"""

# ruff: noqa: ANN401 - programs hold anything

import sys
from collections.abc import Iterator
from types import FunctionType
from typing import Any, Final

from jcache.fingerprint import name_resolution, origins
from jcache.fingerprint.bytecode import IMPORT
from jcache.fingerprint.classes import members
from jcache.fingerprint.code import meaning
from jcache.fingerprint.describe import attribute_of, shortened
from jcache.fingerprint.encoding import SCALARS, several, sha256, text
from jcache.fingerprint.refusals import Refused, type_name
from jcache.fingerprint.values import CACHED, Encoder

_MAX_VALUES: Final = 10_000  # inside of one value
_MAX_ARRAY_BYTES: Final = 1 << 20  # a larger array counts by its shape and dtype


def loose_digest(value: Any) -> str:
    """Return a short digest of a value; of its type alone if the value cannot be encoded."""
    encoder = _LooseEncoder()
    try:
        return shortened(sha256(encoder.encode(value) + several(b"beside", encoder.beside_it)))
    except Exception:  # noqa: BLE001  the value's own code may raise anything
        return shortened(sha256(text(type_name(type(value)))))


class _LooseEncoder(Encoder):
    """Encoder that includes all attributes of an object, and gives up if there are too many values."""

    def __init__(self) -> None:
        super().__init__()
        self._left = _MAX_VALUES
        self.beside_it: list[bytes] = []

    def set_aside(self, what: str, value: Any) -> None:
        if not what.startswith(CACHED):
            self.beside_it.append(self.encode(value))

    def encode(self, value: Any) -> bytes:
        self._left -= 1
        if self._left < 0:
            raise RecursionError
        scalar = SCALARS.get(type(value))
        if scalar is not None:
            return scalar(value)
        if hasattr(type(value), "nbytes") and (attribute_of(value, "nbytes") or 0) > _MAX_ARRAY_BYTES:
            return text(f"{type_name(type(value))} {value.shape} {value.dtype}")
        try:
            return super().encode(value)
        except Refused:  # the values beside it count all the same
            return text(type_name(type(value)))

    def reading(self, value: Any) -> bytes:
        return text(str(value))

    def function(self, function: FunctionType) -> bytes:
        if name_resolution.of_function(function) != origins.USER and origins.is_findable(function):
            return super().function(function)
        return self._once(function, lambda _, each: self._with_values(each))

    def class_(self, cls: type) -> bytes:
        if origins.of_module_named(str(cls.__module__)) != origins.USER:
            return super().class_(cls)
        return self._once(cls, lambda _, each: self._with_members(each))

    def _with_values(self, function: FunctionType) -> bytes:
        cells = [name_resolution.content_of(each) for each in function.__closure__ or ()]
        held = [function.__defaults__, function.__kwdefaults__, function.__dict__, cells, *self._named(function)]
        return several(b"function", [super().function(function), *self.items(held)])

    def _named(self, function: FunctionType) -> Iterator[Any]:
        """Yield what the globals are that a function of the user names; what it imports itself is left out."""
        if name_resolution.of_function(function) == origins.USER:
            builtins = vars(sys.modules["builtins"])
            for lookup in meaning(function.__code__).lookups:
                if not lookup.chain[0].startswith(IMPORT):
                    found = name_resolution.find(lookup.chain, function.__globals__, builtins).value
                    yield None if isinstance(found, name_resolution.Unimported) else found

    def _with_members(self, cls: type) -> bytes:
        bases = map(self.class_, cls.__bases__)
        return several(b"class", [super().class_(cls), *bases, self.attributes(members(cls))])
