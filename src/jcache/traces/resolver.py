"""The function that JAX traces in place of a jitted function: it calls that function, or binds a marker instead.

`Resolver._resolve` runs only while JAX traces, so once for arguments of certain types. It looks up the key of the call.
Without a stored trace it calls the function, so that JAX traces it, and the trace is stored once JAX has compiled it.
With a stored trace it binds one operation, the marker, and `jcache.jax_internals.compile_hook` replaces the compilation
of the marker by the stored program. Where JAX compiles the trace for other devices, their executable is looked up, too.
"""

# ruff: noqa: ANN401 - what functions take and return is anything

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from jcache import clock
from jcache.errors import DamagedEntry, NotStorable, Unresolved
from jcache.fingerprint.arguments import Call
from jcache.fingerprint.depends_on import Dependency
from jcache.fingerprint.io import memos
from jcache.fingerprint.weak_map import weakly
from jcache.jax_internals import avals, jaxprs, meshes, preload, stablehlo, tracing
from jcache.jax_internals.compile_record import CannotReplay, Compilation, Replay
from jcache.jax_internals.effects import named
from jcache.jax_internals.gc_pause import collector
from jcache.runtime.dependencies import parts_here
from jcache.runtime.warn import warn_once
from jcache.runtime.worlds.judgement import Check
from jcache.traces import missed_effects, pending_call, structures
from jcache.traces.arguments import Arguments, flatten_again
from jcache.traces.call_lookup import CallLookup, LookupResult
from jcache.traces.hints import Hints
from jcache.traces.inside import Inside, jitted
from jcache.traces.keys import STATIC, Statics
from jcache.traces.pending_call import PendingCall
from jcache.traces.results import Remade, unflattened
from jcache.traces.stored_trace import NO_PROGRAM, StoredTrace

if TYPE_CHECKING:
    from jcache.traces.miss import Miss


