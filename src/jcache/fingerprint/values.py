"""Encoding of values as bytes: by type and content, never by `repr` or address.

Where a mutable object occurs again, a back reference stands for it: one list in two places is not two equal lists.
"""

# ruff: noqa: ANN401 - these functions take whatever a program has

import builtins
import sys
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from functools import cached_property
from typing import Any, Final

from jcache.fingerprint import attributes, methods, origins
from jcache.fingerprint.bytecode import signature
from jcache.fingerprint.containers import growing, names_of
from jcache.fingerprint.describe import attribute_of, plain, vars_of
from jcache.fingerprint.encoding import SCALARS, several, tagged, text
from jcache.fingerprint.kinds import STABLE, handler_of
from jcache.fingerprint.logs import COUNT, is_count
from jcache.fingerprint.object_state import encode_state
from jcache.fingerprint.readings import Readings
from jcache.fingerprint.refusals import Refused
from jcache.fingerprint.selection import Narrowed
from jcache.fingerprint.settings import is_plain
from jcache.fingerprint.snapshot import GROWING, ValueSnapshot
from jcache.fingerprint.value_types import UNCHANGING

_TOLD: Final = frozenset(
    {"__module__", "__name__", "__qualname__", "__doc__", "__annotations__", "__annotate__", "__type_params__"}
)
BY_FRAME: Final = "(variables by name)"  # stands among the names where code may reach any variable
REACH_VARIABLES: Final = frozenset(
    {
        "cell_contents",
        "__closure__",
        "f_locals",
        "f_globals",
        "__globals__",
        "getclosurevars",
        "getargvalues",
        "__self__",
        BY_FRAME,
    }
)


