"""Look up the trace for a call of a jitted function, while JAX traces the call or to explain it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jcache.errors import GraphKeyError, NotStorable
from jcache.fingerprint.call import name_of
from jcache.fingerprint.depends_on import Dependency
from jcache.fingerprint.weak_map import WeakIdentities, weakly
from jcache.jax_internals import preload, rank_votes, tracing
from jcache.runs import observers
from jcache.runs.calls import BYPASSED, TraceCall
from jcache.runtime import side_effects
from jcache.runtime.worlds.judgement import Check, Judgement
from jcache.runtime.worlds.world import World
from jcache.store import roots
from jcache.traces.arguments import Arguments, program_arguments
from jcache.traces.hints import Hints
from jcache.traces.keys import OTHER_LEAVES, Statics, TraceRequest, make_request, rough_call_key, rough_function_key
from jcache.traces.stored_trace import StoredTrace
from jcache.traces.trace_places import traces_in_use
from jcache.traces.trace_store import TraceStore

if TYPE_CHECKING:
    from jcache.runtime.explain import Explanation

_MAX_REFUSED: Final = 1000
_function_counts: Final[dict[str, int]] = {}  # the number of functions that have requested a trace, by root and key
# the number of each function among those that have requested a trace, by root and key
_numbers: Final[WeakIdentities[dict[str, int]]] = WeakIdentities()
_NO_KEY: Final = "its key cannot be made: {!r}"
_ANOTHER: Final = "another process of the program lacks its trace, or does not answer"
_SLOWER: Final = "tracing it is faster than looking it up, as earlier processes have found"


class LookupResult(NamedTuple):
    """The request of a call for a trace, and what was found for it.

    Attributes:
        request: the request.
        traces: the traces of the root in use.
        world: the world of the call.
        judged: what is known about the call in this world.
        found: the stored trace; the reason why it cannot be used; None if there is no trace.
        rough_key: the name of the call in hints.
        ahead: the executable that the call will probably need, which is being loaded; None if no hint names it.
        given: the arguments that the program gave.
        unserved: why the stored trace has failed to serve the call; None if it has not.
        vote: the votes of the processes whose call it is; None for a call of one process.
    """

    request: TraceRequest
    traces: TraceStore
    world: World
    judged: Judgement
    found: StoredTrace | str | None
    rough_key: str
    ahead: preload.Preload | None
    given: Arguments
    unserved: str | None = None
    vote: rank_votes.Vote | None = None

    @property
    def stored(self) -> StoredTrace | None:
        """The stored trace, None if there is none."""
        return self.found if isinstance(self.found, StoredTrace) else None

    @property
    def why(self) -> str | None:
        """Why there is no stored trace or it cannot serve; None if no reason is known."""
        return self.unserved if isinstance(self.found, StoredTrace) else self.found

    @property
    def refuse(self) -> Callable[[str], None]:
        """A function that has the call not served any more in its world; it keeps no argument alive."""
        return partial(self.traces.keeping.refuse, self.request.key, self.world)

    @property
    def may_serve(self) -> bool:
        """Whether the stored trace may serve the call without a comparison."""
        return self.stored is not None and self.unserved is None and self.judged.may_serve


class CallLookup:
    """The look-up of traces for the calls of one function.

    Args:
        function, check, depends_on, counts: as for `Resolver`.
        statics: the static arguments of the function.
        options: the options that the function was jitted with.

    Attributes:
        name: name of the function, for reports.
        refused: the reasons why calls were traced or will be, by key and by rough key.
        unserved: the reasons why stored traces have failed to serve calls, by key.
        statics, check: as given.
        times_cleared: how often JAX's cache for the function was cleared.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        statics: Statics,
        options: Mapping[str, Any],
        check: Check,
        depends_on: tuple[Dependency, ...],
        *,
        counts: bool,
    ) -> None:
        self.name = name_of(function)
        self.refused: dict[str | None, str] = {}
        self.unserved: dict[str, str] = {}
        self.times_cleared = 0
        self._function = weakly(function)
        self.statics = statics
        self._shardings = [options.get(name) for name in ("in_shardings", "out_shardings")]
        self.check = check
        self._depends_on = depends_on
        self._counts = counts
        self._rough_function_key = rough_function_key(function)

    def look_up(self, traced: Arguments) -> LookupResult | None:
        """Return the request of a call and what was found for it; None if the call is traced and nothing is stored.

        Args:
            traced: the arguments that JAX gives to the function that it traces.
        """
        looked_up, vote = self._look_up(traced), self._vote(traced)
        if vote is None:
            return looked_up
        stored = looked_up.stored if looked_up is not None and looked_up.may_serve else None
        content, seconds = (None, 0.0) if stored is None else (stored.content, stored.opened.header.build_seconds)
        if vote.all_have(rank_votes.TRACE, content, seconds) or looked_up is None or stored is None:
            return looked_up and looked_up._replace(vote=vote)
        self.refuse(_ANOTHER, looked_up.request.key, looked_up.rough_key)
        observers.tell_trace(TraceCall(self.name, None, BYPASSED, _ANOTHER))
        return None

    def _vote(self, traced: Arguments) -> rank_votes.Vote | None:
        """Return the votes on a call whose devices belong to several processes; None for any other call."""
        if not rank_votes.may_be_needed():
            return None
        from jax.tree_util import tree_leaves

        with suppress(Exception):  # the program goes on after any error, and such a call is traced
            leaves: list[Any] = []  # the static arguments may differ
            self.statics.replaced(traced.args, traced.kwargs, lambda _, value: leaves.extend(tree_leaves(value)))
            call = "\0".join([self._rough_function_key, *tracing.types_of(leaves)])
            return rank_votes.vote_of(call, tree_leaves((program_arguments(), self._shardings)))
        return None

    def _look_up(self, traced: Arguments) -> LookupResult | None:
        key = rough_key = None
        try:
            rough_key = rough_call_key(self._rough_function_key, self.statics, traced.args, traced.kwargs)
            reason = self._reason_slower(rough_key) or tracing.reason_not_to_replay()
            if reason is None:
                traces = traces_in_use()
                note = Hints(traces.store.root).expected(rough_key)
                ahead = preload.Preload(note) if note else None
                program = program_arguments()
                request = self._request(program, traced)
                if not tracing.are_tracers(request.leaves):
                    return None  # jit is disabled
                key = request.key
                if not tracing.are_inputs(request.leaves):
                    raise NotStorable(OTHER_LEAVES)
                refused = Hints(traces.store.root).refusal(key)
                if refused is not None and not (traces.shared or traces.store.has(key)):
                    raise NotStorable(refused)
                world = traces.world(request, self._count(traces, key))
                judged = traces.judge(request, world, self.check)
                found = None if judged.refused else traces.find(request, judged)
                if isinstance(found, StoredTrace) and self.check is not Check.NEVER:
                    judged = judged if judged.is_of(found.opened.header) else Judgement(new=judged.new)
                reason = judged.refused or (None if isinstance(found, StoredTrace) else refused)
                if reason is None:
                    unserved = self.unserved.get(key)
                    return LookupResult(request, traces, world, judged, found, rough_key, ahead, program, unserved)
        except (GraphKeyError, NotStorable) as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001 - the program goes on after any error
            reason = _NO_KEY.format(error)
        self.refuse(reason, key, rough_key)
        if not tracing.top_level()():  # if jit is disabled, the call runs at the top level and traces nothing
            observers.tell_trace(TraceCall(self.name, None, BYPASSED, reason))
        return None

    def _request(self, program: Arguments, traced: Arguments) -> TraceRequest:
        """Return the request of a call, once earlier calls have had the side effects that the function uses."""
        try:
            request = make_request(self._function(), self.statics, program, traced, self._depends_on)
        except GraphKeyError:
            side_effects.settle_for(self._function())
            raise
        if side_effects.settle(request.fingerprint.snapshot):
            request = make_request(self._function(), self.statics, program, traced, self._depends_on)
        return request

    def _count(self, traces: TraceStore, key: str) -> int:
        """Return the number of this function among the functions of this process that have requested a key, from 1.

        JAX traces a function once for arguments of certain types, however often it is jitted, until its caches are
        cleared. So a further function with the same key can mean that the program has changed meanwhile. Precompiling
        always counts as the first.
        """
        if not self._counts:
            return 1
        numbers = _numbers.get(self._function())
        if numbers is None:
            _numbers.put(self._function(), numbers := {})
        name = f"{traces.store.root.path}\n{key}"
        if (now := f"{name}\n{tracing.clearing()} {self.times_cleared}") not in numbers:
            numbers[now] = _function_counts[name] = _function_counts.get(name, 0) + 1
        return numbers[now]

    def _reason_slower(self, rough_key: str) -> str | None:
        ours = roots.in_use()
        known = ours is not None and ours.root is not None and Hints(ours.root).is_slower(rough_key)
        return _SLOWER if known else None

    def explain(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Explanation:
        """Return whether a first call would start warm, and if not, why; nothing is run or written."""
        try:
            rough_key = rough_call_key(self._rough_function_key, self.statics, args, kwargs)
            reason = self._reason_slower(rough_key) or tracing.reason_not_to_replay()
            if reason is None:
                given = Arguments(args, dict(kwargs))
                request = make_request(self._function(), self.statics, given, None, self._depends_on)
                traces = traces_in_use()
                refused = self.refused.get(request.key) or Hints(traces.store.root).refusal(request.key)
                found = traces.explain(request, refused, self.check)
                before = None if found.hit or found.nearest is not None else self.refused.get(rough_key)
                return found if before is None else found._replace(reason=before)
        except (GraphKeyError, NotStorable) as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001 - any error is the reason why a call would not be stored
            reason = _NO_KEY.format(error)
        return self.explain_without_key(reason)

    def explain_without_key(self, reason: str) -> Explanation:
        """Return the explanation of a call that has no key."""
        from jcache.runtime.explain import Explanation

        return Explanation(name=self.name, key=None, hit=False, reason=reason)

    def refuse(self, reason: str, *names: str | None) -> None:
        """Remember why a call was traced, or why the next process will trace it.

        Args:
            reason: the reason.
            names: the key of the call, which tracing may change, and its rough key; None if it has none.
        """
        for name in names:
            if len(self.refused) < _MAX_REFUSED:
                self.refused[name] = reason
