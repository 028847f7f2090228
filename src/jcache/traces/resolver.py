"""What JAX traces in the place of a function: the function itself, or one operation that stands for all that is known.

`Resolver._resolve` runs only while JAX traces, so once for arguments of certain types. There the call's key is looked
up, and either the function is traced as ever, to be stored once it is compiled, or its stored trace stands in
(`jcache.jax_internals.compile_hook`). JAX may lower and compile what it has traced again, for other devices and
shardings: then what is known of these is looked up again as well.
"""

# ruff: noqa: ANN401 - what functions take and return is anything

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final

from jcache import clock
from jcache.errors import DamagedEntry, NotStorable, Unresolved
from jcache.fingerprint.depends_on import Dependency
from jcache.fingerprint.io import memos
from jcache.jax_internals import avals, meshes, preload, stablehlo, tracing
from jcache.jax_internals.compile_record import CannotReplay, Compilation, Replay
from jcache.jax_internals.effects import named
from jcache.jax_internals.gc_pause import collector
from jcache.runtime.warn import warn_once
from jcache.runtime.worlds.judgement import Check
from jcache.traces import pending_call, structures
from jcache.traces.arguments import Given, flatten_again
from jcache.traces.call_lookup import CallLookup, Looked
from jcache.traces.hints import Verdicts
from jcache.traces.keys import Statics
from jcache.traces.pending_call import Call
from jcache.traces.results import Remade, unflattened
from jcache.traces.stored_trace import NO_PROGRAM, Kept

if TYPE_CHECKING:
    from jcache.traces.format import Trace
    from jcache.traces.miss import Traced

OLD_OPTIONS: Final = frozenset({"backend", "device"})
_STATIC: Final = ("static_argnums", "static_argnames")


