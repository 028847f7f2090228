"""The traces of a root: looking one up. What fails here costs the program nothing but time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jcache.errors import DamagedEntry
from jcache.findings import Damage, Finding
from jcache.fingerprint.describe import some
from jcache.layout import Root
from jcache.runtime.sealed_store import OpenedEntry, SealedStore, open_softly, staleness
from jcache.runtime.worlds.comparisons import Comparisons
from jcache.runtime.worlds.digests import digests_of
from jcache.runtime.worlds.judgement import Check, Judgement, judge
from jcache.runtime.worlds.world import World, take
from jcache.traces.format import TRACES, Trace
from jcache.traces.keys import Asked
from jcache.traces.stored_trace import Kept
from jcache.traces.trace_keeping import TraceKeeping
from jcache.vocabulary import Item

if TYPE_CHECKING:
    from jcache.runtime.explain import Explanation


class Shelf:
    """The traces of a root, and of more roots which are read only."""

    def __init__(self, store: SealedStore, shared: Sequence[Root] = ()) -> None:
        self.store = store
        self.shared = shared
        self._comparisons = Comparisons(store.root, TRACES, shared)
        self.keeping = TraceKeeping(store, self._comparisons)

    def world(self, wanted: Asked, resolution: int) -> World:
        """Return the world of a call, the nth such one of this process: what has changed meanwhile is not known."""
        taken = take(digests_of(self.store.root))
        return taken.of_call(wanted.fingerprint.loose, resolution=f"{resolution}")

    def judge(self, wanted: Asked, world: World, check: Check) -> Judgement:
        if world.unknown is not None and check is not Check.NEVER:
            return Judgement(refused=world.unknown)
        return judge(self._comparisons, wanted.key, world, check)

    def look(self, wanted: Asked, judged: Judgement) -> Kept | str | None:
        """The trace of a call to serve or to compare with, else why there is none; None where there is none."""
        reasons: list[str] = []
        key = wanted.key if judged.compared is None else judged.compared.text
        for root in self.store.sources(key, self.shared, lambda: not reasons):
            found = self._found(root, wanted, key)
            if isinstance(found, Kept):
                return found
            if found is not None:
                evidence = found.evidence.rstrip(".")
                stale = found.damage is Damage.STALE
                reasons.append(f"{evidence[0].lower()}{evidence[1:]}" if stale else f"it is damaged: {evidence}")
                if root == self.store.root:
                    self.store.quarantine_softly(found)
        return reasons[0] if reasons else None

    def _found(self, root: Root, wanted: Asked, key: str) -> Kept | Finding | None:
        found = open_softly(root, TRACES, key)
        if not isinstance(found, OpenedEntry):
            return found
        if stale := staleness(found.header, wanted.parts, self.store.root):
            return found.finding(Damage.STALE, f"What it was traced from has changed: {some(stale)}.")
        try:
            return Kept(self.store, found, Trace.of(found.payload))
        except DamagedEntry as error:
            return found.finding(Damage.GRAMMAR, str(error))

    def explain(self, wanted: Asked, refused: str | None, check: Check) -> Explanation:
        """Return whether a call is served, and if not, why; it may have been refused before. Nothing is changed."""
        from jcache.runtime.explain import Explanation, explain

        name, key = wanted.fingerprint.name, wanted.key
        judged = self.judge(wanted, self.world(wanted, 1), check)
        refused = refused or judged.refused
        if refused is not None:
            return Explanation(name=name, key=key, hit=False, reason=refused)
        root, load = self.store.root, lambda found: Trace.of(found.payload)
        entry = key if judged.compared is None else judged.compared.text
        found = explain(root, TRACES, name, entry, wanted.parts, load, self.shared)
        if not found.hit or judged.may_serve:
            return found
        return found._replace(hit=False, reason=judged.reason(), item=Item.WORLD)
