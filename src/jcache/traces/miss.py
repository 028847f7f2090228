"""The state of a call that is traced, from its look-up until its trace is stored or compared."""

# ruff: noqa: ANN401 - treedefs belong to JAX and have no stable types

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from jcache.errors import NotStorable
from jcache.fingerprint import chance
from jcache.fingerprint.describe import some
from jcache.fingerprint.restored import are_once
from jcache.formats.envelope import EnvelopeHeader
from jcache.jax_internals import avals
from jcache.jax_internals.compile_record import Compilation
from jcache.runtime.build_context import Build
from jcache.runtime.sealed_store import SealedStore
from jcache.runtime.worlds.judgement import Judgement
from jcache.runtime.worlds.world import World
from jcache.traces import structures
from jcache.traces.format import Trace
from jcache.traces.keys import TraceRequest
from jcache.traces.results import OTHER_RESULT, Remade, unflattened
from jcache.traces.stored_trace import StoredTrace

T = TypeVar("T")


class Miss:
    """A call that is traced, because no stored trace serves it or because the stored one is to be compared.

    Args:
        store: the store for its trace.
        request: the request of the call.
        stored: the stored trace to compare with; None if there is none.
        why: the reason why the call is no hit; None if it is traced in order to compare, or no reason is known.
        world: the world of the call.
        judged: what is known about the call in this world.

    Attributes:
        request, stored, why, world, judged: as given.
        build: the record of what tracing depends on.
        header: the header of its entry, or of the stored trace that is the same; None until then.
        is_compared: whether the call is traced in order to compare it.
        reason: the reason why its trace must not be stored; None if it may be.
        is_refused: whether no other process can store the trace either.
        callbacks: the recipes of its program's callbacks on the host.
        results: the types of its flat results.
        structure: the structure of its result as JSON.
        objects: the recipes of objects in it.
        is_seeded: whether the program has seeded a random generator of the process.
        cpu_seconds: the CPU time of its look-up.
    """

    def __init__(
        self,
        store: SealedStore,
        request: TraceRequest,
        stored: StoredTrace | None,
        why: str | None,
        world: World,
        judged: Judgement,
    ) -> None:
        self.request = request
        self.why = why
        self.build = Build(store.root, request.key, strict=True)
        self.header: EnvelopeHeader | None = None
        self.stored = stored
        self.world = world
        self.judged = judged
        self.is_compared = stored is not None and why is None
        self.reason: str | None = None
        self.is_refused = False
        self.cpu_seconds = 0.0
        self.callbacks: Any = None
        self.results: Sequence[Any] = ()
        self.structure: list[Any] = []
        self.objects: Any = None
        self.is_seeded = False

    def run(self, call: Callable[[], T]) -> T:
        """Call the function, record what it depends on, and return its result."""
        result = self.build.run(call)
        self.reason = self.build.reason
        if self.reason is None and (changed := self.request.changed()):
            self.reason = f"tracing it changes its key: {some(changed)}"
        return result

    def take(self, values: Sequence[Any], treedef: Any, keep: Callable[[Sequence[Any]], Any]) -> None:
        """Set types and structure of the result; if they cannot be stored, set the reason.

        Args:
            values: the leaves.
            treedef: the structure.
            keep: returns the recipes of objects that the structure has.
        """
        try:
            self.results = avals.results_of(values, self.request.leaves)
            objects = list[Any]()
            self.structure = structures.encode(treedef, self.request.likes, objects)
            self.objects = self._recipes(objects, treedef, keep) if objects else None
            if self.reason is None:
                self.reason = self._other_result(values, treedef)
        except (NotStorable, TypeError) as error:  # JAX raises TypeError for a leaf that is no array
            self.reason = self.reason or str(error)

    def _recipes(self, objects: list[Any], treedef: Any, keep: Callable[[Sequence[Any]], Any]) -> Any:
        """Return the recipes of objects; raise `NotStorable`, which names the first of them, if they cannot be kept."""
        try:
            return keep(objects)
        except NotStorable as error:
            structures.encode(treedef, self.request.likes, why=f", and {error}")  # it names the object, and raises
            raise

    def _other_result(self, values: Sequence[Any], treedef: Any) -> str | None:
        """Return why a result that is unflattened from its leaves is another one to JAX; None if it is the same."""
        made = unflattened(treedef, values)
        if not isinstance(made, Remade):
            return made
        same = structures.encode(made.treedef, self.request.likes, []) == self.structure
        return None if same else OTHER_RESULT

    @property
    def chance(self) -> frozenset[str]:
        """Values that differ in each process, such as random numbers, which the function has used or could use."""
        return self.build.chance | frozenset(self.request.fingerprint.chance)

    @property
    def _drawn(self) -> list[list[Any]]:
        return self.request.fingerprint.snapshot.sets.generators.drawn()

    @property
    def sets_once(self) -> bool:
        """Whether a further trace in this process would set something else than this one."""
        return bool(self._drawn) or are_once(self.request.fingerprint.snapshot.sets.settings)

    @property
    def is_drawn_alike(self) -> bool:
        """Whether the call has drawn from a random generator of the process that had this state in another start."""
        return bool(self._drawn) and self.judged.has_same_state

    @property
    def sets_states(self) -> bool:
        """Whether the trace has the states in which the call leaves random generators of the process.

        It has if the function itself has seeded one, or if another start with these states has given the same program:
        then the program has seeded it.
        """
        settings = self.stored.trace.settings if self.stored is not None else None
        has_states = any(each[0].startswith(chance.STATE_OF) for each in settings or ())
        return bool(self._drawn) and (self.is_seeded or has_states or chance.are_seeds(self.chance))

    @property
    def is_repeatable(self) -> bool:
        """Whether nothing but the states that the trace has differs between processes."""
        return self.sets_states and chance.are_draws(self.chance)

    @property
    def parts(self) -> dict[str, str]:
        """Everything that the trace was made from; a part of the key has the value that it has in the key."""
        return {**self.build.found, **self.request.parts}

    def trace(self, compilation: Compilation) -> Trace:
        """Return the trace of a program that was compiled."""
        self.callbacks = compilation.callbacks
        settings = self.request.fingerprint.snapshot.sets.settings + (self._drawn if self.sets_states else [])
        return Trace(
            kept=compilation.kept,
            results=tuple(self.results),
            structure=self.structure,
            targets=tuple(sorted(compilation.targets)),
            mesh=compilation.mesh,
            callbacks=compilation.callbacks,
            effects=compilation.effects,
            objects=self.objects,
            settings=settings or None,
        )