class Encoder:
    """Encoder of values, one after the other: functions by name and bytecode, classes and modules by name."""

    def __init__(self, *, for_trace: bool = False, before: ValueSnapshot | None = None) -> None:
        """Prepare the encoder; see `jcache.fingerprint.call.fingerprint` for the arguments."""
        self.for_trace = for_trace
        self.may_grow = True  # whether a container may grow during the call
        self.before_call = before
        self.nones: set[str] = set()  # names of attributes that are None
        self.names: set[str] = {attributes.ALL}  # of attributes that count
        self.aside: set[str] = set()  # names of attributes that were left out
        self.selected: list[Narrowed] = []  # that of which items are left out
        self.by_name: set[int] = set()  # addresses of configurations that code uses by names alone
        self.originals: dict[int, Any] = {}  # by the address of a dict without some items, the dict
        self.compared: set[int] = set()  # addresses of objects that code compares or shows by all of their attributes
        self.unread: set[str] = set()  # special attributes of functions and classes that no code has named yet
        self.is_given = False  # whether the caller passed the value: then all its attributes count
        self.head: Any = None  # the value of the variable or attribute that is being encoded
        self.label = ""  # and the label of its part
        self.place = ""  # the name or key under which the latest value was found
        self.logs: dict[str, type] = {}  # the types of containers in which code only collects, by their names
        self.within: Set[str] = frozenset()  # names of the containers that hold the value
        self._wholly: dict[type, bool] = {}
        self.linen_ids: dict[object, int] = {}  # a stable number for each `_id` of a flax module
        self.seen: dict[int, int] = {}  # by address, a number for each object that was encoded
        self._shared: dict[int, tuple[int, Any]] = {}
        self.traits: list[str] = []  # what encodings leave out: orders of names, and memory that is shared
        self.shown: dict[int, object] = {}  # by the address of an object, what describes it better
        self.alive: list[object] = []  # the objects seen, so that no address is used twice

    @cached_property
    def snapshot(self) -> ValueSnapshot:
        return ValueSnapshot()

    @cached_property
    def _readings(self) -> Readings:
        return Readings()

    @property
    def before(self) -> ValueSnapshot:
        """The earlier snapshot, or that of this walk if it is the first one."""
        return self.before_call or self.snapshot

    def function(self, function: types.FunctionType) -> bytes:
        name = f"{function.__module__}.{function.__qualname__}"
        return several(b"function", [text(name), tagged(b"code", signature(function.__code__))])

    def class_(self, cls: type) -> bytes:
        return text(origins.path_of(cls))

    def made_class(self, cls: type) -> bytes:
        """Encode a class of which code may make instances, because it has the class itself."""
        return self.class_(cls)

    def module(self, module: types.ModuleType) -> bytes:
        return text(module.__name__)

    def named(self, value: Any) -> bytes | None:
        """Return the encoded name of a value that its module holds under that name; None for any other value."""
        name, home = attribute_of(value, "__qualname__"), attribute_of(value, "__module__")
        is_there = isinstance(name, str) and getattr(sys.modules.get(str(home)), name, None) is value
        return text(f"{home}.{name}") if is_there else None

    def is_library(self, cls: type) -> bool:
        """Return whether a class is a library's, so that all attributes of its instances count."""
        return True

    def library(self) -> None:
        """Record that library code may run."""

    def set_aside(self, what: str, value: Any) -> None:
        """Record a value that the encoding leaves out."""

    def made(self, content: Any) -> bytes:
        """Encode what an object of pandas is rebuilt from, whose order and sharing say nothing of the object."""
        traits, self.traits = self.traits, []
        encoding, self.traits = self.encode(content), traits
        return encoding

    def note_shared(self, value: Any) -> None:
        """Record whether a value, or one that shares its memory, was reached before."""
        if id(value) in self._shared:
            self.traits.append(f"shared {self._shared[id(value)][0]}")
        self._shared.setdefault(id(value), (len(self._shared), value))

    def note_order(self, names: Iterable[str]) -> None:
        """Record the order of an object's attributes, if the code can read all of them."""
        if attributes.ALL in self.names and (given := list(names)) != sorted(given):
            self.traits.append(" ".join(given))

    def note_reached(self, value: Any) -> None:
        """Record a value that code can reach, if it is a source of nondeterminism."""

    def encode(self, value: Any) -> bytes:
        """Return the encoding of any value; raise `Refused` if it cannot be fingerprinted."""
        kind = type(value)
        scalar = SCALARS.get(kind)
        if scalar is not None:
            return self.reading(value) if self.is_reading(value) else scalar(value)
        handler = handler_of(value)
        if kind in UNCHANGING or handler in STABLE:
            return handler(self, value)
        return self._once(value, handler)

    def _once(self, value: Any, handler: Callable[["Encoder", Any], bytes]) -> bytes:
        number = self.seen.get(id(value))
        if number is not None:
            self.snapshot.add_names(value, names_of(self, value, self.within))
            return tagged(b"again", b"%d" % number)
        within, grows = self.within, self.may_grow and type(value) in GROWING
        self.within = names_of(self, value, within) if grows else frozenset[str]()
        self.seen[id(value)] = len(self.seen)
        self.alive.append(value)
        value = growing(self, value, self.within, self.before_call) if grows else value
        encoding = handler(self, value)
        self.within = within
        return encoding

    def leaves_out(self, *marks: str) -> bool:
        """Return whether values of variables may be left out: code reaches these by name alone, and no mark is set."""
        if not self.names.isdisjoint({attributes.ALL, *REACH_VARIABLES, *marks}):
            return False
        self.aside.update(REACH_VARIABLES, marks)
        return True

    def counter(self, label: str, value: int, holder: object, name: str) -> bytes:
        """Encode an integer in which code only counts by its type alone."""
        self.snapshot.counters[id(holder), name] = value
        self.set_aside(label, value)
        return tagged(b"counter", b"")

    def reading(self, value: Any) -> bytes:
        """Encode a clock reading or a random value by its type alone, because each process has its own."""
        self.set_aside("", value)
        return tagged(b"reading", type(value).__name__.encode())

    def then(self, holder: object, name: str, value: Any, *, of_any_type: bool = False, may_count: bool = True) -> Any:
        """Return the value that `holder` has under `name`, or the one that it had in the earlier snapshot.

        The earlier one is returned if the value can be set again, or if `of_any_type`. `COUNT` stands for an integer
        in which code only counts.
        """
        if may_count and is_count(self, holder, name, value):
            self.counter(f"count {name}", value, holder, name)
            return COUNT
        if self.before_call is not None:
            place = id(holder), name
            return self.before_call.value_before(place, value, of_any_type=of_any_type, may_count=may_count)
        if of_any_type or is_plain(value):
            self.snapshot.add_value((id(holder), name), value)
        return value

    def state_then(self, generator: Any, state: Any) -> Any:
        """Return the state of a random generator, or the earlier one if a served call can set the present one again."""
        if self.before_call is not None:
            return self.before_call.sets.generators.then(generator, state)
        self.snapshot.sets.generators.add(generator, state)
        return state

    def is_reading(self, value: Any) -> bool:
        """Return whether a scalar is a clock reading; one that the caller has passed is an argument like any other."""
        return not self.is_given and self._readings.has(type(value), value)

    def items(self, values: Iterable[Any]) -> list[bytes]:
        encodings, place = list[bytes](), self.place
        for value in values:
            self.place = place
            try:
                encodings.append(self.encode(value))
            except Refused as refused:
                raise refused.below(f"[{len(encodings)}]") from None
        return encodings

    def attributes(self, values: Iterable[tuple[str, Any]]) -> bytes:
        """Encode named values, whose order does not count."""
        encodings: list[bytes] = []
        for name, value in sorted(values, key=lambda each: each[0]):
            self.place = name
            try:
                encodings.append(text(name) + self.encode(value))
            except Refused as refused:
                raise refused.below(f".{name}") from None
        return several(b"attributes", encodings)

    def mapping(self, tag: bytes, values: Iterable[tuple[Any, Any]]) -> bytes:
        items = [
            (self.encode(key), key, value)
            for key, value in values
            if not (type(key) is str and key == "__builtins__" and (value is builtins or value is vars(builtins)))
        ]
        if not self.for_trace:
            given = [each[0] for each in items]
            items.sort(key=lambda each: each[0])
            self.traits += [repr(given)] if given != [each[0] for each in items] else []
        encodings: list[bytes] = []
        for encoded, key, value in items:
            self.place = key if type(key) is str else ""
            try:
                encodings.append(encoded + self.encode(value))
            except Refused as refused:
                raise refused.below(f"[{plain(key) or '…'}]") from None
        return several(tag, encodings)

    def beside(self, value: Any, own: Collection[str] = ()) -> list[bytes]:
        """Return the encoding of the attributes that an object has besides those that its type gives it; [] if none.

        Args:
            value: the object.
            own: the names that its type gives it.
        """
        held = {name: each for name, each in vars_of(value).items() if name not in own}
        found = [(name, each) for name, each in held.items() if name not in _TOLD]
        found += self.told(value, {name: each for name, each in held.items() if name in _TOLD})
        return [self.attributes(found)] if found else []

    def told(self, value: Any, attributes: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """Return those of the attributes which describe an object that code names; texts are set aside."""
        found = []
        for name, each in attributes.items():
            if name not in self.names:
                self.unread.add(name)
            elif isinstance(each, str):
                self.set_aside(f"{name} of {type(value).__qualname__}", each)
            elif each is not None:
                found.append((name, each))
        return found

    state = encode_state  # no function that calls it: objects are nested deeply, and each frame counts

    def members(self, values: Iterable[tuple[str, Any]], within: Set[str]) -> bytes:
        """Encode the named values that an object holds, where containers have the names within some of the object's."""
        self.within = within
        return self.attributes(values)

    def is_whole(self, kind: type) -> bool:
        """Return whether all attributes of a class's instances count, for example because library code reads them."""
        known = self._wholly.get(kind)
        if known is None:
            bases = [each for each in kind.__mro__ if not attributes.is_neutral(each)]
            known = self._wholly[kind] = any(map(self.is_library, bases)) or attributes.is_whole(kind)
            if not known:
                methods.add_names(bases, self.names)
        return known or self.is_given or attributes.are_read(kind, self.names)
