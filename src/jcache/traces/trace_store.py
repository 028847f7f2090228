"""The traces of a root: looking one up, storing one. What fails here costs the program nothing but time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from jcache.errors import DamagedEntry
from jcache.findings import Damage, Finding
from jcache.fingerprint.describe import some
from jcache.formats.envelope import EnvelopeHeader, read_header
from jcache.jax_internals.compile_record import Compilation, Replay
from jcache.layout import Root
from jcache.runs import observers
from jcache.runtime.events import Refusal
from jcache.runtime.sealed_store import OpenedEntry, SealedStore, open_softly, staleness
from jcache.runtime.warn import warn_outside
from jcache.runtime.worlds.comparisons import Comparisons, variant_key
from jcache.runtime.worlds.digests import digests_of
from jcache.runtime.worlds.judgement import Check, Judgement, judge
from jcache.runtime.worlds.world import World, take
from jcache.store.economics import Economics, Spent
from jcache.store.lineage import belongs_to
from jcache.traces.difference import difference, difference_of_programs
from jcache.traces.format import (
    TRACES,
    Trace,
    content_of,
    parts_of_program,
    program_key,
    seal_program,
    seal_trace,
)
from jcache.traces.keys import Asked
from jcache.vocabulary import Item

if TYPE_CHECKING:
    from jcache.runtime.explain import Explanation
    from jcache.traces.miss import Traced

_CONTENT: Final = "content"  # the part of a trace by which it is compared
NO_PROGRAM: Final = "none of its programs is for such shardings, devices and options"


class Kept:
    """A trace that is served.

    Attributes:
        trace: what it says.
        opened: its entry.
    """

    def __init__(self, store: SealedStore, opened: OpenedEntry, trace: Trace) -> None:
        self.trace = trace
        self.opened = opened
        self._store = store
        self._programs: dict[str, OpenedEntry] = {}

    def executables(self, signature: str, device: str) -> Iterator[str]:
        """The keys in JAX's cache of the executables for a signature and a device: of its own, and of a later one."""
        for of in (signature, device):
            program = self._program(of)
            parts = {} if program is None else program.header.key_parts
            if parts.get("device") == device and "executable" in parts:
                yield parts["executable"]

    def artifact(self, signature: str) -> bytes | None:
        """The StableHLO of a signature."""
        program = self._program(signature)
        return None if program is None else bytes(program.payload)

    def text(self, signature: str) -> str | None:
        """SHA-256 of the StableHLO of a signature, as text."""
        program = self._program(signature)
        return None if program is None else program.header.key_parts.get("text")

    def _program(self, of: str) -> OpenedEntry | None:
        """A program of this trace, which lies beside it or in the root that is written; damage goes to quarantine."""
        key = program_key(self.opened.header, of)
        for root in () if of in self._programs else dict.fromkeys((self.opened.root, self._store.root)):
            found = open_softly(root, TRACES, key)
            if isinstance(found, Finding):
                if root == self._store.root:
                    self._store.quarantine_softly(found)
            elif found is not None and belongs_to(found.header, self.opened.header):
                self._programs[of] = found
                break
        return self._programs.get(of)

    @property
    def used(self) -> list[str]:
        """The keys of the entries that served, in the root that is written."""
        served = (self.opened, *self._programs.values())
        return [entry.header.key for entry in served if entry.root == self._store.root]