class Resolver:
    """The resolver of the calls of one function.

    Args:
        function, options, depends_on: as for `jcache.jit`.
        check: which starts that a stored trace would serve are traced and compared.
        counts: whether further functions that request the same trace in this process have a world of their own, since
            the program may have changed meanwhile.

    Attributes:
        lookup: the look-up of the function's calls.
        jitted: what `jax.jit` makes of the resolver; it is called like the function.
        inside: the other uses of the function.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        options: Mapping[str, Any],
        check: Check = Check.FIRST,
        depends_on: tuple[Dependency, ...] = (),
        *,
        counts: bool = True,
    ) -> None:
        self._function = weakly(function)
        self.options = options
        self.depends_on = depends_on
        statics = Statics(function, *map(options.get, STATIC), keeps_unused=bool(options.get("keep_unused")))
        self.inside = Inside(function, options, statics)
        self.lookup = CallLookup(function, statics, options, check, depends_on, counts=counts)
        self.forget()

    @property
    def function(self) -> Any:
        """The function, which somebody else keeps alive, so that the resolver may live as long as the function."""
        return self._function()

    def forget(self) -> None:
        """Make JAX trace the function anew for all calls that it has traced in this process."""
        function, ours = self._function, weakref.ref(self)  # a cycle would keep alive what the function refers to

        def resolve(*args: Any, **kwargs: Any) -> Any:
            jaxprs.check()
            resolver = ours()
            return function()(*args, **kwargs) if resolver is None else resolver._resolve(args, kwargs)

        self.jitted = jitted(resolve, function(), self.options)
        self.inside.is_traced_at(self.jitted)

    def is_settled(self) -> bool:
        """Return whether this thread has no call that waits for `settle`."""
        return pending_call.current() is None

    def _resolve(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of a call while JAX traces it; the arguments are made from tracers."""
        started = clock.monotonic(), clock.thread_cpu()
        pending_call.set_current(None)
        stands_in = False
        collector.put_off()
        try:
            looked_up = self.lookup.look_up(Arguments(args, kwargs))
            if looked_up is not None:
                stored, why = looked_up.stored, looked_up.why
                if stored is not None and looked_up.may_serve:
                    made = self._stand_in(looked_up, stored, started)
                    if isinstance(made, tuple):
                        stands_in = True
                        return made[0]
                    why = made
                from jcache.traces.miss import Miss

                miss = Miss(looked_up.traces.store, looked_up.request, stored, why, looked_up.world, looked_up.judged)
                miss.cpu_seconds = clock.thread_cpu() - started[1]
                return self._trace(looked_up, miss, Arguments(args, kwargs))
        finally:
            if not stands_in:  # a call that is served goes on without collections until its executable is loaded
                collector.go_on()
        return self.inside.recorded_call(args, kwargs)

    def _stand_in(self, looked_up: LookupResult, stored: StoredTrace, started: tuple[float, float]) -> tuple[Any] | str:
        """Bind the marker, which stands for the stored program.

        The look-up began at `started`, by the clock and by this thread's CPU time.

        Returns:
            The marker's results in the structure of the function's result, in a tuple; or why they cannot be made.

        Raises:
            CannotReplay: flattening the result gives other leaves or another structure.
        """
        request, trace = looked_up.request, stored.trace
        # `replay` refers to these instead of `looked_up`, whose tracers would live as long as JAX keeps the trace
        key, traces, rough_key, vote = request.key, looked_up.traces, looked_up.rough_key, looked_up.vote

        def replay(seconds: float | None = None, ahead: preload.Preload | None = None) -> Replay:
            call = PendingCall(key, traces, seconds, rough_key)
            call.stored, call.note = stored, "" if ahead is None else ahead.note
            call.cpu_seconds = cpu_seconds
            call.replay = Replay(key, stored.executables, stored.artifact, frozenset(trace.targets), ahead, vote)
            pending_call.set_current(call, call.replay)
            return call.replay

        try:
            objects = self._made_again(looked_up, trace.objects, are_called=False)
            structure = structures.decode(trace.structure, request.likes, objects)
            results = avals.abstract(trace.results, request.leaves)
            operands = [request.leaves[i] for i in trace.kept]
            asking = meshes.constrain_to_mesh(operands, trace.mesh)
            made, effects = self._made_again(looked_up, trace.callbacks, are_called=True), named(trace.effects)
            set_again = request.fingerprint.snapshot.setter(trace.settings)
            values = stablehlo.bind_marker(request.key, asking, results, replay, made, effects)
            values = values if asking is not operands else meshes.constrain_to_mesh(values, trace.mesh)
        except (DamagedEntry, LookupError, NotStorable, Unresolved) as error:
            reason = f"its result cannot be made: {error}"
            self.lookup.refuse(reason, request.key)
            if vote is not None:
                vote.give_up()
            return reason
        seconds, cpu_seconds = clock.monotonic() - started[0], clock.thread_cpu() - started[1]
        begun = 0.0 if looked_up.ahead is None else looked_up.ahead.seconds
        replay(seconds - begun, looked_up.ahead)
        remade = unflattened(structure, values)
        if not isinstance(remade, Remade):  # JAX's trace has the marker already, so it cannot be used
            if vote is not None:
                vote.give_up()
            raise CannotReplay(remade)
        set_again()
        self.inside.note_once(looked_up.refuse if stored.sets_once else None)
        self.inside.note(memos.reads_in(parts_here(stored.opened.header, request.parts)), (), None)
        missed_effects.note(self.function, self.options, self.lookup.statics, looked_up, stored)
        return (remade.value,)

    def _trace(self, looked_up: LookupResult, miss: Miss, arguments: Arguments) -> Any:
        """Return the result of calling the function, and have its trace stored or compared once JAX has compiled it."""
        key, traces, rough_key = looked_up.request.key, looked_up.traces, looked_up.rough_key
        try:
            result, values, treedef = miss.run(lambda: self._call_function(looked_up, arguments))
        except Exception:
            raised = PendingCall(key, traces, None, rough_key)
            raised.miss = miss
            pending_call.set_current(raised)
            raise
        self.inside.note(miss.build.found, miss.build.chance, miss.build.refused)
        miss.reason = miss.reason or self.inside.note_once(looked_up.refuse if miss.sets_once else None)
        miss.take(values, treedef, partial(self._recipes, looked_up))
        place = None if miss.reason is not None else tracing.first_computed(values, miss.request.leaves)
        miss.request = miss.request._replace(leaves=[], likes=[], changed=list)  # JAX keeps `note_lowered`
        keep = self._callback_writer(looked_up)
        told = False

        def note_lowered(module: Any = None) -> None:
            nonlocal told
            call = PendingCall(key, traces, None if told else miss.build.seconds, rough_key)
            told = True
            call.miss, call.compilation = miss, Compilation(module, keep=keep)
            pending_call.set_current(call, call.compilation)

        if place is None:
            note_lowered()
            return result
        values[place] = stablehlo.bind_witness(values[place], note_lowered)
        made = unflattened(treedef, values)
        return made.value if isinstance(made, Remade) else result

    def _callback_writer(self, looked_up: LookupResult) -> Callable[[Sequence[Any]], Any]:
        """Return a function that writes the recipes of callbacks; it does not keep the jitted function alive."""
        ours, static = weakref.ref(self), self._static_arguments(looked_up)

        def keep(found: Sequence[Any]) -> Any:
            from jcache.traces import callbacks

            resolver = ours()
            if resolver is None:
                raise NotStorable("it calls back to the host")
            return callbacks.write(found, Call(resolver.function, *static))

        return keep

    def _static_arguments(self, looked_up: LookupResult) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a call, with None in place of those that are not static."""
        return self.lookup.statics.replaced(looked_up.given.args, looked_up.given.kwargs, lambda *_: None)

    def _made_again(self, looked_up: LookupResult, recipes: Any, *, are_called: bool) -> list[Any]:
        """Return the callbacks of a stored trace, or the objects in its result; raise `Unresolved` if that fails."""
        if recipes is None:
            return []
        import jax

        from jcache.traces import callbacks

        read = callbacks.read if are_called else callbacks.read_objects
        with jax.ensure_compile_time_eval():
            return read(recipes, Call(self.function, *self._static_arguments(looked_up)))

    def _recipes(self, looked_up: LookupResult, objects: Sequence[Any]) -> Any:
        """Return the recipes of objects in a result."""
        from jcache.traces import callbacks

        return callbacks.write_objects(objects, Call(self.function, *self._static_arguments(looked_up)))

    def _call_function(self, looked_up: LookupResult, arguments: Arguments) -> tuple[Any, list[Any], Any]:
        """Call the function; return its result, the leaves and the treedef. What flattening reads is recorded, too."""
        from jax.tree_util import tree_flatten

        result = self.inside.call(arguments.args, arguments.kwargs)
        values, treedef = tree_flatten(result)
        with suppress(Exception):  # errors of the program's classes, which JAX has met already
            flatten_again(self.lookup.statics, looked_up.given, looked_up.request.leaves)
        return result, values, treedef

    def settle(self) -> tuple[PendingCall | None, str | None]:
        """Store or count this thread's call, and report its outcome.

        Returns:
            The call, None if there is none; and the reason why its trace is not stored, None if it is.
        """
        collector.go_on()
        call = pending_call.current()
        pending_call.set_current(None)
        if call is None:
            return None, None
        try:
            reason = call.keep()
        except Exception as error:  # noqa: BLE001 - the program has its result in spite of any error
            reason = f"it cannot be kept: {error!r}"
            warn_once(("trace", type(error)), f"jcache cannot keep the trace of `{self.lookup.name}`: {error!r}.")
        if reason is not None and call.miss is not None:
            self.lookup.refuse(reason, call.key, call.rough_key)
            if call.miss.is_refused:
                Hints(call.traces.store.root).refuse(call.key, reason)
        call.say(self.lookup.name, reason)
        return call, reason

    def may_trace_instead(self, error: BaseException, arguments: Any) -> bool:
        """Return whether a call that raised may be made again: its replay failed before its program ran."""
        from jax.tree_util import tree_leaves

        collector.go_on()
        call = pending_call.current()
        if call is not None and call.has_called_back:  # the callback may have raised this error, as under `jax.jit`
            self.settle()
            return False
        pending_call.set_current(None)
        if call is not None and (call.compilation or call.replay):
            self.forget()  # JAX may compile later what it has lowered now, and jcache would not learn of it
        if call is None or call.replay is None or not isinstance(error, Exception) or not tracing.is_of_jax(error):
            return False
        may_have_run = not isinstance(error, CannotReplay)
        if may_have_run and any(getattr(leaf, "is_deleted", bool)() for leaf in tree_leaves(arguments)):
            return False
        reason = str(error) if isinstance(error, CannotReplay) else f"its program cannot be replayed here: {error!r}"
        self.lookup.unserved[call.key] = reason or NO_PROGRAM
        if reason:
            self.lookup.refuse(reason, call.key)
        return True
