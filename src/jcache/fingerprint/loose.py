"""Digests of values that a function may reach but that its key leaves out, such as attributes that no code names.

The digests tell whether such a value is still the same as when a result was compared.
"""

# ruff: noqa: ANN401 - programs hold anything

import marshal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any, Final, NamedTuple

from jcache.fingerprint import name_resolution, origins
from jcache.fingerprint.attributes import CACHED
from jcache.fingerprint.classes import members
from jcache.fingerprint.code import meaning_of
from jcache.fingerprint.describe import attribute_of, shortened, vars_of
from jcache.fingerprint.encoding import LARGEST, SCALARS, sampled, several, sha256, text
from jcache.fingerprint.readings import Readings
from jcache.fingerprint.refusals import Refused, type_name
from jcache.fingerprint.values import Encoder
from jcache.jax_internals.registry import registry

FUNCTIONS: Final = "(functions)"  # stands among the names of globals for all functions to which they lead
READINGS: Final = "(readings)"  # and for all clock readings and random names, which code seldom computes with
_MAX_VALUES: Final = 10_000  # inside of one value; further ones do not count
_MAX_IN_GLOBAL: Final = 500  # inside of one global of a module of which all count,
_MAX_IN_FURTHER: Final = 10  # and inside of one after many
_MANY_IN_GLOBALS: Final = 20_000
_MAX_LABELS: Final = 2_000  # in a world; further modules count as a whole
_MAX_PARTS: Final = 100  # of a dict or an object that count one by one, and so do their parts,
_MAX_DEPTH: Final = 4  # to this depth
_NAMESPACES: Final = frozenset({"Namespace", "SimpleNamespace"})  # of argparse and types
_MANY: Final = 64  # scalars in one container, which are encoded all at once
_MARSHAL: Final = 2  # the last version of the format in which equal values have equal bytes


class ModuleGlobals(NamedTuple):
    """The globals of a module of which all are left out, and whether those of all other modules are, too."""

    items: Mapping[str, Any]
    among_all: bool


class LooseDigests:
    """The digests of values that one walk leaves out, each with the functions to which the value leads."""

    def __init__(self) -> None:
        self._functions: dict[int, _Function] = {}
        self._in_globals = 0
        self._readings = Readings()

    def by_label(self, loose: Iterable[tuple[str, Any]]) -> dict[str, str]:
        """Return a short digest for each value, by label; for a module's globals one for each of them and its parts.

        So what is learnt about one of them, which is another one at each start, says nothing of the others.
        """
        found = {}
        for label, value in loose:
            items = self._of_items(value) if type(value) is ModuleGlobals else {}
            inner = value.items if type(value) is ModuleGlobals else {"": value}
            found[label] = self.of(items or value)
            if type(value) is str and self._readings.has(str, value):
                found[f"{label}, without its time"] = self.of(self._readings.rest_of(value))
            if len(found) + len(items) <= _MAX_LABELS:
                found |= {f"{label}: {name}": digest for name, digest in items.items()}
                found |= self._of_parts(label, inner)
        return found

    def _of_parts(self, label: str, items: Mapping[str, Any]) -> dict[str, str]:
        parts = [(name, self._readings.rest_of(each)) for name, each in _parts(items) if not self._is_number(each)]
        limit = _MAX_IN_GLOBAL if len(parts) <= _MAX_PARTS else _MAX_IN_FURTHER
        encoded = ((name, _encoded(each, _LooseEncoder.encode, limit)[0]) for name, each in parts[:_MAX_LABELS])
        return {f"{label}: {name}": shortened(digest) for name, digest in encoded}

    def _is_number(self, value: Any) -> bool:
        """Return whether a value is a clock reading and no text."""
        return type(value) is not str and self._readings.has(type(value), value)

    def of(self, value: Any) -> str:
        """Return a short digest of a value; of its type alone if the value cannot be encoded."""
        digest, reached = _encoded(value, _LooseEncoder.encode, _MAX_VALUES)
        return shortened(sha256(b"".join([digest, *self._following(reached, _MAX_VALUES)])))

    def _of_items(self, module: "ModuleGlobals") -> dict[str, str]:
        """Return the digests of a module's globals by name, and one of all functions to which they lead.

        A global that is a clock reading counts only in one digest of all of them, but for what a text says besides.
        """
        found, reached, readings = {}, list[FunctionType](), list[str]()
        for name, value in module.items.items():
            readings += [f"{name} {value}"] if self._readings.has(type(value), value) else []
            if self._is_number(value):
                continue
            digest, functions = self._in_global(self._readings.rest_of(value), _LooseEncoder.encode)
            found[name] = shortened(digest)
            reached += functions
        if module.among_all:  # the globals that the functions name are told by themselves
            own = {id(each): self._in_global(each, _LooseEncoder.with_held)[0] for each in reached}
            following = sorted(own.values())
        else:
            following = self._following(reached, _MAX_IN_GLOBAL)
        found |= {READINGS: shortened(sha256(text("\n".join(readings))))} if readings else {}
        return found | {FUNCTIONS: shortened(sha256(b"".join(following)))}

    def _in_global(self, value: Any, encode: "_Encode") -> tuple[bytes, list[FunctionType]]:
        """Return the digest of a value in a module's globals, and the functions to which it leads."""
        encoder = _LooseEncoder(_MAX_IN_GLOBAL if self._in_globals < _MANY_IN_GLOBALS else _MAX_IN_FURTHER)
        digest = encoder.digest(value, encode)
        self._in_globals += encoder.count
        return digest, encoder.reached

    def _following(self, reached: list[FunctionType], limit: int) -> list[bytes]:
        """Return the digests of functions and of those that they lead to, in an order that their content decides."""
        left, found = [*reached], dict[int, bytes]()
        while left:
            function = left.pop()
            if id(function) not in found:
                known = self._functions.get(id(function))
                if known is None:
                    made = _encoded(function, _LooseEncoder.with_values, limit)
                    known = self._functions[id(function)] = _Function(function, *made)
                found[id(function)] = known.digest
                left += known.reached
        return sorted(found.values())