class Shelf:
    """The traces of a root.

    Args:
        store: of the root.
        shared: more roots, which are read only.
    """

    def __init__(self, store: SealedStore, shared: Sequence[Root] = ()) -> None:
        self.store = store
        self.shared = shared
        self.comparisons = Comparisons(store.root, TRACES, shared)

    def world(self, wanted: Asked, resolution: int) -> World:
        """The world of a call.

        Args:
            wanted: what it asks for.
            resolution: how often this process has asked for that: what a program has changed meanwhile is not known.
        """
        taken = take(digests_of(self.store.root))
        return taken.of_call(wanted.fingerprint.loose, resolution=f"{resolution}")

    def judge(self, wanted: Asked, world: World, check: Check) -> Judgement:
        """What is known about a call in a world."""
        if world.unknown is not None and check is not Check.NEVER:
            return Judgement(refused=world.unknown)
        return judge(self.comparisons, wanted.key, world, check)

    def look(self, wanted: Asked, judged: Judgement) -> Kept | str | None:
        """The trace of a call to serve or to compare with, else why there is none; None where there is none."""
        why = None
        key = wanted.key if judged.compared is None else judged.compared.text
        for root in (self.store.root, *self.shared):
            found = self._found(root, wanted, key)
            if isinstance(found, Kept):
                return found
            if found is not None:
                evidence = found.evidence.rstrip(".")
                stale = found.damage is Damage.STALE
                why = why or (f"{evidence[0].lower()}{evidence[1:]}" if stale else f"it is damaged: {evidence}")
                if root == self.store.root:
                    self.store.quarantine_softly(found)
        return why

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

    def why_missed(self, wanted: Asked) -> str:
        """What tells a call from the nearest trace that is there."""
        from jcache.runtime.explain import why_missed

        return why_missed(self.store.root, TRACES, wanted.fingerprint.name, wanted.key, wanted.parts)

    def explain(self, wanted: Asked, refused: str | None, check: Check) -> Explanation:
        """Whether a call is served, and if not, why; nothing is changed.

        Args:
            wanted: what the call asks for.
            refused: why it could not be stored or served, as this process has seen.
            check: which starts compare.
        """
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

    def keep(self, traced: Traced, told: Compilation) -> str | None:
        """Stores what was traced and compiled; returns why not, None if it is there."""
        reason = traced.reason or told.reason
        traced.is_refused = reason is not None and not traced.build.is_passing
        if reason is None and not told.done:
            reason = "it was not compiled"
        if reason is not None:
            return reason
        if traced.header is None:
            reason = self._settle(traced, told)
        if reason is None and traced.header is not None:
            parts = parts_of_program(
                signature=told.signature,
                device=told.device_key,
                executable=told.executable_key,
                text=told.text,
                recipe=told.recipe,
            )
            reason = self._put_program(traced.header, told.artifact, parts)
        return reason

    def _settle(self, traced: Traced, told: Compilation) -> str | None:
        """Compares what was traced with the trace that is there, and stores it if it is another; returns why not."""
        trace, asked = traced.trace(told), traced.asked
        difference = None if traced.kept is None else self._difference(traced, trace, told)
        if traced.is_compared:
            observers.tell_compared(asked.fingerprint.name, asked.key, same=difference is None, why=traced.judged.new)
        if traced.kept is not None and difference is None:
            if traced.has_unfit(told):
                traced.is_refused = True
                return "its program is for other devices than those that its arguments lie on"
            traced.header = traced.kept.opened.header
            self._compared(traced, same=True)
            return None
        if difference is not None and traced.judged.is_exact:
            return self._refuse(traced, difference)
        traced.is_compared = False
        news = [text for text in (traced.judged.new, difference) if text]
        traced.why = traced.why or ": ".join(news) or self.why_missed(asked)
        return self._store(traced, trace, content_of(trace, told.text, told.signature))

    def _difference(self, traced: Traced, trace: Trace, told: Compilation) -> str | None:
        """What tells a trace from the one that is there, None if nothing does."""
        if traced.kept is None:
            return None
        found = difference(traced.kept.trace, trace)
        text = traced.kept.text(told.signature)
        if found is not None or text == told.text:
            return found
        if text is None:  # the same in this world; in another one it cannot be known
            return None if traced.judged.is_exact else "it has no program for such shardings, devices and options"
        return difference_of_programs(traced.kept.artifact(told.signature), told.artifact)

    def _refuse(self, traced: Traced, difference: str) -> str:
        """Has this world serve nothing: two starts in it gave different programs."""
        reason = f"two starts of the same program gave different results: {difference}"
        if "PYTHONHASHSEED" not in os.environ:
            reason += "; if it iterates over a set, set PYTHONHASHSEED=0"
        self.comparisons.refuse(traced.asked.key, traced.world, reason)
        name = traced.asked.fingerprint.name
        if "PYTHONHASHSEED" in os.environ and not traced.chance:
            warn_outside(
                f"`{name}`: {reason}. Something that it depends on is not seen by jcache: name it by `depends_on=`. "
                "Its trace is not served here any more; processes that it has served may have computed other results.",
                UserWarning,
            )
        return reason

    def _store(self, traced: Traced, trace: Trace, content: str) -> str | None:
        """Stores a trace, under the call's own key if that is free; returns why not, None if it is there."""
        from jcache.runtime.build_context import producers

        asked = traced.asked
        for key in (variant_key(asked.key, content), asked.key):
            there = open_softly(self.store.root, TRACES, key)
            if isinstance(there, OpenedEntry) and there.header.key_parts.get(_CONTENT) == content:
                if stale := staleness(there.header, asked.parts, self.store.root):
                    self.store.quarantine_softly(there.finding(Damage.STALE, f"{some(stale)}."))
                    break
                traced.header = there.header
                self._compared(traced, same=False)
                return None
        key = variant_key(asked.key, content) if self.store.has(asked.key) else asked.key
        sealed = seal_trace(
            trace,
            key=key,
            parts={**traced.parts, _CONTENT: content},
            seconds=traced.build.seconds,
            parents=tuple(traced.build.parents),
            producers=producers(),
        )
        traced.header = read_header(sealed)
        reason = traced.reason = self._put(key, sealed, traced.build.seconds)
        self.store.record_spent(Spent(TRACES, key, traced.build.economics))
        if reason is None:
            self._compared(traced, same=False)
        return reason

    def _compared(self, traced: Traced, *, same: bool) -> None:
        """Notes that a trace has the program of this world."""
        if traced.header is not None and traced.world.unknown is None:
            left = traced.judged.left_after(by_chance=bool(traced.chance), same=same)
            self.comparisons.add(traced.asked.key, traced.header, traced.world, left)

    def served(self, kept: Kept, replay: Replay, seconds: float | None) -> str | None:
        """Counts a trace that stood in for tracing, and stores what had to be compiled for it; returns why not.

        Args:
            kept: the trace.
            replay: of its program.
            seconds: that looking it up took; None where it was counted before.
        """
        header = kept.opened.header
        for key in kept.used:
            self.store.mark_used(key)
        if seconds is not None:
            spent = Economics(loads=1, load_seconds=seconds, spared_seconds=header.build_seconds)
            self.store.record_spent(Spent(TRACES, header.key, spent))
        if replay.compiled is None:
            return None
        return self.found(kept, replay.signature, replay.device_key, replay.compiled)

    def found(self, kept: Kept, signature: str, device: str, executable: str) -> str | None:
        """Stores which executable a trace has for one more device; returns why not."""
        parts = parts_of_program(signature=signature, device=device, executable=executable)
        return self._put_program(kept.opened.header, b"", parts)

    def _put_program(self, trace: EnvelopeHeader, artifact: bytes, parts: dict[str, str]) -> str | None:
        """Stores a program, or without an artifact what it has for one more device; returns why not."""
        from jcache.runtime.build_context import producers

        key = program_key(trace, parts["signature" if artifact else "device"])
        return self._put(key, seal_program(artifact, trace=trace, parts=parts, producers=producers()), None)

    def _put(self, key: str, data: bytes, seconds: float | None) -> str | None:
        """Stores an entry; returns why not, None if it is there."""
        outcome = self.store.put_softly(key, data, seconds)
        return f"{outcome}" if isinstance(outcome, Refusal) else None
