"""Snapshot of the mutable values that a walk saw, so that a later walk can tell growth from other changes.

A function that is traced or built may fill a memo, append to a log or count its calls. Its result may be stored all the
same. So the later walk sees the earlier state of a container that only grew, of an integer that was replaced by another
one, and of a private attribute that an object of a library has set for the first time. There are exceptions: a
container that the caller passed, for the caller may look for what was added; an integer that the code uses for more
than to count, such as one that makes each key of a random generator another one; a container that the code uses
otherwise than as a log or memo; and one that it fills for other code, as with functions. What a served call can set
again is no exception, see `SetValues`.
"""

# ruff: noqa: ANN401 - programs hold anything

import collections
from collections.abc import Callable, Iterable, Mapping, Set
from types import ModuleType
from typing import Any, Final

from jcache.fingerprint.attributes import is_kept
from jcache.fingerprint.describe import vars_of
from jcache.fingerprint.growth import MEMOS, counts, has_grown, is_memo, is_same, tells
from jcache.fingerprint.logs import TALLIES
from jcache.fingerprint.restored import SetValues
from jcache.fingerprint.setters import Place, Setters, Space, adders, by_name, stores
from jcache.fingerprint.settings import Settings
from jcache.fingerprint.side_effects import HIDDEN, Changed, SideEffects
from jcache.fingerprint.states import States
from jcache.fingerprint.visited import VisitedCode
from jcache.fingerprint.ways import DEEPEST, item_name

GROWING: Final = frozenset(
    {dict, list, set, collections.deque, collections.OrderedDict, collections.defaultdict, collections.Counter}
)
_OF_CONFIGURATIONS: Final = "(library)[_fields]", "(library)[_content]"  # of ml_collections and OmegaConf, with items
_SEVERAL: Final = object()  # stands for values under names that are one as texts, such as 1 and "1"
_SET: Final = object()  # stands for any value but None and False


