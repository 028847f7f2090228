"""Collection of a fingerprint's parts during a walk: labels, digests, descriptions, and how each was reached."""

# ruff: noqa: ANN401 - programs hold anything

import sys
from bisect import bisect
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from jcache.errors import GraphKeyError
from jcache.fingerprint import attributes, chance, jax_options
from jcache.fingerprint.describe import describe
from jcache.fingerprint.encoding import SCALARS, several, sha256, tagged, text
from jcache.fingerprint.generators import encode_shared
from jcache.fingerprint.readings import LOWEST
from jcache.fingerprint.refusals import Refused
from jcache.fingerprint.selection import Names, select
from jcache.fingerprint.side_effects import IN_OBJECT
from jcache.fingerprint.snapshot import ValueSnapshot
from jcache.fingerprint.values import Encoder
from jcache.fingerprint.visited import ARGUMENT

_RECEIVER: Final = f"{ARGUMENT}self"
_ATTRIBUTE: Final = "attribute "  # the beginning of the labels of what classes and functions hold
_NUMBERS: Final = frozenset({int, float})
_VERSION: Final = b"fingerprint 12 %d.%d" % sys.version_info[:2]
"""Version of the rules for fingerprints, and of Python, because fingerprints cover bytecode. The number goes up when a
rule turns out to be too weak, so that nothing stored under the old rule is served."""


class Part(NamedTuple):
    """Something that the result depends on."""

    digest: bytes
    words: str  # a short description