class Resolver:
    """Resolves the calls of a function.

    Args:
        function, options, depends_on: as `jcache.jit` was given them.
        check: which starts that a trace would serve are traced and compared.
        counts: whether a second question for the same trace is another one: the program may have changed meanwhile.
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
        self.function = function
        self.options = options
        self.depends_on = depends_on
        statics = Statics(function, *map(options.get, _STATIC), keeps_unused=bool(options.get("keep_unused")))
        self.lookup = CallLookup(function, statics, check, depends_on, counts=counts)
        self._unserved: dict[str, str] = {}
        self.forget()

    def forget(self) -> None:
        """Has JAX trace anew what it has traced in this process."""
        function, ours = self.function, weakref.ref(self)  # a cycle would keep what the function holds until collected

        @functools.wraps(function)
        def resolve(*args: Any, **kwargs: Any) -> Any:
            resolver = ours()
            return function(*args, **kwargs) if resolver is None else resolver._resolve(args, kwargs)

        resolve.__name__ = _plain_name(self.function)
        old = OLD_OPTIONS.intersection(self.options)  # of which JAX has warned already
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning) if old else nullcontext():
            self.jitted: Any = tracing.jit(resolve, self.options)

    def is_settled(self) -> bool:
        """Whether this thread has compiled nothing that is to be settled."""
        return pending_call.mine() is None

    # -- while JAX traces

    def _resolve(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What JAX traces for a call; the arguments are of tracers."""
        started = clock.monotonic(), clock.thread_cpu()
        pending_call.begin(None)
        stands_in = False
        collector.put_off()
        try:
            looked = self.lookup.look_up(Given(args, kwargs))
            if looked is not None:
                wanted, found = looked.asked, looked.found
                kept, why = (found, None) if isinstance(found, Kept) else (None, found)
                if kept is not None and wanted.key in self._unserved:
                    why = self._unserved[wanted.key]
                elif kept is not None and looked.judged.may_serve:
                    made = self._stand_in(looked, kept, started)
                    if isinstance(made, tuple):
                        stands_in = True
                        return made[0]
                    why = made
                from jcache.traces.miss import Traced

                traced = Traced(looked.shelf.store, wanted, kept, why, looked.world, looked.judged)
                return self._trace(looked, traced, Given(args, kwargs))
        finally:
            if not stands_in:  # else it waits until the executable is there
                collector.go_on()
        return self.function(*args, **kwargs)

    def _stand_in(self, looked: Looked, kept: Kept, started: tuple[float, float]) -> tuple[Any] | str:
        """Return the results of the marker, in the structure that the function returns; why they cannot be made.

        Where JAX would take the results apart in another way than those of the function itself, CannotReplay is raised.
        """
        wanted, trace = looked.asked, kept.trace
        key, shelf, rough = wanted.key, looked.shelf, looked.rough  # and not what JAX traces: these are kept

        def replay(seconds: float | None = None, ahead: preload.Preload | None = None) -> Replay:
            call = Call(key, shelf, seconds, rough)
            call.kept, call.note = kept, "" if ahead is None else ahead.note
            call.cpu_seconds = cpu_seconds
            call.replay = Replay(key, kept.executables, kept.artifact, frozenset(trace.targets), ahead)
            pending_call.begin(call, call.replay)
            return call.replay

        try:
            structure = structures.decode(trace.structure, wanted.likes)
            results = avals.abstract(trace.results, wanted.leaves)
            operands = [wanted.leaves[i] for i in trace.kept]
            asking = meshes.constrain_to_mesh(operands, trace.mesh)
            made, effects = self._callbacks(looked, trace), named(trace.effects)
            values = stablehlo.bind_marker(wanted.key, asking, results, replay, made, effects)
            values = values if asking is not operands else meshes.constrain_to_mesh(values, trace.mesh)
        except (DamagedEntry, LookupError, NotStorable, Unresolved) as error:
            reason = f"its result cannot be made: {error}"
            self.lookup.refuse(reason, wanted.key)
            return reason
        seconds, cpu_seconds = clock.monotonic() - started[0], clock.thread_cpu() - started[1]
        begun = 0.0 if looked.ahead is None else looked.ahead.seconds
        replay(seconds - begun, looked.ahead)
        remade = unflattened(structure, values)
        if not isinstance(remade, Remade):  # the marker is in the program that JAX traces: this one is given up
            raise CannotReplay(remade)
        memos.served(kept.opened.header.key_parts)
        return (remade.value,)

    def _trace(self, looked: Looked, traced: Traced, arguments: Given) -> Any:
        wanted, shelf, rough = looked.asked, looked.shelf, looked.rough
        try:
            result, values, treedef = traced.run(lambda: self._called(looked, arguments))
        except Exception:
            raised = Call(wanted.key, shelf, None, rough)
            raised.traced = traced
            pending_call.begin(raised)
            raise
        traced.take(values, treedef)
        leaves, wanted = wanted.leaves, wanted._replace(leaves=[], likes=[])
        traced.asked = wanted  # JAX keeps what follows as long as the trace
        place = None if traced.reason is not None else tracing.first_computed(values, leaves)
        keep = self._keeper(looked)
        told = False

        def tell(module: Any = None) -> None:
            nonlocal told
            call = Call(wanted.key, shelf, None if told else traced.build.seconds, rough)
            told = True
            call.traced, call.compilation = traced, Compilation(module, keep=keep)
            pending_call.begin(call, call.compilation)

        if place is None:
            tell()
            return result
        values[place] = stablehlo.bind_witness(values[place], tell)
        made = unflattened(treedef, values)
        return made.value if isinstance(made, Remade) else result

    def _keeper(self, looked: Looked) -> Callable[[Sequence[Any]], Any]:
        """Return what keeps the callbacks of a program; JAX keeps it as long as the trace, but not the function."""
        ours, static = weakref.ref(self), self._static(looked)

        def keep(found: Sequence[Any]) -> Any:
            from jcache.traces import callbacks

            resolver = ours()
            if resolver is None:
                raise NotStorable("it calls back to the host")
            return callbacks.write(found, callbacks.Origin(resolver.function, *static))

        return keep

    def _static(self, looked: Looked) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the static arguments of a call in their places, None in those of all others."""
        return self.lookup.statics.replaced(looked.given.args, looked.given.kwargs, lambda *_: None)

    def _callbacks(self, looked: Looked, trace: Trace) -> list[Callable[..., Any]]:
        """Return what the program of a trace calls back; raise `Unresolved` where that cannot be made."""
        if trace.callbacks is None:
            return []
        import jax

        from jcache.traces import callbacks

        with jax.ensure_compile_time_eval():
            return callbacks.read(trace.callbacks, callbacks.Origin(self.function, *self._static(looked)))

    def _called(self, looked: Looked, arguments: Given) -> tuple[Any, list[Any], Any]:
        """What the function returns, its leaves and their structure; all that flattening reads is recorded."""
        from jax.tree_util import tree_flatten

        result = self.function(*arguments.args, **arguments.kwargs)
        values, treedef = tree_flatten(result)
        with suppress(Exception):  # of the program's classes, which JAX has done this to already
            flatten_again(self.lookup.statics, looked.given, looked.asked.leaves)
        return result, values, treedef

    # -- afterwards

    def settle(self) -> tuple[Call | None, str | None]:
        """Stores what was traced, or tells that it was served; returns the call, and why it is not stored."""
        collector.go_on()
        call = pending_call.mine()
        pending_call.begin(None)
        if call is None:
            return None, None
        reason = None
        try:
            reason = call.keep()
        except Exception as error:  # noqa: BLE001 - whatever it is, the program has its result
            reason = f"it cannot be kept: {error!r}"
            warn_once(("trace", type(error)), f"jcache cannot keep the trace of `{self.lookup.name}`: {error!r}.")
        if reason is not None and call.traced is not None:
            self.lookup.refuse(reason, call.key, call.rough)
            if call.traced.is_refused:
                Verdicts(call.shelf.store.root).refuse(call.key, reason)
        call.say(self.lookup.name, reason)
        return call, reason

    def may_trace_instead(self, error: BaseException, arguments: Any) -> bool:
        """Whether a call that raised did so for a replay that failed before it ran; then it can be made anew."""
        from jax.tree_util import tree_leaves

        collector.go_on()
        call = pending_call.mine()
        if call is not None and call.has_called_back:  # as the program does under `jax.jit`
            self.settle()
            return False
        pending_call.begin(None)
        if call is not None and (call.compilation or call.replay):
            self.forget()  # what JAX has lowered but not compiled, it compiles later without telling
        if call is None or call.replay is None or not isinstance(error, Exception) or not tracing.is_of_jax(error):
            return False
        may_have_run = not isinstance(error, CannotReplay)
        if may_have_run and any(getattr(leaf, "is_deleted", bool)() for leaf in tree_leaves(arguments)):
            return False
        reason = str(error) if isinstance(error, CannotReplay) else f"its program cannot be replayed here: {error!r}"
        self._unserved[call.key] = reason or NO_PROGRAM
        if reason:
            self.lookup.refuse(reason, call.key)
        return True


def _plain_name(function: Callable[..., Any]) -> str:
    """The name that `jax.jit` gives the program of a function."""
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__name__", "<unnamed function>"))
