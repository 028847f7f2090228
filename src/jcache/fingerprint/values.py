"""Values as bytes: by type and content, never by `repr` or address.

What can change is marked when it is seen again, so that one list in two places is not the same as two equal lists.
"""

# ruff: noqa: ANN401 - these functions take whatever a program has

import copyreg
import enum
import sys
import types
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from jcache.fingerprint import arrays
from jcache.fingerprint.describe import plain
from jcache.fingerprint.encoding import SCALARS, several, tagged, text
from jcache.fingerprint.refusals import Refused, hopeless, refuse
from jcache.fingerprint.snapshot import GROWING, Snapshot
from jcache.fingerprint.value_types import BASES, HANDLERS, MEMBERS, RARE, UNCHANGING, Handler, member, rare

_POINTER: Final = 8
_MANAGED_WEAKREF, _MANAGED_DICT = 1 << 3, 1 << 4


class Encoder(ABC):
    """Makes bytes of values, one after the other; whoever derives from it knows what functions and classes are."""

    def __init__(self, *, for_trace: bool = False, before: Snapshot | None = None) -> None:
        """Encode values, those that were encoded before as they were if they have only grown.

        Args:
            for_trace: whether the order of a dict's items counts.
            before: what was seen then.
        """
        self.for_trace = for_trace
        self.snapshot = Snapshot()
        self.may_grow = True  # whether it is no reason not to store that a container grows
        self._before = before
        self.nones: set[str] = set()  # names of attributes that are None
        self._linen_ids: dict[object, int] = {}  # of flax's modules, which this process numbers as they are made
        self._seen: dict[int, int] = {}
        self._alive: list[object] = []  # what was seen, so that no address is used twice

    @abstractmethod
    def function(self, function: types.FunctionType) -> bytes:
        """Of a Python function."""

    @abstractmethod
    def class_(self, cls: type) -> bytes:
        """Of a class."""

    @abstractmethod
    def module(self, module: types.ModuleType) -> bytes:
        """Of a module with all that is in it."""

    @abstractmethod
    def is_library(self, cls: type) -> bool:
        """Whether a class is not the user's own."""

    @abstractmethod
    def library(self, module: types.ModuleType) -> bytes:
        """Of the version of what a module belongs to."""

    @abstractmethod
    def is_derived(self, instance: Any, name: str, value: Any) -> bool:
        """Whether an attribute was derived from the others."""

    @abstractmethod
    def meet(self, value: Any) -> None:
        """Take down what cannot be repeated."""

    @abstractmethod
    def named(self, value: Any) -> bytes | None:
        """Of what a library has under a name of its own; None for anything else."""

    def encode(self, value: Any) -> bytes:
        """Of any value.

        Raises:
            Refused: it has no fingerprint.
        """
        kind = type(value)
        scalar = SCALARS.get(kind)
        if scalar is not None:
            return scalar(value)
        handler = HANDLERS.get(kind) or _handler(value, kind)
        if kind in UNCHANGING or handler in _STABLE:
            return handler(self, value)
        return self._once(value, handler)

    def _once(self, value: Any, handler: Callable[["Encoder", Any], bytes]) -> bytes:
        number = self._seen.get(id(value))
        if number is not None:
            return tagged(b"again", b"%d" % number)
        self._seen[id(value)] = len(self._seen)
        self._alive.append(value)
        if self.may_grow and type(value) in GROWING:
            if self._before is not None:
                value = self._before.as_it_was(value)
            else:
                self.snapshot.add(value)
        return handler(self, value)

    def alive(self) -> list[object]:
        """Return all that was seen and has an identity."""
        return self._alive

    def then(self, holder: object, name: str, value: Any, *, of_any_type: bool = False) -> Any:
        """Return a value that something holds under a name; an integer as it was before."""
        if of_any_type or type(value) is int:
            place = (id(holder), name)
            if self._before is not None:
                return self._before.value_before(place, value, of_any_type=of_any_type)
            self.snapshot.add_value(place, value)
        return value

    def items(self, values: Iterable[Any]) -> list[bytes]:
        """Of each of some values."""
        encodings: list[bytes] = []
        for value in values:
            try:
                encodings.append(self.encode(value))
            except Refused as refused:
                raise refused.below(f"[{len(encodings)}]") from None
        return encodings

    def attributes(self, values: Iterable[tuple[str, Any]]) -> bytes:
        """Of named values; their order does not matter."""
        encodings: list[bytes] = []
        for name, value in sorted(values, key=lambda each: each[0]):
            try:
                encodings.append(text(name) + self.encode(value))
            except Refused as refused:
                raise refused.below(f".{name}") from None
        return several(b"attributes", encodings)

    def mapping(self, tag: bytes, values: Iterable[tuple[Any, Any]]) -> bytes:
        """Of keys and values."""
        keyed = [(self.encode(key), key, value) for key, value in values]
        if not self.for_trace:
            keyed.sort(key=lambda each: each[0])
        encodings: list[bytes] = []
        for encoded, key, value in keyed:
            try:
                encodings.append(encoded + self.encode(value))
            except Refused as refused:
                raise refused.below(f"[{plain(key) or '…'}]") from None
        return several(tag, encodings)

    def beside(self, value: Any) -> list[bytes]:
        """Of the attributes that somebody has given to a callable which wraps another one, if there are any."""
        own = {
            name: each
            for name, each in getattr(value, "__dict__", {}).items()
            if name[:1] != "_" and name != "cache_parameters"
        }
        return [self.attributes(own.items())] if own else []

    def state(self, value: Any) -> bytes:
        """Of what an object has in its ``__dict__`` and ``__slots__``."""
        try:
            own = object.__getattribute__(value, "__dict__")
        except AttributeError:
            own = None
        own = own if isinstance(own, dict) else {}
        if "_id" in own and _is_of_linen(type(value)):
            own = own | {"_id": self._linen_ids.setdefault(own["_id"], len(self._linen_ids))}
        found = [
            (str(name), self.then(value, str(name), each))
            for name, each in own.items()
            if not self.is_derived(value, name, each)
        ]
        self.nones.update(name for name, each in found if each is None)
        for name in _slots(type(value)):
            try:
                found.append((name, self.then(value, name, object.__getattribute__(value, name))))
            except AttributeError:
                continue
        return self.attributes(found)


