"""The graphs of a `GraphCache`: looking one up, storing one, and what is said where that fails.

Nothing that concerns only the cache is raised here, but where it says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jcache import clock
from jcache.errors import DamagedEntry, GraphKeyError, JcacheError, NotStorable, Unresolved
from jcache.findings import Damage, Finding
from jcache.fingerprint import Fingerprint, changed_meanwhile, fingerprint
from jcache.fingerprint.depends_on import Dependency
from jcache.forking import TellInChild
from jcache.formats import pytrees
from jcache.formats.envelope import read_header
from jcache.graphs.file_codec import FileCodec, hand_over
from jcache.graphs.graph_world import GraphWorld
from jcache.graphs.roots import GRAPHS, Places
from jcache.graphs.stats import GraphTally
from jcache.layout import Root, storable
from jcache.runs.calls import BYPASSED, HIT, NOT_STORED, STORED, GraphCall
from jcache.runs.observers import is_recorded, tell_graph
from jcache.runtime.build_context import Build, add_dependency
from jcache.runtime.events import Refusal
from jcache.runtime.explain import Explanation, explain, why_missed
from jcache.runtime.sealed_store import (
    OpenedEntry,
    SealedStore,
    dependencies_of,
    describe,
    open_entry,
    open_softly,
    staleness,
)
from jcache.runtime.warn import warn_once
from jcache.runtime.worlds.comparisons import variant_key
from jcache.runtime.worlds.judgement import Check
from jcache.store.economics import Economics, Spent
from jcache.store.entry_writer import Outcome
from jcache.vocabulary import Item

if TYPE_CHECKING:
    from jcache.formats.pytrees import Dumped

_MOST_NOT_KEPT: Final = 10_000
_EXPLAINING_S: Final = 1.0  # that a process spends at most with finding out why graphs were missed
_NO_KEY: Final = "it has no key"
_NO_ROOT: Final = "there is no root"
_CHANGED: Final = "what it is built from changed meanwhile"
_NOT_STORABLE: Final = "the value cannot be stored"
_DIFFERING: Final = "two builds of it in the same world gave different results"
_NOT_COMPARED: Final = "is served, not compared"
_HOW: Final = 'give it check="first" to have it built and compared.'
_UNCHECKED: Final = "what ran cannot be checked later"


class Call(NamedTuple):
    """A call that has a key, and the store to look into."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    fingerprint: Fingerprint
    key: str
    store: SealedStore
    shared: Sequence[Root] = ()

    def run(self) -> Any:  # noqa: ANN401
        return self.function(*self.args, **self.kwargs)

    def changes(self) -> str | None:
        """What differs now from what the key was made of, None if nothing does."""
        return "; ".join(changed_meanwhile(self.fingerprint, self.function, self.args, self.kwargs)) or None


class Found(NamedTuple):
    """A graph that is served."""

    value: Any