class Parts(Encoder):
    """Encoder that makes parts of values, and keeps queues of the nodes and values to visit."""

    def __init__(self, home: str, name: str, *, for_trace: bool = False, before: ValueSnapshot | None = None) -> None:
        """Prepare the collection; see `jcache.fingerprint.walk.Walk` for the arguments."""
        super().__init__(for_trace=for_trace, before=before)
        self.parts: dict[str, Part] = {}
        self._home = home
        self._name = name
        self._counts: dict[str, int] = {}
        self._nodes: dict[int, bytes] = {}
        self._named_classes: dict[int, tuple[type, bytes]] = {}  # of libraries
        self._above: dict[str, str] = {}
        self._at = ""
        self._waiting: deque[tuple[Callable[[Any, str], None], Any, str]] = deque()
        self.chance: set[str] = set()
        self._generators: list[Any] = []  # random ones that the process shares
        self.calendars: set[str] = set()  # names of classes with methods for the present date
        self.uses_library = False
        self.is_harmless = False  # whether nondeterminism in the visited code decides no result
        self.given: frozenset[int] = frozenset()  # addresses of containers that the caller passed
        self._values: deque[tuple[str, Any, Names]] = deque()
        self._starts: list[tuple[int, str]] = []
        self.loose: list[tuple[str, Any]] = []

    def run(self) -> None:
        """Visit nodes and encode values until none is left.

        Raises:
            GraphKeyError: something cannot be fingerprinted.
        """
        while self._waiting or self._values:
            self.is_harmless = False
            try:
                if self._waiting:
                    visit, value, self._at = self._waiting.popleft()
                    visit(value, self._at)
                else:  # all code has been visited
                    self._at, value, names = self._values.popleft()
                    self._encode(self._at, value, names)
            except Refused as refused:
                raise self._error(self._at, refused) from None

    def _label(self, base: str) -> str:
        count = self._counts[base] = self._counts.get(base, 0) + 1
        return base if count == 1 else f"{base}#{count}"

    def _node(self, value: Any, base: str, visit: Callable[[Any, str], None]) -> bytes:
        label = self._label(base)
        reference = self._nodes[id(value)] = tagged(b"ref", label.encode("utf-8", "surrogatepass"))
        self._above[label] = self._at
        self.alive.append(value)
        self._waiting.append((visit, value, label))
        return reference

    def _add(self, label: str, encoding: bytes, words: str) -> None:
        self.parts[label] = Part(sha256(encoding), words)

    def _qualified(self, module: str, name: str) -> str:
        return name if module == self._home else f"{module}.{name}"

    def _error(self, label: str, refused: Refused) -> GraphKeyError:
        trail = [label]
        while self._above.get(trail[-1]):
            trail.append(self._above[trail[-1]])
        names = [each.partition(" ")[2] or self._name for each in reversed(trail)]
        kind, _, name = label.partition(" ")
        return GraphKeyError(
            f"{kind} `{name or self._name}`{refused.path} of type {refused.type_name} (reached from "
            f"{' → '.join(names)}) cannot be part of a key, for {refused.reason}: {refused.way_out}."
        )

    def value(self, base: str, value: Any, names: Names = ()) -> bytes:
        """Make a part of a value, and return a reference to the part; see `part`."""
        return tagged(b"part", self.part(base, value, names).encode("utf-8", "surrogatepass"))

    def part(self, base: str, value: Any, names: Names = ()) -> str:
        """Make a part of a value, and return the part's label.

        A scalar is encoded at once, unless it is a clock reading that the caller has not passed. Any other value waits
        until all code has been visited, because that code decides which attributes and items count.

        Args:
            base: the label, to which a number is added if there is one like it.
            value: the value.
            names: the names by which code reaches it, if that may use only some of its items.
        """
        label = self._label(base)
        scalar = SCALARS.get(type(value))
        is_small = type(value) in _NUMBERS and value < LOWEST
        is_given = base.startswith(ARGUMENT)
        if scalar is not None and (is_small or is_given or not self._readings.has(type(value), value)):
            digest = sha256(scalar(value))
            self.parts[label] = Part(digest, describe(value, digest, label))
            return label
        self._above[label] = self._at
        self._values.append((label, value, names))
        return label

    def set_aside(self, what: str, value: Any) -> None:
        what = what or (f"{self._at}: {self.place}" if self.place else self._at)
        self.loose.append((self._label(f"loose {what}").partition(" ")[2], value))

    def note_order_of(self, label: str, names: Iterable[str]) -> None:
        """Record the order of the members of a class, module or function under a label."""
        self.note_order(names)
        self._set_traits_aside(label)
        self.unread.update({attributes.ALL} - self.names)

    def _set_traits_aside(self, label: str) -> None:
        if self.traits:
            self.set_aside(f"order and sharing in {label}", sha256(text("\n".join(self.traits))))
            self.traits.clear()

    def _encode(self, label: str, value: Any, names: Names) -> None:
        self.label = label
        self._starts.append((len(self.seen), label))
        self.may_grow = id(value) not in self.given
        value = select(self, names, value) if names else value
        self.head = value
        self.is_given = label.startswith(ARGUMENT) and label != _RECEIVER
        self.place = ""
        self.within = IN_OBJECT if label.startswith(_ATTRIBUTE) else frozenset()
        try:
            encoding = self.encode(value)
        except RecursionError:
            raise Refused(value, "it is nested too deeply") from None
        finally:
            self.may_grow, self.is_given = True, False
        self._set_traits_aside(label)
        digest = sha256(encoding)
        self.parts[label] = Part(digest, self._words(value, encoding, digest, label))

    def _words(self, value: Any, encoding: bytes, digest: bytes, label: str) -> str:
        for tag in (b"ref", b"named"):
            if encoding.startswith(tag) and encoding[len(tag) : len(tag) + 1].isdigit():
                return encoding.partition(b":")[2].decode(errors="backslashreplace")
        if encoding.startswith(b"again"):
            number = int(encoding.partition(b":")[2])
            first = self._starts[bisect(self._starts, (number, "\U0010ffff")) - 1][1]
            return f"object {number}, seen in {first}"
        return describe(self.shown.get(id(value), value), digest, label)

    def note_reached(self, value: Any, given: Iterable[object] = ()) -> None:
        """Record a value that code can reach, if it is a source of nondeterminism or an input from host or calendar."""
        if self.is_harmless:
            return
        if chance.is_calendar(value):
            self.calendars.add(value.__qualname__)
        elif (found := chance.unrepeatable(value, given)) is not None:
            self.add_unrepeatable(found)

    def add_unrepeatable(self, found: chance.Unrepeatable) -> None:
        if found.words:
            self.chance.add(found.words)
        if found.generator is not None and all(found.generator is not each for each in self._generators):
            self._generators.append(found.generator)
            encode_shared(self, found.generator)
        if found.label and found.label not in self.parts:
            shown = str(found.value())
            self._add(found.label, text(shown), shown)

    def library(self) -> None:
        self.uses_library = True

    def add_options(self) -> None:
        """Make parts of JAX's options, with the values that they have or will have once JAX is imported."""
        self.parts.update((label, Part(*each)) for label, each in jax_options.digests(jax_options.values()).items())


def total(parts: Mapping[str, Part]) -> bytes:
    labels = sorted(parts)
    lengths = ",".join(map(str, map(len, labels))).encode()
    digests = b"".join([parts[label].digest for label in labels])
    return sha256(several(_VERSION, (tagged(b"lengths", lengths), text("".join(labels)), digests)))
