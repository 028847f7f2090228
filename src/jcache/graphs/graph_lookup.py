"""Look up the graph of a call; if none may be served, find out why.

Failures of the cache are reported and not raised, except where a docstring says so.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final, NamedTuple

from jcache import clock
from jcache.errors import DamagedEntry, Unresolved
from jcache.findings import Damage, Finding
from jcache.fingerprint.io.reads import record_files
from jcache.formats import pytrees
from jcache.graphs.file_codec import FileCodec, hand_over
from jcache.graphs.graph_world import GraphWorlds
from jcache.graphs.keyed_call import KeyedCall
from jcache.graphs.roots import GRAPHS
from jcache.graphs.told import Told
from jcache.layout import Root
from jcache.runs.calls import HIT
from jcache.runtime.build_context import add_dependency
from jcache.runtime.dependencies import dependencies_of, staleness
from jcache.runtime.explain import Explanation, explain
from jcache.runtime.sealed_store import OpenedEntry, describe, open_softly
from jcache.runtime.warn import warn_once
from jcache.store.economics import Economics, Spent
from jcache.vocabulary import CauseKind

_NOT_COMPARED: Final = "is served, not compared"
_HOW: Final = 'give it check="first" to have it built and compared.'


class Found(NamedTuple):
    """A graph that is served."""

    value: Any


class GraphLookup:
    """Looks up graphs in the root of a call and in read-only ones.

    Args:
        codec: the codec of the graphs; None for arrays and plain values.
        worlds: which stored graphs were compared in this world.
        told: the reports of the cache.
    """

    def __init__(self, codec: FileCodec | None, worlds: GraphWorlds, told: Told) -> None:
        self._codec = codec
        self._worlds = worlds
        self._told = told

    def is_there(self, call: KeyedCall) -> bool:
        """Return whether a graph is stored that may be served."""
        world = self._worlds.of(call)
        return world.look_again() and call.store.has(world.entry)

    def look(self, call: KeyedCall, started: float, *, again: bool = False) -> Found | str | None:
        """Return the graph of a call if one may be served, else the reason; None if none is stored.

        Args:
            call: the call.
            started: time of its begin, of `clock.monotonic`.
            again: whether it was counted as a miss before.
        """
        try:
            found = self._look(call, started, again=again)
        except Exception as error:  # noqa: BLE001  whatever it is, the program goes on
            self._told.warn(call.function, type(error), f"could not be looked up: {error!r}.")
            found = f"it could not be looked up: {error!r}"
        if not isinstance(found, Found) and not again:
            self._told.tally.missed()
        return found

    def _look(self, call: KeyedCall, started: float, *, again: bool) -> Found | str | None:
        own, world = call.store.root, self._worlds.of(call)
        if again:
            world.look_again()
        if world.judged.refused:
            return world.judged.refused
        reasons: list[str] = []
        for root in call.store.sources(world.entry, call.shared, lambda: not reasons):
            on_record = partial(call.store.digest_on_record, world.entry) if root is own else None
            opened = open_softly(root, GRAPHS, world.entry, on_record)
            if isinstance(opened, Finding):
                self.set_aside(call, opened, root)
                reasons.append(f"it was damaged: {opened.evidence.rstrip('.')}")
            elif opened is not None and not world.may_serve(opened.header):
                reasons.append(world.judged.reason_now())
            elif opened is not None:
                if world.is_uncompared(opened.header):
                    self._told.warn(
                        call.function, _NOT_COMPARED, f"{_NOT_COMPARED}: {world.judged.new or 'a new world'}; {_HOW}"
                    )
                found = self.made_of(opened, call)
                if isinstance(found, Found):
                    self._served(call, opened, clock.monotonic() - started, own=root == own, waited=again)
                    return found
                reasons.append(found)
        return reasons[0] if reasons else None

    def made_of(self, opened: OpenedEntry, call: KeyedCall, *, last: bool = False) -> Found | str:
        """Load a stored graph; if it may not be served, set it aside and return the reason.

        Args:
            opened: its entry.
            call: the call that asks for it.
            last: whether it is set aside also if the program lacks a class that it needs.
        """
        try:
            stale = staleness(opened.header, call.fingerprint.parts, call.store.root)
            if not stale:
                return Found(self._value(opened, call.store.root))
            why = f"what it was built from has changed: {'; '.join(stale)}"
            finding = opened.finding(Damage.STALE, f"{why[0].upper()}{why[1:]}.")
        except DamagedEntry as error:
            why, finding = f"it was damaged: {error}", opened.finding(Damage.GRAMMAR, str(error))
        except Unresolved as error:
            why = f"it cannot be made again: {error}"
            if not last:
                self._told.warn(call.function, str(error), f"is in the cache, and is built all the same: {error}")
                return why
            finding = opened.finding(Damage.STALE, str(error))
        self.set_aside(call, finding, opened.root)
        return why

    def _value(self, opened: OpenedEntry, root: Root) -> Any:  # noqa: ANN401
        """Return the value of a stored graph.

        Raises:
            DamagedEntry: the entry is damaged.
            Unresolved: the program lacks what the value needs.
        """
        if self._codec is None:
            return pytrees.load(opened.payload)
        try:
            content = opened.header.payload_sha256
            return self._codec.load(str(hand_over(root, opened.header.key, opened.payload, content)))
        except Exception as error:
            raise Unresolved(f"{self._codec!r} cannot load it: its `load` raised {error!r}.") from error

    def _served(self, call: KeyedCall, opened: OpenedEntry, seconds: float, *, own: bool, waited: bool) -> None:
        found = dependencies_of(opened.header, call.fingerprint.parts)
        add_dependency(call.key, found)
        record_files(found)
        spared = 0.0 if waited else opened.header.build_seconds  # 0: the program has saved it, by `GraphCache.save`
        economics = Economics(loads=1, load_seconds=seconds, spared_seconds=spared) if spared else Economics(loads=1)
        if own:
            call.store.mark_used(call.key)
        self._told.tally.spent(call.fingerprint.name, economics)
        call.store.record_spent(Spent(GRAPHS, call.key, economics))
        self._told.tell(call, HIT, None, seconds, spared)

    def set_aside(self, call: KeyedCall, finding: Finding, root: Root) -> None:
        """Move a graph that may not be served to quarantine; in a read-only root it stays."""
        if root == call.store.root:
            call.store.quarantine_softly(finding)
        elif finding.damage is not Damage.STALE:
            warn_once(("damaged", root.path), f"{describe(finding)}, and is not used.")

    def explain(self, call: KeyedCall) -> Explanation:
        """Return whether a call would be served, and if not, why."""
        root, taken = call.store.root, call.fingerprint
        world = self._worlds.of(call)
        if world.judged.refused is not None:
            return Explanation(name=taken.name, key=call.key, hit=False, reason=world.judged.refused)
        found = explain(
            root, GRAPHS, taken.name, world.entry, taken.parts, lambda one: self._value(one, root), call.shared
        )
        there = [open_softly(each, GRAPHS, world.entry) for each in (root, *call.shared)] if found.hit else []
        if any(isinstance(each, OpenedEntry) and world.may_serve(each.header) for each in there) or not found.hit:
            return found
        return found._replace(hit=False, reason=world.judged.reason(), item=CauseKind.WORLD)
