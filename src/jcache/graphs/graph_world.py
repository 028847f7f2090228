"""Whether a stored graph may be served in the world of this process, or is built again and compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from jcache.fingerprint import Fingerprint
from jcache.formats.envelope import EnvelopeHeader
from jcache.graphs.roots import GRAPHS
from jcache.layout import Root
from jcache.runtime.worlds import surroundings
from jcache.runtime.worlds.comparisons import Comparisons
from jcache.runtime.worlds.digests import digests_of
from jcache.runtime.worlds.judgement import Check, judge
from jcache.runtime.worlds.world import take_lately
from jcache.store.lineage import version_of

if TYPE_CHECKING:
    from jcache.graphs.keyed_call import KeyedCall

_SLOW_S: Final = 10.0  # a graph that takes longer to build is compared only where `check` asks for it


class GraphWorld:
    """What was compared of a call in the world of this process, as of when this object is made.

    Args:
        root: the root that is written.
        shared: more roots, which are read only.
        key: the key of the call.
        fingerprint: the fingerprint of the call.
        check: which graphs are built again and compared; None as `jcache.GraphCache` has it.

    Attributes:
        judged: the judgement of the call in this world.
        entry: key of the entry that is served or compared.
        told: the result of a comparison, in words.
    """

    def __init__(
        self, root: Root, shared: Sequence[Root], key: str, fingerprint: Fingerprint, check: Check | None
    ) -> None:
        self.root = root
        self._key = key
        self._loose, self._place = fingerprint.loose, surroundings.place()
        self._by_chance = bool(fingerprint.chance)
        self._check = check
        self._comparisons = Comparisons(root, GRAPHS, shared)
        self._world = take_lately(digests_of(root)).of_call(fingerprint.loose)
        self.told = ""
        self._own: tuple[str, str] | None = None  # the entry that this process has stored or compared
        self.look_again()

    def is_of(self, call: KeyedCall) -> bool:
        """Return whether a call is in this root and directory, and all that its key leaves out is as it was."""
        is_here = self.root == call.store.root and self._place == surroundings.place()
        return is_here and self._loose == call.fingerprint.loose

    def look_again(self) -> bool:
        """Read what other processes have compared meanwhile; return whether a graph may be served."""
        if self._own is None:
            self.judged = judge(self._comparisons, self._key, self._world, self._check or Check.FIRST)
            self.entry = self._key if self.judged.compared is None else self.judged.compared.text
        return self._own is not None or self.judged.may_serve

    def may_serve(self, header: EnvelopeHeader) -> bool:
        """Return whether an entry may be served now."""
        return self._is_good(header) or self.is_uncompared(header)

    def is_uncompared(self, header: EnvelopeHeader) -> bool:
        """Return whether an entry is served without a comparison because building it takes long."""
        return self._check is None and header.build_seconds >= _SLOW_S and not self._is_good(header)

    def _is_good(self, header: EnvelopeHeader) -> bool:
        if self._check is Check.NEVER or self._own == (header.key, version_of(header)):
            return True
        return self.judged.may_serve and self.judged.is_of(header)

    def is_same_world(self, header: EnvelopeHeader) -> bool:
        """Return whether an entry was compared in this same world: another result is then nondeterminism."""
        return self.judged.is_exact and self.judged.is_of(header)

    def compared(self, header: EnvelopeHeader, *, same: bool, by_chance: bool) -> None:
        """Note that an entry holds the result of this world.

        Args:
            header: the header of the entry.
            same: whether the entry was stored before.
            by_chance: whether building it asked for something that differs in each process, such as the time.
        """
        self.told = f"built and compared, {'same' if same else 'another'} result"
        self._note(header, self.judged.left_after(by_chance=by_chance or self._by_chance, same=same))

    def saved(self, header: EnvelopeHeader) -> None:
        """Note that the program has saved an entry as the result of this world."""
        self._note(header, left=0)

    def _note(self, header: EnvelopeHeader, left: int) -> None:
        """Take an entry as the result of this world; `left` more starts have to compare it."""
        self.entry, self._own = header.key, (header.key, version_of(header))
        if self._world.unknown is None:
            self._comparisons.add(self._key, header, self._world, left)

    def entries(self) -> set[str]:
        """Return the keys of the entries with which this call was compared in any world."""
        return self._comparisons.entries(self._key)

    def refuse(self, reason: str) -> None:
        """Note that two builds in this world had different results."""
        if self._world.unknown is None:
            self._comparisons.refuse(self._key, self._world, reason)
            self.look_again()


class GraphWorlds:
    """What was compared of each call of this process.

    Args:
        check: which graphs are built again and compared; None as `jcache.GraphCache` has it.
    """

    def __init__(self, check: Check | None) -> None:
        self._check = check
        self._by_key: dict[str, GraphWorld] = {}

    def of(self, call: KeyedCall) -> GraphWorld:
        """Return what was compared of a call, in the world as it was when its key first left out the same values."""
        known = self._by_key.get(call.key)
        if known is None or not known.is_of(call):
            known = GraphWorld(call.store.root, call.shared, call.key, call.fingerprint, self._check)
            self._by_key[call.key] = known
        return known
