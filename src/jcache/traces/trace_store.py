"""The traces of a root: looking one up, storing one. What fails here costs the program nothing but time."""

from __future__ import annotations

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
from jcache.store.economics import Economics, Spent
from jcache.store.lineage import belongs_to
from jcache.traces.difference import difference_of_programs
from jcache.traces.format import TRACES, Trace, parts_of_program, program_key, seal_program, seal_trace
from jcache.traces.keys import Asked

if TYPE_CHECKING:
    from jcache.runtime.explain import Explanation
    from jcache.traces.miss import Traced

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

    def look(self, wanted: Asked) -> Kept | str | None:
        """The trace of a call if one may be served, else why not; None where there is none."""
        why = None
        for root in (self.store.root, *self.shared):
            found = self._found(root, wanted)
            if isinstance(found, Kept):
                return found
            if found is not None:
                evidence = found.evidence.rstrip(".")
                stale = found.damage is Damage.STALE
                why = why or (f"{evidence[0].lower()}{evidence[1:]}" if stale else f"it is damaged: {evidence}")
                if root == self.store.root:
                    self.store.quarantine_softly(found)
        return why

    def _found(self, root: Root, wanted: Asked) -> Kept | Finding | None:
        found = open_softly(root, TRACES, wanted.key)
        if not isinstance(found, OpenedEntry):
            return found
        if stale := staleness(found.header, wanted.parts):
            return found.finding(Damage.STALE, f"What it was traced from has changed: {some(stale)}.")
        try:
            return Kept(self.store, found, Trace.of(found.payload))
        except DamagedEntry as error:
            return found.finding(Damage.GRAMMAR, str(error))

    def why_missed(self, wanted: Asked) -> str:
        """What tells a call from the nearest trace that is there."""
        from jcache.runtime.explain import why_missed

        return why_missed(self.store.root, TRACES, wanted.fingerprint.name, wanted.key, wanted.parts)

    def explain(self, wanted: Asked, refused: str | None) -> Explanation:
        """Whether a call is served, and if not, why; nothing is changed.

        Args:
            wanted: what the call asks for.
            refused: why it could not be stored or served, as this process has seen.
        """
        from jcache.runtime.explain import Explanation, explain

        name, key = wanted.fingerprint.name, wanted.key
        if refused is not None:
            return Explanation(name=name, key=key, hit=False, reason=refused)
        root, load = self.store.root, lambda found: Trace.of(found.payload)
        return explain(root, TRACES, name, key, wanted.parts, load, self.shared)

    def keep(self, traced: Traced, told: Compilation) -> str | None:
        """Stores what was traced and compiled; returns why not, None if it is there."""
        from jcache.runtime.build_context import producers

        reason = traced.reason or told.reason
        traced.is_refused = reason is not None and not traced.build.is_passing
        if reason is None and not told.done:
            reason = "it was not compiled"
        if reason is not None:
            return reason
        traced.why = traced.why or self.why_missed(traced.asked)
        trace = traced.trace(told)
        difference = traced.difference(trace)
        if traced.compared is not None:
            difference = difference or _difference_of_texts(traced.compared, told)
            self._compared(traced, difference)
        if difference is not None:
            return f"tracing it again differs: {difference}"
        if traced.has_unfit(told):
            traced.is_refused = True
            return "its program is for other devices than those that its arguments lie on"
        sealed = b""
        if traced.header is None:
            sealed = seal_trace(
                trace,
                key=traced.asked.key,
                parts=traced.parts,
                seconds=traced.build.seconds,
                parents=tuple(traced.build.parents),
                producers=producers(),
            )
            traced.header = read_header(sealed)
        reason = self._put_program(
            traced.header,
            told.artifact,
            parts_of_program(
                signature=told.signature,
                device=told.device_key,
                executable=told.executable_key,
                text=told.text,
                recipe=told.recipe,
            ),
        )
        if sealed:
            reason = traced.reason = reason or self._put(traced.asked.key, sealed, traced.build.seconds)
            self.store.record_spent(Spent(TRACES, traced.asked.key, traced.build.economics))
            self.store.mark_used(
                program_key(traced.header, told.signature)
            )  # so that it does not look older than its trace
        return reason

    def compare_raised(self, traced: Traced, error: Exception) -> None:
        """Compares a function that raised while it was traced, where its stored trace would have been served."""
        if traced.compared is not None:
            self._compared(traced, f"it raises {type(error).__name__}")

    def _compared(self, traced: Traced, difference: str | None) -> None:
        """Tells that a stored trace was compared; if it differs it goes to quarantine.

        Warns:
            UserWarning: it is another program.
        """
        if traced.compared is None:
            return
        opened, name = traced.compared.opened, traced.asked.fingerprint.name
        observers.tell_compared(name, opened.header.key, same=difference is None)
        if difference is not None:
            evidence = f"Tracing it again differs: {difference}."
            self.store.quarantine_softly(opened.finding(Damage.STALE, evidence))
            warn_outside(
                f"Tracing `{name}` again differs from its stored trace {opened.header.key}: {difference}. Something "
                "that it depends on is not seen by jcache. This start does what was traced now. The stored trace is in "
                "quarantine, and processes that it has served may have computed other results.",
                UserWarning,
            )

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


def _difference_of_texts(kept: Kept, told: Compilation) -> str | None:
    """What tells a program from the stored one of its signature, None if nothing does or there is none."""
    if kept.text(told.signature) in {None, told.text}:
        return None
    return difference_of_programs(kept.artifact(told.signature), told.artifact)
