"""Store the trace of a call, or compare it with a stored one."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from jcache.findings import Damage
from jcache.fingerprint import chance
from jcache.fingerprint.describe import some
from jcache.formats.envelope import EnvelopeHeader, read_header
from jcache.jax_internals.compile_record import Compilation, Replay
from jcache.runs import observers
from jcache.runtime import side_effects
from jcache.runtime.dependencies import other_reads, reads_other_files, staleness, variants
from jcache.runtime.events import Refusal
from jcache.runtime.sealed_store import OpenedEntry, SealedStore, open_softly
from jcache.runtime.warn import warn_outside
from jcache.runtime.worlds.comparisons import Comparisons
from jcache.runtime.worlds.judgement import OTHER_FILES, SEEDED
from jcache.store.economics import Economics, Spent
from jcache.store.lineage import version_of
from jcache.store.put_result import Outcome
from jcache.traces.difference import difference, difference_of_programs
from jcache.traces.format import TRACES, Trace, content_of, program_key, seal_entry
from jcache.traces.stored_trace import CONTENT, NO_PROGRAM, StoredTrace

if TYPE_CHECKING:
    from jcache.runtime.worlds.world import World
    from jcache.traces.miss import Miss

_SEEDED: Final = "it draws from a random generator that the program has seeded, whose state is stored now, too"
_NOT_FIRST: Final = "only the first process of the program stores traces"


class TraceKeeping:
    """The storage of traces in a root, and of the results of comparisons.

    Args:
        store: the store of the root.
        comparisons: its comparisons.
        may_write: returns whether this process of the program stores traces.
    """

    def __init__(self, store: SealedStore, comparisons: Comparisons, may_write: Callable[[], bool]) -> None:
        self._store = store
        self._comparisons = comparisons
        self._may_write = may_write

    def keep(self, miss: Miss, compilation: Compilation) -> str | None:
        """Store or compare a trace that was compiled, and store its program.

        Returns:
            The reason why trace or program is not stored; None if both are.
        """
        reason = miss.reason or compilation.reason
        miss.is_refused = reason is not None and not miss.build.is_temporary
        if reason is None and not compilation.done:
            reason = "it was not compiled"
        if reason is not None:
            return reason
        if miss.header is None:
            reason = self._settle(miss, compilation)
        elif compilation.callbacks != miss.callbacks:  # JAX has lowered it once more, for other devices
            return "it calls back to the host otherwise than before"
        if reason is None and miss.header is not None and not _is_known_executable(miss, compilation):
            executable, more = compilation.executable_key, {"text": compilation.text, "recipe": compilation.recipe}
            reason = self.put_program(
                miss.header, compilation.signature, compilation.device_key, executable, compilation.artifact, **more
            )
        return reason

    def refuse(self, key: str, world: World, reason: str) -> None:
        """Have the trace of a key not served in a world any more."""
        self._comparisons.refuse(key, world, reason)

    def _settle(self, miss: Miss, compilation: Compilation) -> str | None:
        """Compare a trace with the stored one, and store it if they differ. Return why not, None if it is."""
        trace, request = miss.trace(compilation), miss.request
        difference = self._difference(miss, trace, compilation)
        if miss.is_compared:
            observers.tell_compared(
                request.fingerprint.name, request.key, same=difference is None, why=miss.judged.reason_now()
            )
        if miss.stored is not None and difference is None:
            if miss.why == NO_PROGRAM and miss.stored.artifact(compilation.signature) is not None:
                miss.is_refused = True
                return "its program is for other devices than those that its arguments lie on"
            miss.header = miss.stored.opened.header
            if miss.sets_states or not miss.is_drawn_alike:
                self._compared(miss, same=True)
                return None
            if request.fingerprint.snapshot.reaches_jitted:
                self._comparisons.refuse(request.key, miss.world, SEEDED)
                return SEEDED
            miss.is_seeded, miss.why = True, _SEEDED
            trace = miss.trace(compilation)
        if difference is not None and miss.judged.is_exact:
            return self._refuse(miss, difference)
        miss.is_compared = False
        news = [text for text in (miss.judged.new, difference) if text]
        if (why := miss.why or ": ".join(news)) == "":
            from jcache.runtime.explain import why_missed

            why = why_missed(self._store.root, TRACES, request.fingerprint.name, request.key, request.parts)
        miss.why = why
        return self._add(miss, trace, content_of(trace, compilation.text, compilation.signature))

    def _difference(self, miss: Miss, trace: Trace, compilation: Compilation) -> str | None:
        """Return the difference between a trace and the stored one in words; None if there is none."""
        if miss.stored is None:
            return None
        found = difference(miss.stored.trace, trace, seconds=miss.build.seconds * chance.are_times(miss.chance))
        text = miss.stored.text(compilation.signature)
        if found is None and (miss.chance or not miss.judged.is_exact):
            others = other_reads(miss.stored.opened.header, miss.request.parts, miss.build.found)
            found = f"it reads {some(others)}" if others else None
        if found is not None or text == compilation.text:
            return found
        if text is None:  # no program to compare: the same if the trace was compared in this very world
            return None if miss.judged.is_exact else "it has no program for such shardings, devices and options"
        return difference_of_programs(miss.stored.artifact(compilation.signature), compilation.artifact)

    def _refuse(self, miss: Miss, difference: str) -> str:
        """Have nothing served in this world any more, since two starts gave different programs; return this reason."""
        reason = f"two starts of the same program gave different results: {difference}"
        if "PYTHONHASHSEED" not in os.environ:
            reason += "; if it iterates over a set, set PYTHONHASHSEED=0"
        self._comparisons.refuse(miss.request.key, miss.world, reason)
        name = miss.request.fingerprint.name
        if "PYTHONHASHSEED" in os.environ and not miss.chance:
            warn_outside(
                f"`{name}`: {reason}. Something that it depends on is not seen by jcache: name it by `depends_on=`. "
                "Its trace is not served here any more; processes that it has served may have computed other results.",
                UserWarning,
            )
        return reason

    def _add(self, miss: Miss, trace: Trace, content: str, tries: int = 3) -> str | None:
        """Store a trace under the key of the call, or under a key of its own if another trace has that key.

        Args:
            miss: the state of the call.
            trace: the trace.
            content: the digest of `content_of`.
            tries: how often to begin anew when another thread or process stores a trace under the key meanwhile.

        Returns:
            The reason why it is not stored; None if it is, or was before.
        """
        request = miss.request
        keys = variants(request.key, content, miss.build.found)
        for key in reversed(keys):
            there = open_softly(self._store.root, TRACES, key)
            if not isinstance(there, OpenedEntry) or other_reads(there.header, request.parts, miss.build.found):
                continue
            if there.header.key_parts.get(CONTENT) == content:
                if stale := staleness(there.header, request.parts, self._store.root):
                    self._store.quarantine_softly(there.finding(Damage.STALE, f"{some(stale)}."))
                    break
                miss.header = there.header
                self._compared(miss, same=False)
                return None
        if not self._may_write():
            return _NOT_FIRST
        entries = self._comparisons.entries(request.key)
        if reads_other_files(self._store.root, TRACES, entries, content, lambda one: one.key_parts.get(CONTENT)):
            self._comparisons.refuse(request.key, miss.world, OTHER_FILES)
            return f"{OTHER_FILES}: name what it reads by `depends_on=`"
        key = next((each for each in keys if not self._store.has(each)), keys[-1])
        effects = request.fingerprint.snapshot.effects.as_text()
        sealed = seal_entry(
            trace.payload(),
            key,
            parts={**miss.parts, CONTENT: content, **({side_effects.LABEL: effects} if effects else {})},
            parents=tuple(miss.build.parents),
            seconds=miss.build.seconds,
        )
        outcome = self._store.put_softly(key, sealed, miss.build.seconds)
        if outcome is Outcome.PRESENT and tries > 1:  # another thread or process has stored one of this key meanwhile
            return self._add(miss, trace, content, tries - 1)
        miss.header = read_header(sealed)
        reason = miss.reason = f"{outcome}" if isinstance(outcome, Refusal) else None
        self._store.record_spent(Spent(TRACES, key, miss.build.economics))
        if reason is None:
            self._compared(miss, same=False)
        return reason

    def _compared(self, miss: Miss, *, same: bool) -> None:
        """Note that this world has the program of the trace.

        Args:
            miss: the state of the call.
            same: whether this start has found the stored trace to be the same.
        """
        if miss.header is not None and miss.world.unknown is None:
            left = miss.judged.left_after(by_chance=bool(miss.chance), same=same)
            is_known = miss.is_repeatable and (same or miss.is_seeded)
            self._comparisons.add(miss.request.key, miss.header, miss.world, 0 if is_known else left)

    def served(self, stored: StoredTrace, replay: Replay, seconds: float | None) -> str | None:
        """Count a hit; if an executable had to be compiled for it, store which.

        Args:
            stored: the trace that was served.
            replay: its replay.
            seconds: the time of the look-up; None if the hit was counted before.

        Returns:
            The reason why the executable is not stored; None if it is.
        """
        header = stored.opened.header
        for key in stored.used:
            self._store.mark_used(key)
        if seconds is not None:
            spent = Economics(loads=1, load_seconds=seconds, spared_seconds=header.build_seconds)
            self._store.record_spent(Spent(TRACES, header.key, spent))
        if replay.compiled is None:
            return None
        return self.put_program(header, replay.signature, replay.device_key, replay.compiled)

    def put_program(
        self,
        trace: EnvelopeHeader,
        signature: str,
        device: str,
        executable: str | None,
        artifact: bytes = b"",
        **more: str,
    ) -> str | None:
        """Store a program; without an artifact, store the name of an executable for one more device.

        Args:
            trace: the header of the trace.
            signature: the signature of the program.
            device: the device digest.
            executable: the executable's key in JAX's cache; None if the cache was not used.
            artifact: the portable artifact.
            more: further key parts.

        Returns:
            The reason why it is not stored; None if it is.
        """
        found = {} if executable is None else {"executable": executable}
        parts = {"trace": version_of(trace), "signature": signature, "device": device, **found, **more}
        key = program_key(trace, signature if artifact else device)
        data = seal_entry(artifact, key, parts=parts, parents=(trace.key,))
        return self._put(key, data, None)

    def _put(self, key: str, data: bytes, seconds: float | None) -> str | None:
        """Store an entry; return the reason if it is not stored."""
        if not self._may_write():
            return _NOT_FIRST
        outcome = self._store.put_softly(key, data, seconds)
        return f"{outcome}" if isinstance(outcome, Refusal) else None


def _is_known_executable(miss: Miss, compilation: Compilation) -> bool:
    """Return whether the stored trace that was found the same has the executable, perhaps in a shared root."""
    stored = miss.stored
    if stored is None or miss.header is not stored.opened.header:
        return False
    return compilation.executable_key in tuple(stored.executables(compilation.signature, compilation.device_key))