def _is_of_linen(cls: type) -> bool:
    return any((each.__module__, each.__name__) == ("flax.linen.module", "Module") for each in cls.__mro__)


def _slots(cls: type) -> list[str]:
    return list(copyreg._slotnames(cls))  # type: ignore[attr-defined]


def _is_plain(cls: type, base: type) -> bool:
    """Whether an instance has nothing beyond its base's state, ``__dict__`` and ``__slots__``, as pickle tells it."""
    size = base.__basicsize__ + _POINTER * len(_slots(cls))
    flags = cls.__flags__
    if cls.__dictoffset__ and not base.__dictoffset__ and not flags & _MANAGED_DICT:
        size += _POINTER
    if cls.__weakrefoffset__ > 0 and not base.__weakrefoffset__ and not flags & _MANAGED_WEAKREF:
        size += _POINTER
    return cls.__basicsize__ <= size


def _handler(value: Any, kind: type) -> Handler:
    """How a value is encoded whose exact type is in no table."""
    if issubclass(kind, type):
        return _class
    if issubclass(kind, types.ModuleType):
        return _module
    if issubclass(kind, enum.Enum):
        return member
    if _defines(kind, "__cache_key__"):
        return _keyed
    logging = sys.modules.get("logging")
    if logging is not None and isinstance(value, logging.Logger):
        return _logger
    return arrays.handler(value) or rare(kind) or _generic


def _class(encoder: Encoder, value: Any) -> bytes:
    return encoder.class_(value)


def _module(encoder: Encoder, value: Any) -> bytes:
    return encoder.module(value)


def _keyed(encoder: Encoder, value: Any) -> bytes:
    return several(b"keyed", [encoder.class_(type(value)), encoder.encode(value.__cache_key__())])


def _logger(_: Encoder, value: Any) -> bytes:
    """A logger only tells of the result."""
    return tagged(b"logger", b"")


def _generic(encoder: Encoder, value: Any) -> bytes:
    kind = type(value)
    named = encoder.named(value)
    if named is not None:
        return named
    if _defines(kind, "to_dict") and _defines(kind, "from_dict") and not encoder.is_library(kind):
        return several(b"dicted", [encoder.class_(kind), encoder.encode(value.to_dict())])
    for base in kind.__mro__[1:]:
        handler = BASES.get(base)
        if handler is not None:
            if not _is_plain(kind, base) and not hasattr(kind, "n_sequence_fields"):
                raise refuse(value)
            return several(b"derived", [encoder.class_(kind), handler(encoder, value), encoder.state(value)])
    if isinstance(value, Mapping) and encoder.is_library(kind):  # such as immutabledict, which keeps its hash beside
        return encoder.class_(kind) + encoder.mapping(b"items", value.items())
    if isinstance(value, MEMBERS):
        return several(b"member", [encoder.class_(value.__objclass__), text(value.__name__)])
    if not _is_plain(kind, object) or hopeless(value) is not None:
        raise refuse(value)
    return several(b"instance", [encoder.class_(kind), encoder.state(value)])


def _defines(cls: type, name: str) -> bool:
    return any(name in vars(each) for each in cls.__mro__)


_STABLE: Final = frozenset({_class, _module, member, _keyed, _logger, *RARE.values(), *arrays.STABLE})
