"""Look up traces in a root. A failure is a miss: it costs the program time, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from jcache.errors import DamagedEntry
from jcache.findings import Damage, Finding
from jcache.fingerprint.describe import some
from jcache.jax_internals import cache_hook
from jcache.layout import Root
from jcache.runtime.dependencies import staleness
from jcache.runtime.sealed_store import OpenedEntry, SealedStore, open_softly
from jcache.runtime.worlds.comparisons import Comparisons
from jcache.runtime.worlds.digests import digests_of
from jcache.runtime.worlds.judgement import Check, Judgement, judge
from jcache.runtime.worlds.world import World, take
from jcache.traces.format import TRACES, Trace
from jcache.traces.keys import TraceRequest
from jcache.traces.stored_trace import StoredTrace
from jcache.traces.trace_keeping import TraceKeeping
from jcache.vocabulary import CauseKind

if TYPE_CHECKING:
    from jcache.runtime.explain import Explanation


class TraceStore:
    """The traces of a root, and of further roots that are read only.

    Args:
        store: the store of the root that is written.
        shared: the read-only roots.
        may_write: returns whether this process of the program stores traces; each one notes what it has compared.

    Attributes:
        store, shared: as given.
        keeping: stores traces in the root.
    """

    def __init__(
        self, store: SealedStore, shared: Sequence[Root] = (), may_write: Callable[[], bool] = lambda: True
    ) -> None:
        self.store = store
        self.shared = shared
        self._comparisons = Comparisons(store.root, TRACES, shared)
        self.keeping = TraceKeeping(store, self._comparisons, may_write)

    def world(self, request: TraceRequest, resolution: int) -> World:
        """Return the world of a call.

        Args:
            request: the request of the call.
            resolution: the number of its function among those of this process that have requested the same key. It is
                a part of the world, since jcache cannot see everything that has changed between such requests.
        """
        taken = take(digests_of(self.store.root))
        return taken.of_call(request.fingerprint.loose, resolution=f"{resolution}")

    def judge(self, request: TraceRequest, world: World, check: Check) -> Judgement:
        """Return what is known about a call in a world."""
        if world.unknown is not None and check is not Check.NEVER:
            return Judgement(refused=world.unknown)
        return judge(self._comparisons, request.key, world, check, samples=cache_hook.process_index() == 0)

    def find(self, request: TraceRequest, judged: Judgement) -> StoredTrace | str | None:
        """Return the stored trace that serves a call or is to be compared.

        A damaged or stale entry in the root that is written is moved to quarantine.

        Args:
            request: the request of the call.
            judged: what is known about the call in its world.

        Returns:
            The trace; if there is none, the reason why a stored one cannot be used, or None if none is stored.
        """
        reasons: list[str] = []
        key = request.key if judged.compared is None else judged.compared.text
        for root in self.store.sources(key, self.shared, lambda: not reasons):
            found = self._find_in(root, request, key)
            if isinstance(found, StoredTrace):
                return found
            if found is not None:
                evidence = found.evidence.rstrip(".")
                stale = found.damage is Damage.STALE
                reasons.append(f"{evidence[0].lower()}{evidence[1:]}" if stale else f"it is damaged: {evidence}")
                if root == self.store.root:
                    self.store.quarantine_softly(found)
        return reasons[0] if reasons else None

    def _find_in(self, root: Root, request: TraceRequest, key: str) -> StoredTrace | Finding | None:
        found = open_softly(root, TRACES, key)
        if not isinstance(found, OpenedEntry):
            return found
        if stale := staleness(found.header, request.parts, self.store.root):
            return found.finding(Damage.STALE, f"What it was traced from has changed: {some(stale)}.")
        try:
            return StoredTrace(self.store, found, Trace.of(found.payload))
        except DamagedEntry as error:
            return found.finding(Damage.GRAMMAR, str(error))

    def explain(self, request: TraceRequest, refused: str | None, check: Check) -> Explanation:
        """Return whether a call is served, and if not, why; nothing is written.

        Args:
            request: the request of the call.
            refused: the reason why its trace is not stored, if an earlier call had one.
            check: which starts that a stored trace would serve are traced and compared.
        """
        from jcache.runtime.explain import Explanation, explain

        name, key = request.fingerprint.name, request.key
        judged = self.judge(request, self.world(request, 1), check)
        refused = refused or judged.refused
        if refused is not None:
            return Explanation(name=name, key=key, hit=False, reason=refused)
        root, load = self.store.root, lambda found: Trace.of(found.payload)
        entry = key if judged.compared is None else judged.compared.text
        found = explain(root, TRACES, name, entry, request.parts, load, self.shared)
        if not found.hit or judged.may_serve:
            return found
        return found._replace(hit=False, reason=judged.reason(), item=CauseKind.WORLD)
