"""Storing the trace of a call, or comparing it with the one that is there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from jcache.findings import Damage
from jcache.fingerprint.describe import some
from jcache.formats.envelope import EnvelopeHeader, read_header
from jcache.jax_internals.compile_record import Compilation, Replay
from jcache.runs import observers
from jcache.runtime.build_context import producers
from jcache.runtime.events import Refusal
from jcache.runtime.sealed_store import OpenedEntry, SealedStore, open_softly, staleness
from jcache.runtime.warn import warn_outside
from jcache.runtime.worlds.comparisons import Comparisons, variant_key
from jcache.store.economics import Economics, Spent
from jcache.store.lineage import version_of
from jcache.traces.difference import difference, difference_of_programs
from jcache.traces.format import TRACES, Trace, content_of, program_key, seal_entry
from jcache.traces.stored_trace import Kept

if TYPE_CHECKING:
    from jcache.traces.miss import Traced

_CONTENT: Final = "content"  # the part of a trace by which it is compared


class TraceKeeping:
    """Stores traces in a root, and notes what was compared."""

    def __init__(self, store: SealedStore, comparisons: Comparisons) -> None:
        self._store = store
        self._comparisons = comparisons

    def keep(self, traced: Traced, told: Compilation) -> str | None:
        """Store what was traced and compiled; return why not, None if it is there."""
        reason = traced.reason or told.reason
        traced.is_refused = reason is not None and not traced.build.is_passing
        if reason is None and not told.done:
            reason = "it was not compiled"
        if reason is not None:
            return reason
        if traced.header is None:
            reason = self._settle(traced, told)
        elif told.callbacks != traced.callbacks:  # as JAX lowers it for other devices
            return "it calls back to the host otherwise than before"
        if reason is None and traced.header is not None and not _is_there(traced, told):
            executable, more = told.executable_key, {"text": told.text, "recipe": told.recipe}
            reason = self._put_program(
                traced.header, told.signature, told.device_key, executable, told.artifact, **more
            )
        return reason

    def _settle(self, traced: Traced, told: Compilation) -> str | None:
        """Compare what was traced with the trace that is there, and store it if it is another; return why not."""
        trace, asked = traced.trace(told), traced.asked
        difference = self._difference(traced, trace, told)
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
        if (why := traced.why or ": ".join(news)) == "":
            from jcache.runtime.explain import why_missed

            why = why_missed(self._store.root, TRACES, asked.fingerprint.name, asked.key, asked.parts)
        traced.why = why
        return self._add(traced, trace, content_of(trace, told.text, told.signature))

    def _difference(self, traced: Traced, trace: Trace, told: Compilation) -> str | None:
        """Return what tells a trace from the one that is there, None if nothing does."""
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
        """Have this world serve nothing: two starts in it gave different programs."""
        reason = f"two starts of the same program gave different results: {difference}"
        if "PYTHONHASHSEED" not in os.environ:
            reason += "; if it iterates over a set, set PYTHONHASHSEED=0"
        self._comparisons.refuse(traced.asked.key, traced.world, reason)
        name = traced.asked.fingerprint.name
        if "PYTHONHASHSEED" in os.environ and not traced.chance:
            warn_outside(
                f"`{name}`: {reason}. Something that it depends on is not seen by jcache: name it by `depends_on=`. "
                "Its trace is not served here any more; processes that it has served may have computed other results.",
                UserWarning,
            )
        return reason

    def _add(self, traced: Traced, trace: Trace, content: str) -> str | None:
        """Store a trace, under the call's own key if that is free; return why not, None if it is there."""
        asked = traced.asked
        for key in (variant_key(asked.key, content), asked.key):
            there = open_softly(self._store.root, TRACES, key)
            if isinstance(there, OpenedEntry) and there.header.key_parts.get(_CONTENT) == content:
                if stale := staleness(there.header, asked.parts, self._store.root):
                    self._store.quarantine_softly(there.finding(Damage.STALE, f"{some(stale)}."))
                    break
                traced.header = there.header
                self._compared(traced, same=False)
                return None
        key = variant_key(asked.key, content) if self._store.has(asked.key) else asked.key
        sealed = seal_entry(
            trace.payload(),
            key,
            parts={**traced.parts, _CONTENT: content},
            parents=tuple(traced.build.parents),
            producers=producers(),
            seconds=traced.build.seconds,
        )
        traced.header = read_header(sealed)
        reason = traced.reason = self._put(key, sealed, traced.build.seconds)
        self._store.record_spent(Spent(TRACES, key, traced.build.economics))
        if reason is None:
            self._compared(traced, same=False)
        return reason

    def _compared(self, traced: Traced, *, same: bool) -> None:
        """Note that a trace has the program of this world."""
        if traced.header is not None and traced.world.unknown is None:
            left = traced.judged.left_after(by_chance=bool(traced.chance), same=same)
            self._comparisons.add(traced.asked.key, traced.header, traced.world, left)

    def served(self, kept: Kept, replay: Replay, seconds: float | None) -> str | None:
        """Count a trace that stood in for tracing, and store what had to be compiled for it; return why not.

        The seconds that looking it up took are None where it was counted before.
        """
        header = kept.opened.header
        for key in kept.used:
            self._store.mark_used(key)
        if seconds is not None:
            spent = Economics(loads=1, load_seconds=seconds, spared_seconds=header.build_seconds)
            self._store.record_spent(Spent(TRACES, header.key, spent))
        if replay.compiled is None:
            return None
        return self.found(kept, replay.signature, replay.device_key, replay.compiled)

    def found(self, kept: Kept, signature: str, device: str, executable: str) -> str | None:
        """Store which executable a trace has for one more device; return why not."""
        return self._put_program(kept.opened.header, signature, device, executable)

    def _put_program(
        self,
        trace: EnvelopeHeader,
        signature: str,
        device: str,
        executable: str | None,
        artifact: bytes = b"",
        **more: str,
    ) -> str | None:
        """Store a program, or without an artifact what it has for one more device; return why not."""
        found = {} if executable is None else {"executable": executable}
        parts = {"trace": version_of(trace), "signature": signature, "device": device, **found, **more}
        key = program_key(trace, signature if artifact else device)
        data = seal_entry(artifact, key, parts=parts, parents=(trace.key,), producers=producers())
        return self._put(key, data, None)

    def _put(self, key: str, data: bytes, seconds: float | None) -> str | None:
        """Store an entry; return why not, None if it is there."""
        outcome = self._store.put_softly(key, data, seconds)
        return f"{outcome}" if isinstance(outcome, Refusal) else None


def _is_there(traced: Traced, told: Compilation) -> bool:
    """Return whether the trace that it was compared with has the executable, perhaps in a shared root."""
    kept = traced.kept
    if kept is None or traced.header is not kept.opened.header:
        return False
    return told.executable_key in tuple(kept.executables(told.signature, told.device_key))
