"""The traces of a root: looking one up, storing one. What fails here costs the program nothing but time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from jcache._replay import Compilation, Replay
from jcache.building import Build, producers, staleness
from jcache.counts import Refusal, refusal_of
from jcache.economics import Economics, Spent
from jcache.errors import DamagedEntry, JcacheError
from jcache.explanation import Explanation, nearest
from jcache.findings import Damage, Finding
from jcache.once import warn_once
from jcache.sealed_store import Opened, SealedStore, open_entry
from jcache.store import Outcome
from jcache.trace_entries import TRACES, Trace, program_key, seal_program, seal_trace
from jcache.trace_keys import Asked
from jcache.units import format_seconds

T = TypeVar("T")


class Kept:
    """A trace that is served.

    Attributes:
        trace: what it says.
        opened: its entry.
    """

    def __init__(self, store: SealedStore, opened: Opened, trace: Trace) -> None:
        self.trace = trace
        self.opened = opened
        self._store = store
        self._programs: dict[str, Opened] = {}

    def executable(self, signature: str, device: str) -> str | None:
        """The key in JAX's cache of the executable for a signature and a device."""
        for of in (signature, device):
            program = self._program(of)
            if program is not None and program.header.key_parts.get("device") == device:
                return program.header.key_parts.get("executable")
        return None

    def artifact(self, signature: str) -> bytes | None:
        """The StableHLO of a signature."""
        program = self._program(signature)
        return None if program is None else bytes(program.payload)

    def _program(self, of: str) -> Opened | None:
        """A program of this trace; what is damaged goes to quarantine."""
        if of not in self._programs:
            found = open_entry(self._store.root, TRACES, program_key(self.opened.header.key, of))
            if isinstance(found, Finding):
                self._store.set_aside(found)
            elif found is not None and found.header.parents == (self.opened.header.key,):
                self._programs[of] = found
        return self._programs.get(of)


class Traced:
    """A function that is traced now.

    Attributes:
        reason: why its trace must not be stored, None if it may.
    """

    def __init__(self, store: SealedStore, wanted: Asked) -> None:
        self.asked = wanted
        self.build = Build(store.root.path, wanted.key, strict=True)
        self.reason: str | None = None
        self.results: Sequence[Any] = ()
        self.structure: list[Any] = []

    def run(self, call: Callable[[], T]) -> T:
        """Calls the function, whose exceptions pass."""
        result = self.build.run(call, self.asked.fingerprint)
        self.reason = self.build.reason
        return result

    @property
    def parts(self) -> dict[str, str]:
        """What the trace was made from; what is in the key counts as the key has it."""
        return {**self.build.found, **self.asked.parts}


class Shelf:
    """The traces of a root.

    Args:
        store: of the root.
    """

    def __init__(self, store: SealedStore) -> None:
        self.store = store

    def look(self, wanted: Asked) -> Kept | None:
        """The trace of a call, if one may be served."""
        found = open_entry(self.store.root, TRACES, wanted.key)
        if isinstance(found, Opened):
            stale = staleness(found.header, wanted.parts)
            if stale:
                found = found.finding(Damage.STALE, f"It was traced from something else: {'; '.join(stale)}.")
            else:
                try:
                    return Kept(self.store, found, Trace.of(found.payload))
                except DamagedEntry as error:
                    found = found.finding(Damage.GRAMMAR, str(error))
        if isinstance(found, Finding):
            self.set_aside(found)
        return None

    def explain(self, wanted: Asked, refused: str | None) -> Explanation:
        """Whether a call is served, and if not, why; nothing is changed.

        Args:
            wanted: what the call asks for.
            refused: why it could not be stored, as this process has seen.
        """
        name, key, root = wanted.fingerprint.name, wanted.key, self.store.root
        found = open_entry(root, TRACES, key)
        if isinstance(found, Finding):
            return Explanation(name=name, key=key, hit=False, reason=f"it is damaged: {found.evidence}")
        if found is None:
            if refused is not None:
                return Explanation(name=name, key=key, hit=False, reason=refused)
            return nearest(root, TRACES, name, key, wanted.parts)
        if stale := staleness(found.header, wanted.parts):
            reason = "what it was traced from has changed:"
            return Explanation(name=name, key=key, hit=False, reason=reason, nearest=key, changes=tuple(stale))
        reason = f"from {root.path}, traced in {format_seconds(found.header.build_seconds)}"
        return Explanation(name=name, key=key, hit=refused is None, reason=refused or reason)

    def keep(self, traced: Traced, told: Compilation) -> str | None:
        """Stores what was traced and compiled; returns why not, None if it is there."""
        reason = traced.reason or told.reason
        if reason is None and not told.done:
            reason = "it was not compiled"
        if reason is not None:
            return reason
        build, key = traced.build, traced.asked.key
        made_by = producers()
        trace = Trace(
            kept=told.kept,
            results=tuple(traced.results),
            structure=traced.structure,
            targets=tuple(sorted(told.targets)),
            text=told.text,
        )
        program = seal_program(
            told.artifact,
            trace=key,
            signature=told.signature,
            device=told.device_key,
            executable=told.executable_key,
            producers=made_by,
        )
        sealed = seal_trace(
            trace, key=key, parts=traced.parts, seconds=build.seconds, parents=tuple(build.parents), producers=made_by
        )
        reason = self._put(program_key(key, told.signature), program, None) or self._put(key, sealed, build.seconds)
        self.store.spent(Spent(TRACES, key, build.economics))
        return reason

    def served(self, kept: Kept, replay: Replay, seconds: float) -> None:
        """Counts a trace that stood in for tracing, and stores what had to be compiled for it."""
        key = kept.opened.header.key
        self.store.used(key)
        self.store.used(program_key(key, replay.signature))
        spared = kept.opened.header.build_seconds
        self.store.spent(Spent(TRACES, key, Economics(loads=1, load_seconds=seconds, spared_seconds=spared)))
        if replay.compiled is not None:
            entry = seal_program(
                b"",
                trace=key,
                signature=replay.signature,
                device=replay.device_key,
                executable=replay.compiled,
                producers=producers(),
            )
            self._put(program_key(key, replay.device_key), entry, None)

    def _put(self, key: str, data: bytes, seconds: float | None) -> str | None:
        """Stores an entry; returns why not, None if it is there."""
        try:
            outcome = self.store.put(key, data, seconds)
        except (OSError, JcacheError) as error:
            refusal = refusal_of(error)
            warn_once((refusal, self.store.root.path), f"jcache cannot store {key}: {error}")
            return refusal
        return f"it is {Refusal.TOO_LARGE}" if outcome is Outcome.TOO_LARGE else None

    def set_aside(self, finding: Finding) -> None:
        """Takes what may not be served out of the way, softly."""
        try:
            self.store.set_aside(finding)
        except (OSError, JcacheError) as error:
            about = f"{finding.key} in {finding.path.parent} may not be served ({finding.evidence.rstrip('.')})"
            warn_once(("set aside", self.store.root.path), f"{about}, and stays there: {error}")
