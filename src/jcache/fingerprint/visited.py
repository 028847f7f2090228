"""The code that a walk has visited: how its functions use what they name, and what they ask of it."""

from __future__ import annotations

from collections.abc import Set
from types import FunctionType
from typing import Final

from jcache.fingerprint.code import Meaning, meaning_of
from jcache.fingerprint.passes import followed
from jcache.fingerprint.receivers import Ask, Passed
from jcache.fingerprint.side_effects import UsesByName, holders

ARGUMENT: Final = "argument "  # the beginning of the names of arguments
_TRACE_ONCE: Final = frozenset(  # functions of JAX that keep the traces of the functions that they are given
    {"associative_scan", "checkpoint", "cond", "eval_shape", "fori_loop", "jit", "linearize", "make_jaxpr", "pjit",
     "remat", "scan", "shard_map", "switch", "while_loop"}
)  # fmt: skip


class VisitedCode:
    """The functions that a walk has visited."""

    def __init__(self) -> None:
        self.uses: list[Meaning] = []  # of these functions
        self.counted: set[str] = set()  # the names in which one of them counts
        self._visited: list[tuple[FunctionType, Meaning]] = []  # functions with asks
        self._gathered: dict[str, int] = {}  # by name, the number of them that have been looked at for it
        self._asked: dict[str, set[str | None]] = {}  # what code asks of names
        self._items: set[str] = set()  # names of the items for which it asks
        self._passed: dict[str, list[tuple[FunctionType, Passed]]] = {}  # by name, where it is passed on
        self._followed: dict[str, int] = {}  # by name, the number of functions that were known when that was followed
        self.functions: dict[str, list[FunctionType]] = {}  # that a walk has visited, by their names
        self.read_otherwise: set[str] = set()  # names that getters read, comparing objects, or whole modules
        self.reaches_jitted = False  # whether code may reach a function whose trace JAX keeps, and uses for others
        self._summed: tuple[tuple[int, int], UsesByName] | None = None  # of how many names, and how code uses them

    def forget_code(self) -> None:
        """Keep no function in use."""
        self.uses, self._visited, self._passed, self.functions = [], [], {}, {}

    @property
    def uses_by_name(self) -> UsesByName:
        """How the functions that a walk has visited so far use what they name."""
        count = len(self.uses), len(self.read_otherwise)
        if self._summed is None or self._summed[0] < count:
            self._summed = count, UsesByName.of(self.uses, self.read_otherwise)
        return self._summed[1]

    def uses_any(self, names: Set[str]) -> bool:
        return any(not each.used.isdisjoint(names) for each in self.uses)

    def visit(self, function: FunctionType, known: Meaning, *, is_generated: bool) -> None:
        """Record a function that code may call, its meaning, and whether a library like `dataclasses` has made it."""
        self.uses.append(known)
        self.counted |= known.counted
        names = known.attributes.union(each.chain[-1] for each in known.lookups)
        self.reaches_jitted |= not names.isdisjoint(_TRACE_ONCE)
        if not is_generated:  # what dataclasses make compares an object with all that it holds
            self._visited.append((function, known))
        self.functions.setdefault(function.__code__.co_name, []).append(function)

    def visit_parameters(self, function: FunctionType) -> None:
        """Record what a function asks of its arguments, under names that begin with `ARGUMENT`."""
        for name, asks in meaning_of(function).asks().of_parameters.items():
            self._add_asks(function, ARGUMENT + name, asks)

    def items(self) -> set[str]:
        """Return the names of all items for which code asks by constant texts, such as ``cfg[lr]``."""
        return self._items.union(*(known.asks().items for _, known in self._visited))

    def _gather(self, name: str) -> None:
        """Add what the functions that have been visited ask of a name."""
        for function, known in self._visited[self._gathered.get(name, 0) :]:
            self._add_asks(function, name, known.asks().of_names.get(name, frozenset()))
        self._gathered[name] = len(self._visited)

    def _add_asks(self, function: FunctionType, name: str, asks: Set[Ask]) -> None:
        known = self._asked.setdefault(name, set())
        for each in asks:
            if isinstance(each, Passed):
                self._passed.setdefault(name, []).append((function, each))
                continue
            known.add(each)
            if each and each[0] == "[":
                self._items.add(name + each)

    def asked_of(self, name: str) -> Set[str | None]:
        """Return what code asks of something of a name, also through functions to which it passes it.

        See `jcache.fingerprint.asks`.
        """
        for each in (*holders(name), name):
            self._gather(each)
            if each in self._passed and self._followed.get(each) != len(self.uses):
                self._followed[each] = len(self.uses)
                for function, passed in self._passed[each]:
                    for inner, what in followed(function, each, passed, self.functions):
                        self._add_asks(function, inner, {what})
        return self._asked.get(name, frozenset())

    def asked_of_any(self, name: str) -> Set[str | None]:
        """Return what code asks of something of a name, or of an argument of this name."""
        return {*self.asked_of(name), *self.asked_of(ARGUMENT + name)}
