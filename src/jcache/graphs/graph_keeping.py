"""Store a graph that was built, or compare it with the stored ones.

Failures of the cache are reported and not raised, except where a docstring says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jcache.errors import JcacheError, NotStorable
from jcache.findings import Damage, Finding
from jcache.formats import pytrees
from jcache.formats.envelope import EnvelopeHeader, read_header
from jcache.graphs.file_codec import FileCodec
from jcache.graphs.graph_lookup import Found, GraphLookup
from jcache.graphs.graph_world import GraphWorlds
from jcache.graphs.keyed_call import KeyedCall
from jcache.graphs.roots import GRAPHS
from jcache.graphs.told import Told
from jcache.runs.calls import NOT_STORED, STORED
from jcache.runtime.build_context import Build, add_dependency
from jcache.runtime.dependencies import other_reads, reads_other_files, staleness, variants
from jcache.runtime.events import Refusal
from jcache.runtime.sealed_store import OpenedEntry, open_entry, open_softly
from jcache.runtime.worlds.judgement import OTHER_FILES, SEEDED
from jcache.store.economics import Spent
from jcache.store.put_result import Outcome

if TYPE_CHECKING:
    from jcache.formats.pytrees import Dumped

_MOST_NOT_KEPT: Final = 10_000
_CHANGED: Final = "what it is built from changed meanwhile"
_NOT_STORABLE: Final = "the value cannot be stored"
_DIFFERING: Final = "two builds of it in the same world gave different results"
_UNCHECKED: Final = "what ran cannot be checked later"


class GraphKeeping:
    """Stores graphs in the root of a call.

    Args:
        codec: the codec of the graphs; None for arrays and plain values.
        worlds: which stored graphs were compared in this world.
        told: the reports of the cache.
        lookup: the look-up of stored graphs.
    """

    def __init__(self, codec: FileCodec | None, worlds: GraphWorlds, told: Told, lookup: GraphLookup) -> None:
        self._codec = codec
        self._worlds = worlds
        self._told = told
        self._lookup = lookup
        self._not_kept: set[str] = set()

    def is_not_kept(self, call: KeyedCall) -> bool:
        """Return whether this call could not be stored before: then waiting for another process is of no use."""
        return call.key in self._not_kept

    def keep(self, call: KeyedCall, build: Build, value: object, why: str | None) -> None:
        """Store a graph that was built, or report why it is not stored.

        Args:
            call: the call.
            build: the build of its graph.
            value: the graph.
            why: the reason why the call was not served; None if it is not known.
        """
        add_dependency(call.key, build.found)
        self._told.tally.spent(call.fingerprint.name, build.economics)
        call.store.record_spent(Spent(GRAPHS, call.key, build.economics))
        why = why or self._told.why_missed(call)
        try:
            reason = self._keep(call, build, value)
        except Exception as error:  # noqa: BLE001  whatever it is, the program has its value
            self._told.warn(call.function, type(error), f"is not stored: {error!r}.")
            reason = Refusal.FAILED
        if reason is None and self._worlds.of(call).judged.new:
            why = f"{why}: {self._worlds.of(call).told}"
        self._told.tell(
            call, STORED if reason is None else NOT_STORED, why if reason is None else reason, build.seconds
        )
        if reason is not None:
            self._told.tally.not_stored(reason)
            if len(self._not_kept) < _MOST_NOT_KEPT:
                self._not_kept.add(call.key)

    def _keep(self, call: KeyedCall, build: Build, value: object) -> str | None:
        """Store a graph that was built; return the reason if it is not stored, else None."""
        if build.reason is not None:
            self._told.warn(call.function, _UNCHECKED, f"is not stored: {build.reason}")
            return _UNCHECKED
        if changed := call.changes():
            self._told.warn(call.function, _CHANGED, f"is not stored, since building it changes its key: {changed}.")
            return _CHANGED
        if (refused := self._worlds.of(call).judged.refused) is not None:
            return refused
        try:
            dumped = self._dumped(value)
        except NotStorable as error:
            self._told.warn(call.function, _NOT_STORABLE, f"is not stored: {error}")
            return _NOT_STORABLE
        return self._compare(call, build, dumped)

    def _compare(self, call: KeyedCall, build: Build, dumped: Dumped) -> str | None:
        """Compare a graph with the stored ones, and store it if it is new; return the reason if that fails."""
        world, root = self._worlds.of(call), call.store.root
        data = build.seal(dumped, call.fingerprint)
        content = read_header(data).payload_sha256
        keys = variants(call.key, content, build.found)
        for key in dict.fromkeys((world.entry, *keys)):
            found = (open_softly(each, GRAPHS, key) for each in (root, *call.shared))
            there = next((each for each in found if isinstance(each, OpenedEntry)), None)
            if there is None:
                continue
            if there.header.payload_sha256 != content:
                if world.is_same_world(there.header):
                    world.refuse(_DIFFERING)
                    return _DIFFERING
            elif not self._reads_elsewhere(call, there.header, build):
                if not staleness(there.header, call.fingerprint.parts, root):
                    if call.fingerprint.snapshot.sets.generators.has_drawn and world.judged.has_same_state:
                        world.refuse(SEEDED)
                        return SEEDED
                    same = world.judged.is_of(there.header)
                    world.compared(there.header, same=same, by_chance=bool(build.chance))
                    return None
                self._lookup.set_aside(
                    call, there.finding(Damage.STALE, "What it was built from has changed."), there.root
                )
        if reads_other_files(root, GRAPHS, world.entries(), content, lambda header: header.payload_sha256):
            world.refuse(OTHER_FILES)
            return OTHER_FILES
        if call.store.has(call.key):
            build.key = next((each for each in keys if not call.store.has(each)), keys[-1])
            data = build.seal(dumped, call.fingerprint)
        return self._put(call, data, build)

    def _reads_elsewhere(self, call: KeyedCall, there: EnvelopeHeader, build: Build) -> bool:
        """Return whether a build has read something that a stored graph does not depend on."""
        if self._worlds.of(call).is_same_world(there) and not build.chance:
            return False
        return bool(other_reads(there, call.fingerprint.parts, build.found))

    def replace(self, call: KeyedCall, value: object) -> bool:
        """Store a value in place of the stored graph; return whether it is stored now.

        Raises:
            NotStorable: the value cannot be stored.
        """
        root, world = call.store.root, self._worlds.of(call)
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
            self._told.tally.not_stored(reason)
        return reason is None

    def _dumped(self, value: object) -> Dumped:
        return pytrees.dump(value) if self._codec is None else self._codec.dump(value)

    def _put(self, call: KeyedCall, data: bytes, build: Build) -> str | None:
        """Store an entry; return the reason if that fails, else None."""
        header, world = read_header(data), self._worlds.of(call)
        if build.seconds:  # before the entry is there, so that processes that wait for it are served
            world.compared(header, same=False, by_chance=bool(build.chance))
        else:
            world.saved(header)
        outcome = call.store.put_softly(header.key, data, build.seconds or None)
        if outcome is Outcome.PRESENT and not self._is_of_use(call, header.key):
            outcome = call.store.put_softly(header.key, data, build.seconds or None)
        if isinstance(outcome, Refusal):
            return outcome
        if outcome is Outcome.STORED:
            self._told.tally.stored()
        return None

    def _is_of_use(self, call: KeyedCall, key: str) -> bool:
        """Return whether what is there can be served now that the function has run; if not, set it aside."""
        opened = open_softly(call.store.root, GRAPHS, key)
        if isinstance(opened, Finding):
            call.store.quarantine_softly(opened)
        return isinstance(opened, OpenedEntry) and isinstance(self._lookup.made_of(opened, call, last=True), Found)