class Shelf:
    """The graphs of a root, and of read-only ones.

    Args:
        places: the roots.
        codec: None for arrays and plain values.
        check: which graphs are built again and compared; None as `GraphCache` has it.
        depends_on: more values that count.
    """

    def __init__(
        self,
        places: Places,
        codec: FileCodec | None,
        check: Check | None = None,
        depends_on: tuple[Dependency, ...] = (),
    ) -> None:
        self.places = places
        self.tally = GraphTally()
        self._codec = codec
        self._check = check
        self._depends_on = depends_on
        self._worlds: dict[str, GraphWorld] = {}  # of the calls of this process, by key
        self._not_kept: set[str] = set()
        self._explained_s = 0.0
        _SHELVES.add(self)

    # -- calls

    def call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | str:
        """A call; with a warning why not, where it has no key or there is no root."""
        try:
            return self.call_strictly(function, args, kwargs) or _NO_ROOT
        except GraphKeyError as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001  a value's own code may raise anything
            reason = f"its key cannot be made: {error!r}."
        self.tally.not_stored(_NO_KEY)
        self._warn_of(function, reason, f"is built without the cache: {reason}")
        return reason

    def call_strictly(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
        """The same; raises GraphKeyError where it has no key."""
        store, shared = self.places.now()
        if store is None:
            self.tally.not_stored(_NO_ROOT)
            return None
        taken = fingerprint(function, args, kwargs, depends_on=self._depends_on)
        return Call(function, args, kwargs, taken, self._key(taken), store, shared)

    def world(self, call: Call) -> GraphWorld:
        """What is known of a call in the world as it was at the first such call of this process."""
        known = self._worlds.get(call.key)
        if known is None or known.root != call.store.root:
            known = self._worlds[call.key] = GraphWorld(
                call.store.root, call.shared, call.key, call.fingerprint, self._check
            )
        return known

    def _key(self, taken: Fingerprint) -> str:
        """The key; with a codec also of its name and functions, since other ones write and read other bytes."""
        if self._codec is None:
            return taken.key
        functions = [fingerprint(function).hash for function in (self._codec.save, self._codec.load)]
        text = "\n".join([taken.hash, self._codec.name, *functions])
        return storable(f"{taken.name}-{hashlib.sha256(text.encode()).hexdigest()}")

    def is_there(self, call: Call) -> bool:
        """Whether a graph is there that may be served."""
        world = self.world(call)
        return world.look_again() and call.store.has(world.entry)

    def is_not_kept(self, call: Call) -> bool:
        """Whether it could not be stored before, so that waiting for others who build it is of no use."""
        return call.key in self._not_kept

    # -- looking

    def look(self, call: Call, started: float, *, again: bool = False) -> Found | str | None:
        """The graph of a call if one may be served, else why not; None where there is none.

        Args:
            call: which.
            started: when it began.
            again: whether it was counted as a miss before.
        """
        try:
            found = self._look(call, started, again=again)
        except Exception as error:  # noqa: BLE001  whatever it is, the program goes on
            self._warn_of(call.function, type(error), f"could not be looked up: {error!r}.")
            found = f"it could not be looked up: {error!r}"
        if not isinstance(found, Found) and not again:
            self.tally.missed()
        return found

    def _look(self, call: Call, started: float, *, again: bool) -> Found | str | None:
        own, world = call.store.root, self.world(call)
        if again:
            world.look_again()
        why = world.judged.refused
        for root in () if why else (own, *call.shared):
            opened = open_softly(root, GRAPHS, world.entry)
            if isinstance(opened, Finding):
                self._set_aside(call, opened, root)
                why = why or f"it was damaged: {opened.evidence.rstrip('.')}"
            elif opened is not None and not world.may_serve(opened.header):
                why = why or world.judged.new or "it was not compared in this world"
            elif opened is not None:
                if world.is_uncompared(opened.header):
                    self._warn_of(
                        call.function, _NOT_COMPARED, f"{_NOT_COMPARED}: {world.judged.new or 'a new world'}; {_HOW}"
                    )
                found = self._made_of(opened, call)
                if isinstance(found, Found):
                    self._served(call, opened, clock.monotonic() - started, own=root == own, waited=again)
                    return found
                why = why or found
        return why

    def _made_of(self, opened: OpenedEntry, call: Call, *, last: bool = False) -> Found | str:
        """What a graph on the disk is; why not, and it is set aside, if it may not be served.

        Args:
            opened: which.
            call: that asks for it.
            last: whether it is to be set aside as well where the program lacks what is needed to make it.
        """
        try:
            stale = staleness(opened.header, call.fingerprint.parts, call.store.root)
            if not stale:
                return Found(self.value(opened, call.store.root))
            why = f"what it was built from has changed: {'; '.join(stale)}"
            finding = opened.finding(Damage.STALE, f"{why[0].upper()}{why[1:]}.")
        except DamagedEntry as error:
            why, finding = f"it was damaged: {error}", opened.finding(Damage.GRAMMAR, str(error))
        except Unresolved as error:
            why = f"it cannot be made again: {error}"
            if not last:
                self._warn_of(call.function, str(error), f"is in the cache, and is built all the same: {error}")
                return why
            finding = opened.finding(Damage.STALE, str(error))
        self._set_aside(call, finding, opened.root)
        return why

    def value(self, opened: OpenedEntry, root: Root) -> Any:  # noqa: ANN401
        """What a graph on the disk is.

        Raises:
            DamagedEntry, Unresolved: it cannot be made.
        """
        if self._codec is None:
            return pytrees.load(opened.payload)
        try:
            return self._codec.load(str(hand_over(root, opened.header.key, opened.payload)))
        except Exception as error:
            raise Unresolved(f"{self._codec!r} cannot load it: its `load` raised {error!r}.") from error

    def _served(self, call: Call, opened: OpenedEntry, seconds: float, *, own: bool, waited: bool) -> None:
        add_dependency(call.key, dependencies_of(opened.header, call.fingerprint.parts))
        spared = 0.0 if waited else opened.header.build_seconds  # 0: the program had built it by itself
        economics = Economics(loads=1, load_seconds=seconds, spared_seconds=spared) if spared else Economics(loads=1)
        if own:
            call.store.mark_used(call.key)
        self.tally.spent(call.fingerprint.name, economics)
        call.store.record_spent(Spent(GRAPHS, call.key, economics))
        self.tell(call, HIT, None, seconds, spared)

    def _set_aside(self, call: Call, finding: Finding, root: Root) -> None:
        """Takes what may not be served out of the way; in a read-only root it is passed over."""
        if root == call.store.root:
            call.store.quarantine_softly(finding)
        elif finding.damage is not Damage.STALE:
            warn_once(("damaged", root.path), f"{describe(finding)}, and is passed over.")

    def explain(self, call: Call) -> Explanation:
        """Whether a call is served, and why not."""
        root, taken = call.store.root, call.fingerprint
        world = self.world(call)
        if world.judged.refused is not None:
            return Explanation(name=taken.name, key=call.key, hit=False, reason=world.judged.refused)
        found = explain(
            root, GRAPHS, taken.name, world.entry, taken.parts, lambda one: self.value(one, root), call.shared
        )
        there = [open_softly(each, GRAPHS, world.entry) for each in (root, *call.shared)] if found.hit else []
        if any(isinstance(each, OpenedEntry) and world.may_serve(each.header) for each in there) or not found.hit:
            return found
        return found._replace(hit=False, reason=world.judged.reason(), item=Item.WORLD)

    # -- telling whoever records this process

    def tell(self, call: Call, outcome: str, reason: str | None, seconds: float = 0.0, spared: float = 0.0) -> None:
        """Tells what became of a call."""
        tell_graph(GraphCall(call.fingerprint.name, call.key, outcome, reason, seconds, spared))

    def tell_not_loaded(self, function: Callable[..., Any], call: Call | str, why: str | None) -> None:
        """Tells of a call that asks for a graph and does not build it."""
        if isinstance(call, Call):
            self.tell(call, NOT_STORED, f"it is not built here: {why or self._why_missed(call)}")
        else:
            tell_graph(GraphCall(name_of_function(function), None, BYPASSED, why))

    def _why_missed(self, call: Call) -> str:
        """What tells a call from the nearest graph that is there, as far as that is found out soon enough."""
        if not is_recorded() or self._explained_s > _EXPLAINING_S:
            return "none of its key was there"
        started, taken = clock.monotonic(), call.fingerprint
        try:
            return why_missed(call.store.root, GRAPHS, taken.name, call.key, taken.parts)
        except Exception as error:  # noqa: BLE001  whatever it is, the program goes on
            return f"what was there cannot be compared: {error!r}"
        finally:
            self._explained_s += clock.monotonic() - started

    # -- keeping

    def keep(self, call: Call, build: Build, value: object, why: str | None) -> None:
        """Stores what was built, if it may be, and says why where it may not.

        Args:
            call: that was built.
            build: of it.
            value: that was built.
            why: it was not served, where that is known.
        """
        add_dependency(call.key, build.found)
        self.tally.spent(call.fingerprint.name, build.economics)
        call.store.record_spent(Spent(GRAPHS, call.key, build.economics))
        why = why or self._why_missed(call)
        try:
            reason = self._keep(call, build, value)
        except Exception as error:  # noqa: BLE001  whatever it is, the program has its value
            self._warn_of(call.function, type(error), f"is not stored: {error!r}.")
            reason = Refusal.FAILED
        if reason is None and self.world(call).judged.new:
            why = f"{why}: {self.world(call).told}"
        self.tell(call, STORED if reason is None else NOT_STORED, why if reason is None else reason, build.seconds)
        if reason is not None:
            self.tally.not_stored(reason)
            if len(self._not_kept) < _MOST_NOT_KEPT:
                self._not_kept.add(call.key)

    def _keep(self, call: Call, build: Build, value: object) -> str | None:
        """Stores what was built; returns why not, None if it is there."""
        if build.reason is not None:
            self._warn_of(call.function, _UNCHECKED, f"is not stored: {build.reason}")
            return _UNCHECKED
        if changed := call.changes():
            self._warn_of(call.function, _CHANGED, f"is not stored, since building it changes its key: {changed}.")
            return _CHANGED
        if self.world(call).judged.refused is not None:
            return _DIFFERING
        try:
            dumped = self._dumped(value)
        except NotStorable as error:
            self._warn_of(call.function, _NOT_STORABLE, f"is not stored: {error}")
            return _NOT_STORABLE
        return self._compare(call, build, dumped)

    def _compare(self, call: Call, build: Build, dumped: Dumped) -> str | None:
        """Compares what was built with the graphs that are there, and stores it if it is none; returns why not."""
        world, root = self.world(call), call.store.root
        data = build.seal(dumped, call.fingerprint)
        content = read_header(data).payload_sha256
        variant = variant_key(call.key, content)
        for key in dict.fromkeys((world.entry, call.key, variant)):
            found = (open_softly(each, GRAPHS, key) for each in (root, *call.shared))
            there = next((each for each in found if isinstance(each, OpenedEntry)), None)
            if there is None:
                continue
            if there.header.payload_sha256 == content:
                if not staleness(there.header, call.fingerprint.parts, root):
                    same = world.judged.is_of(there.header)
                    world.compared(there.header, same=same, by_chance=bool(build.chance))
                    return None
                self._set_aside(call, there.finding(Damage.STALE, "What it was built from has changed."), there.root)
            elif world.is_same_world(there.header):
                world.refuse(_DIFFERING)
                return _DIFFERING
        if call.store.has(call.key):
            build.key = variant
            data = build.seal(dumped, call.fingerprint)
        return self._put(call, data, build)

    def replace(self, call: Call, value: object) -> bool:
        """Stores a value in the place of what is there; returns whether it is there now.

        Raises:
            NotStorable: it cannot be stored.
        """
        root, world = call.store.root, self.world(call)
        build = Build(root, world.entry)
        data = build.seal(self._dumped(value), call.fingerprint)
        try:
            there = open_entry(root, GRAPHS, world.entry)
            if isinstance(there, OpenedEntry):
                same = there.header.payload_sha256 == read_header(data).payload_sha256
                if same and not staleness(there.header, call.fingerprint.parts, root):
                    world.saved(there.header)
                    return True
                there = there.finding(Damage.REPLACED, "The program has saved another value.")
            if there is not None:
                call.store.quarantine(there)
        except (OSError, JcacheError) as error:
            reason: str | None = call.store.warn_refused(world.entry, error)
        else:
            reason = self._put(call, data, build)
        if reason is not None:
            self.tally.not_stored(reason)
        return reason is None

    def _dumped(self, value: object) -> Dumped:
        return pytrees.dump(value) if self._codec is None else self._codec.dump(value)

    def _put(self, call: Call, data: bytes, build: Build) -> str | None:
        """Stores an entry; returns why not, None if it is there."""
        header, world = read_header(data), self.world(call)
        if build.seconds:  # before it is there, so that whoever waits for it may have it
            world.compared(header, same=False, by_chance=bool(build.chance))
        else:
            world.saved(header)
        outcome = call.store.put_softly(header.key, data, build.seconds or None)
        if outcome is Outcome.PRESENT and not self._is_of_use(call, header.key):
            outcome = call.store.put_softly(header.key, data, build.seconds or None)
        if isinstance(outcome, Refusal):
            return outcome
        if outcome is Outcome.STORED:
            self.tally.stored()
        return None

    def _is_of_use(self, call: Call, key: str) -> bool:
        """Whether what is there can be served now that the function has run; if not, it is set aside."""
        opened = open_softly(call.store.root, GRAPHS, key)
        if isinstance(opened, Finding):
            call.store.quarantine_softly(opened)
        return isinstance(opened, OpenedEntry) and isinstance(self._made_of(opened, call, last=True), Found)

    def _warn_of(self, function: Callable[..., Any], reason: object, text: str) -> None:
        name = name_of_function(function)
        warn_once((name, getattr(function, "__module__", None), reason), f"The graph of `{name}` {text}")


def name_of_function(function: Callable[..., Any]) -> str:
    """What a function is called in messages."""
    return str(getattr(function, "__qualname__", None) or type(function).__qualname__)


_SHELVES: Final = TellInChild[Shelf](lambda shelf: shelf.tally.renew_lock())