class _Function(NamedTuple):
    """A function that is kept alive, the digest of what it is and holds, and the functions that it leads to."""

    function: FunctionType
    digest: bytes
    reached: list[FunctionType]


def _parts(items: Mapping[str, Any], depth: int = 1) -> Iterator[tuple[str, Any]]:
    """Yield the items of the dicts and the attributes of the objects that are among some values, with their paths."""
    for name, value in items.items():
        kind = type(value)
        if kind is dict:
            inner = value.copy()
        elif kind.__name__ in _NAMESPACES or (
            not issubclass(kind, type | ModuleType) and origins.of_module_named(str(kind.__module__)) == origins.USER
        ):
            inner = vars_of(value)
        else:
            continue
        if 0 < len(inner) <= _MAX_PARTS and all(type(each) is str for each in inner):
            yield from ((f"{name}.{part}", each) for part, each in inner.items())
            if depth < _MAX_DEPTH:
                yield from ((f"{name}.{part}", each) for part, each in _parts(inner, depth + 1))


def _encoded(value: Any, encode: "_Encode", limit: int) -> tuple[bytes, list[FunctionType]]:
    encoder = _LooseEncoder(limit)
    return encoder.digest(value, encode), encoder.reached


class _LooseEncoder(Encoder):
    """Encoder that includes all attributes of an object, and gives up if there are too many values.

    Then the value counts by its type and by the scalars that were encoded.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.may_grow = False  # no call grows what is encoded once
        self._limit = limit
        self.count = 0
        self.beside_it: list[bytes] = []
        self.scalars: list[bytes] = []
        self.reached: list[FunctionType] = []  # functions whose own content is told apart

    def digest(self, value: Any, encode: "_Encode") -> bytes:
        """Return the digest of a value; of its type and scalars alone if it cannot be encoded."""
        try:
            encoding = encode(self, value)
            return sha256(encoding + several(b"beside", [*self.beside_it, *map(text, self._orders())]))
        except Exception:  # noqa: BLE001  the value's own code may raise anything
            return sha256(several(type_name(type(value)).encode(), sorted(self.scalars)))

    def _orders(self) -> list[str]:
        """Return the traits that tell of an order; which arrays share memory may differ after a hit."""
        return [each for each in self.traits if not each.startswith("shared ")]

    def set_aside(self, what: str, value: Any) -> None:
        if not what.startswith(CACHED):
            self.beside_it.append(self.encode(value))

    def encode(self, value: Any) -> bytes:
        self.count += 1
        if self.count > self._limit:
            raise RecursionError
        kind = type(value)
        scalar = SCALARS.get(kind)
        if scalar is not None:
            self.scalars.append(encoding := scalar(value))
            return encoding
        if (kind in _PLAIN or kind in _SETS) and len(value) >= _MANY and (many := _all_at_once(value)) is not None:
            self.scalars.append(many)
            return many
        if hasattr(kind, "nbytes") and (attribute_of(value, "nbytes") or 0) > LARGEST:
            return several(b"large", [text(f"{type_name(kind)} {value.shape} {value.dtype}"), _samples(value)])
        try:
            return super().encode(value)
        except Refused:  # the values beside it count all the same
            return text(type_name(type(value)))

    def reading(self, value: Any) -> bytes:
        return text(str(value))

    def named(self, value: Any) -> bytes | None:
        home = sys.modules.get(str(attribute_of(value, "__module__")))
        is_users = home is not None and origins.of_module(home) == origins.USER
        return None if is_users or origins.has_code_of_the_user(value) else super().named(value)

    def module(self, module: ModuleType) -> bytes:
        if self._limit < _MAX_VALUES or origins.of_module(module) != origins.USER:
            return super().module(module)
        items = {name: each for name, each in vars(module).copy().items() if name[:2] != "__"}
        return several(b"module", [super().module(module), self.attributes(items.items())])

    def function(self, function: FunctionType) -> bytes:
        if name_resolution.of_function(function) == origins.OURS:  # it may stand in for another one during a build
            return self.encode(vars(function).get("__wrapped__"))
        if name_resolution.of_function(function) != origins.USER and origins.is_findable(function):
            return super().function(function)
        self.reached.append(function)
        return super().function(function)

    def class_(self, cls: type) -> bytes:
        if origins.of_module_named(str(cls.__module__)) != origins.USER:
            return super().class_(cls)
        return self._once(cls, lambda _, each: self._with_members(each))

    def with_held(self, function: FunctionType) -> bytes:
        cells = [name_resolution.content_of(each) for each in function.__closure__ or ()]
        held = [function.__defaults__, function.__kwdefaults__, function.__dict__, cells]
        return several(b"function", [super().function(function), *self.items(held)])

    def with_values(self, function: FunctionType) -> bytes:
        return several(b"values", [self.with_held(function), *self.items(self._named(function))])

    def _named(self, function: FunctionType) -> Iterator[Any]:
        """Yield what the globals are that a function of the user names, and what it imports itself if it is loaded."""
        if name_resolution.of_function(function) == origins.USER:
            live: Any = function  # some versions of typeshed lack `__builtins__`
            for lookup in meaning_of(function).lookups:
                if name_resolution.is_loaded(lookup.chain[0], function.__globals__):
                    found = name_resolution.find(lookup.chain, function.__globals__, live.__builtins__).value
                    yield None if isinstance(found, name_resolution.Unimported) else found

    def _with_members(self, cls: type) -> bytes:
        above = map(self.class_, (type(cls), *cls.__bases__))
        flattened = registry().get(cls, ())
        return several(b"class", [super().class_(cls), *above, self.attributes(members(cls)), *self.items(flattened)])


_Encode = Callable[[_LooseEncoder, Any], bytes]
_PLAIN: Final = frozenset({list, tuple, dict})
_SETS: Final = frozenset({set, frozenset})


def _all_at_once(container: Any) -> bytes | None:
    """Return a digest of a container of scalars, also in lists, tuples and dicts; None for any other one."""
    kind = type(container)
    if not _is_of_scalars(container):
        return None
    try:  # in an order that does not depend on the process
        content = sorted(container.items()) if kind is dict else sorted(container) if kind in _SETS else container
        return several(kind.__name__.encode(), [sha256(marshal.dumps(content, _MARSHAL))])
    except (TypeError, ValueError):  # keys of several types have no order, or the values are nested too deeply
        return None


def _is_of_scalars(container: Any) -> bool:
    if type(container) is dict:
        return _is_of_scalars([*container]) and _is_of_scalars([*container.values()])
    other = {*map(type, container)} - SCALARS.keys()
    return not other or (other <= _PLAIN and all(_is_of_scalars(each) for each in container if type(each) in _PLAIN))


def _samples(array: Any) -> bytes:
    """Return a digest of short pieces of an array in the host's memory; that of nothing for another one."""
    numpy = sys.modules["numpy"]
    if not issubclass(type(array), numpy.ndarray) and any(each.platform != "cpu" for each in array.devices()):
        return b""
    plain = numpy.asarray(array)
    if not plain.flags.forc or plain.dtype.hasobject:
        return b""
    return sampled(memoryview(plain.ravel(order="K").view("u1")))