class ValueSnapshot(VisitedCode):
    """Shallow copies of containers, and values by their places."""

    def __init__(self) -> None:
        super().__init__()
        self.reads_all = False  # whether code may read attributes by names that it computes,
        self.reads_variables = False  # and variables
        self._changed: set[str] = set()  # the names of integers that another one has replaced
        self._attributes: set[str] = set()  # those that are attributes
        self._grown: set[str] = set()  # the names of dicts that have grown
        self._more: set[str] = set()  # those of other containers, and of any in which an integer was replaced
        self._told: set[str] = set()  # those of containers that tell other code of arrays
        self._copies: dict[int, tuple[set[str], Any]] = {}  # by container, with its names
        self._values: dict[Place, Any] = {}
        self.sets = SetValues()  # since then, in the places of others
        self._sets_again = False  # whether a served call can set again what a call has set
        self.is_ordered = True  # whether each walk reaches what it visits in the same order
        self._states = States()  # of values that code reaches by names
        self.counters: dict[Place, int] = {}  # variables in which code only counts
        self.logs: set[int] = set()  # the addresses of containers in which code only collects
        self.effects = SideEffects()  # of the call, if its key stays the same
        self.changed = Changed({}, {}, frozenset())  # the values that it has changed
        self.alive: list[object] = []
        self._unread: dict[str, Any] = {}
        self._modules: Mapping[str, Mapping[str, Any]] = {}
        self._spaces: dict[int, Space] = {}  # by address, what holds values
        self._private: dict[int, dict[str, Any]] = {}  # by object, the private attributes, if None or False as such

    def hold(
        self, alive: list[object], unread: dict[str, Any], modules: Mapping[str, Mapping[str, Any]], *, for_trace: bool
    ) -> None:
        """Keep objects alive, so that no address is used twice, and what is left out, which other code may read.

        Args:
            alive: the objects.
            unread: attributes that no code reads.
            modules: the globals of modules that code reaches by names that it computes.
            for_trace: whether a served call can set again what a call has set.
        """
        self.alive, self._unread, self._modules = alive, unread, modules
        self._sets_again = self.sets.generators.may_set = for_trace and self.is_ordered

    def set_since(self, now: "ValueSnapshot") -> list[str]:
        """Return the labels of what is left out and has another value in a later snapshot, and is not set again."""
        missing = object()
        before, after = dict(self._unread), dict(now._unread)
        for label, items in now._modules.items():
            then = self._modules.get(label, items)
            module = label.rpartition(" ")[2]
            for name, value in items.items():
                if not (then.get(name) is value or isinstance(value, ModuleType) or self.sets.has(module, name)):
                    before[f"{label}: {name}"], after[f"{label}: {name}"] = then.get(name, missing), value
        labels = {*before, *after}
        return sorted(each for each in labels if not is_same(before.get(each, missing), after.get(each, missing)))

    def clear(self) -> None:
        self._copies, self._values, self.alive, self._unread, self._private = {}, {}, [], {}, {}
        self._states, self._spaces, self._modules = States(), {}, {}
        self.sets.generators.forget()
        self.forget_code()

    def add(self, container: Any, names: Set[str], at: int) -> None:
        """Copy a container of a type in `GROWING` and of some names, with the attributes that it was given.

        Args:
            container: the container, or what counts of it.
            names: the names.
            at: its address.
        """
        copied = container.copy()
        self._copies[at] = {*names, *self._copies.get(at, ((),))[0]}, copied
        for attribute, value in vars_of(container).items():
            setattr(copied, attribute, value)

    def add_names(self, container: Any, names: Set[str]) -> None:
        """Record further names of a container, and so of the containers in it."""
        known, copied = self._copies.get(id(container), (set[str](), ()))
        new = {each for each in names - known if each.count("[") < DEEPEST}
        known |= new
        items = copied.items() if isinstance(copied, dict) else ((None, each) for each in copied)
        for key, each in items if new else ():
            if id(each) in self._copies:
                places = {key if type(key) is str else None, None}
                self.add_names(each, {item_name(name, place) for name in new for place in places})

    def add_value(self, place: Place, value: Any) -> None:
        self._values[place] = value if self._values.get(place, value) is value else _SEVERAL

    def add_state(self, value: Any, name: str, state: Iterable[Any]) -> None:
        """Keep the parts of the state of a value that code reaches by a name."""
        self._states.add(value, name, state)

    def changed_by(self, effects: SideEffects) -> Changed:
        """Return the values that the code of this snapshot has changed, by their names."""
        if not any(effects):  # as for most calls
            return Changed({}, {}, frozenset())
        alive = {id(each): each for each in self.alive}
        grown = {at for at, (names, _) in self._copies.items() if not effects.grown.isdisjoint(names)}
        others = {at for at, (names, _) in self._copies.items() if not effects.more.isdisjoint(names)}
        others |= self._states.addresses(effects.states)
        places = {each for each in (*self._values, *self.counters) if _name_at(each) in effects.changed}
        kept, more = ({at: alive[at] for at in each if at in alive} for each in (grown - others, others))
        return Changed(kept, more, places)

    def named(self, changed: Changed) -> SideEffects:
        """Return side effects by the names that the code of this snapshot has for the changed values.

        A container or attribute is hidden if the code reaches it, and uses nothing by one of its names.
        """
        used = set[str]().union(*self.uses_by_name.ways.values())
        grown, more = (
            {
                name if not used.isdisjoint(names) else item_name(HIDDEN, name)
                for at, (names, _) in self._copies.items()
                if at in each
                for name in names
            }
            for each in (changed.grown, changed.others)
        )
        places = self._values.keys() & changed.places
        attributes = frozenset(_name_at(each) for each in places if each[0] != id(None))
        named = (names for each in self.uses for names in (each.attributes, each.used, each.counted))
        more |= {item_name(HIDDEN, each) for each in attributes.difference(*named)}
        return SideEffects(
            changed=frozenset(map(_name_at, places)),
            attributes=attributes,
            grown=grown,
            more=more,
            states=self._states.names(changed.others),
        )

    def without_memos(self, value: Any, held: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
        """Return the attributes of an object of a library, private ones as they were if that was None, False or absent.

        Such an object keeps in them what it computes when it is first asked, or that it has been asked.
        """
        known = self._private.get(id(value))
        if known is None:
            private = [(name, each) for name, each in held if name.startswith("_")]
            self._private[id(value)] = {name: each if each is None or each is False else _SET for name, each in private}
            return held
        kept = [(name, each) for name, each in held if name in known or not name.startswith("_")]
        return [(name, each if known.get(name, _SET) is _SET else known[name]) for name, each in kept]

    def without_new(self, holder: Any, name: str, held: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
        """Return the named values of a holder, but for those that a call has added and a served call can add again.

        Args:
            holder: an object, a class, a function, or the globals of a module.
            name: its name; several objects may have one.
            held: the names and values.
        """
        known = self._spaces.get(id(holder))
        if known is None:
            self._spaces[id(holder)] = Space(name, holder, frozenset(each for each, _ in held))
            return held
        return [each for each in held if each[0] in known.names or not self._adds(known, *each)]

    def note_globals(self, namespace: dict[str, Any]) -> None:
        """Note the names of a module's globals as they are at first."""
        if id(namespace) not in self._spaces:
            name = f"globals {namespace.get('__name__')}"
            self._spaces[id(namespace)] = Space(name, namespace, frozenset(map(str, [*namespace])))

    def has_added(self, namespace: dict[str, Any], name: str) -> bool:
        """Return whether a call has added a global that a served call can add again."""
        known = self._spaces.get(id(namespace))
        if known is None or name in known.names or name not in namespace:
            return False
        return self._adds(known, name, namespace[name])

    def _adds(self, space: Space, name: str, value: Any) -> bool:
        """Note a new value if it can be set again."""
        if not self._sets_again or not space.has(name):
            return False
        alike = [each for each in self._spaces.values() if each.name == space.name]
        number = next(at for at, each in enumerate(alike) if each is space)  # the program's classes may compare
        return self.sets.adds(space.label(name), number, value, self.alive, may_lack=is_kept(type(space.holder), name))

    def as_it_was(self, container: Any) -> Any:
        """Return the copy of a container if the container has only grown since, else the container itself."""
        names, copy = self._copies.get(id(container), (set[str](), None))
        if copy is None or type(copy) is not type(container):
            return container
        if id(container) in self.logs and type(copy) in TALLIES:
            return self._tallied(copy, container, names)
        if type(copy) in MEMOS:  # a private dict of a library's object is a memo
            private = ("(library)[_", "(library)[]")
            names = {each for each in names if not each.startswith(private) or each.startswith(_OF_CONFIGURATIONS)}
            if names and self._sets_again and self.sets.grows(id(container), container, self._copies, self.alive):
                return copy
        if not has_grown(copy, container):
            return container
        if counts(copy, container) or len(copy) < len(container):
            self.sets.gets(id(container), container, self._copies, self.alive)
        if counts(copy, container) or (len(copy) < len(container) and not is_memo(copy, container)):
            self._more.update(names)
        elif len(copy) < len(container):
            self._grown.update(names)
        self._told.update(names if tells(copy, container) else ())
        return copy

    def _tallied(self, before: Any, now: Any, names: set[str]) -> Any:
        """Return what a tally was, if it has only counted since; else what it is."""
        if any(type(each) is not int for each in now.values()):
            return now
        if before != now:
            self.sets.adds_to(id(now), now, self._copies, self.alive)
            self._more.update(names)
        return before

    def value_before(self, place: Place, value: Any, *, of_any_type: bool, may_count: bool = True) -> Any:
        """Return the earlier value at a place if the present one can be set again, or if `of_any_type`.

        An integer in place of another one counts if it `may_count`.
        """
        before = self._values.get(place, value)
        note = self.sets.keeps if of_any_type else self.sets.sets
        if before is value or (self._sets_again and note(place, value, self._values, self._holders())) or of_any_type:
            return before
        if type(before) is type(value) is int and may_count:
            self._note_counted(place, value, before)
            return before
        return value

    def _note_counted(self, place: Place, value: int, before: int) -> None:
        if before != value:
            self._changed.add(name := _name_at(place))
            self._attributes.update([name] if place[0] != id(None) else [])
            self.sets.counts(place, value, self._values, self._holders())

    def _holders(self) -> list[object]:
        """Return the objects and cells that hold values."""
        functions = (one for each in self.functions.values() for one in each)
        return [*self.alive, *(cell for one in functions for cell in one.__closure__ or ())]

    def setter(self, settings: Settings | None) -> Callable[[], None]:
        """Return a function that sets again what a call has set; raise LookupError if that is not there."""
        if not settings:
            return lambda: None
        places, sums = stores(self._values, holders := self._holders()), adders(self.counters, holders)
        places |= self.sets.generators.stores()
        return Setters(places, by_name(self._copies, self.alive), self._spaces.values(), sums).all_of(settings)

    def side_effects(self, now: "ValueSnapshot") -> SideEffects:
        """Return what has counted or grown, as a later walk has found; what a served call sets again is left out: all
        of it where the function uses some of it for more than to count.
        """
        names, states = self.sets.tallies(self.counters, now.counters, self._holders), self._states.changed(now._states)
        found = self._changed | names, self._attributes, self._grown, self._more, self._told, states
        self.effects = SideEffects(*map(frozenset[str], found))
        self.sets.is_complete &= not (states and self.sets)
        has_effects = self._sets_again and any(self.effects)
        if has_effects and (self.sets or self.effects.used_by(now)) and self.sets.take_all():
            self.effects = SideEffects(states=frozenset(states))
        self.changed = self.changed_by(self.effects)
        return self.effects


def _name_at(place: Place) -> str:
    return place[1].rpartition(".")[2]
