"""A function that is traced now, and what comes of it."""

# ruff: noqa: ANN401 - treedefs are JAX's own and have no types that last

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from jcache.errors import NotStorable
from jcache.fingerprint.describe import some
from jcache.formats.envelope import EnvelopeHeader
from jcache.jax_internals import avals
from jcache.jax_internals.compile_record import Compilation
from jcache.runtime.build_context import Build
from jcache.runtime.sealed_store import SealedStore
from jcache.runtime.worlds.judgement import Judgement
from jcache.runtime.worlds.world import World
from jcache.traces import structures
from jcache.traces.format import Trace
from jcache.traces.keys import Asked
from jcache.traces.results import OTHER_RESULT, Remade, unflattened
from jcache.traces.stored_trace import NO_PROGRAM, Kept

T = TypeVar("T")


class Traced:
    """A function that is traced now, for a call that asks for something."""

    def __init__(
        self, store: SealedStore, wanted: Asked, kept: Kept | None, why: str | None, world: World, judged: Judgement
    ) -> None:
        self.asked = wanted
        self.why = why  # it is no hit, where that is known
        self.build = Build(store.root, wanted.key, strict=True)
        self.header: EnvelopeHeader | None = None  # of its trace, once there is one
        self.kept = kept  # the trace that it is to be compared with, if there is one
        self.world = world
        self.judged = judged
        self.is_compared = kept is not None and why is None  # whether the call was traced in order to compare it
        self.reason: str | None = None  # why its trace must not be stored, None if it may
        self.is_refused = False  # whether it must not be by any process that traces it
        self.callbacks: Any = None  # recipes of what its program calls back on the host
        self.results: Sequence[Any] = ()
        self.structure: list[Any] = []

    def run(self, call: Callable[[], T]) -> T:
        result = self.build.run(call)
        self.reason = self.build.reason
        if self.reason is None and (changed := self.asked.changed()):
            self.reason = f"tracing it changes its key: {some(changed)}"
        return result

    def take(self, values: Sequence[Any], treedef: Any) -> None:
        """Takes what the function has returned, flattened; `reason` says why that is not to be stored, if it is not."""
        try:
            self.results = avals.results_of(values, self.asked.leaves)
            self.structure = structures.encode(treedef, self.asked.likes)
            if self.reason is None:
                self.reason = self._other_result(values, treedef)
        except (NotStorable, TypeError) as error:  # which JAX says in its own words of what is no array
            self.reason = self.reason or str(error)

    def _other_result(self, values: Sequence[Any], treedef: Any) -> str | None:
        """Why a result that is made of these leaves is not the same to JAX, None if it is."""
        made = unflattened(treedef, values)
        if not isinstance(made, Remade):
            return made
        same = structures.encode(made.treedef, self.asked.likes) == self.structure
        return None if same else OTHER_RESULT

    @property
    def chance(self) -> frozenset[str]:
        """What can be asked for, or was, that is another thing in each process."""
        return self.build.chance | frozenset(self.asked.fingerprint.chance)

    @property
    def parts(self) -> dict[str, str]:
        """What the trace was made from; what is in the key counts as the key has it."""
        return {**self.build.found, **self.asked.parts}

    def trace(self, told: Compilation) -> Trace:
        """Return the trace whose program has been compiled."""
        self.callbacks = told.callbacks
        return Trace(
            kept=told.kept,
            results=tuple(self.results),
            structure=self.structure,
            targets=tuple(sorted(told.targets)),
            mesh=told.mesh,
            callbacks=told.callbacks,
            effects=told.effects,
        )

    def has_unfit(self, told: Compilation) -> bool:
        """Whether the trace that is there has this very program, and yet none that could be replayed."""
        return self.why == NO_PROGRAM and self.kept is not None and self.kept.artifact(told.signature) is not None
