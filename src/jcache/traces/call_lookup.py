"""Looking up what a call of a jitted function asks for, while JAX traces it or to explain it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jcache.errors import GraphKeyError, NotStorable
from jcache.fingerprint.depends_on import Dependency
from jcache.fingerprint.weak_map import WeakIdentities
from jcache.jax_internals import preload, tracing
from jcache.runs import observers
from jcache.runs.calls import BYPASSED, TraceCall
from jcache.runtime.worlds.judgement import Check, Judgement
from jcache.runtime.worlds.world import World
from jcache.store import roots
from jcache.traces.arguments import Given, given
from jcache.traces.hints import Verdicts
from jcache.traces.keys import OTHER_LEAVES, Asked, Statics, asked, roughly, roughly_called
from jcache.traces.stored_trace import Kept
from jcache.traces.trace_places import shelf_in_use
from jcache.traces.trace_store import Shelf

if TYPE_CHECKING:
    from jcache.runtime.explain import Explanation

_MOST_REFUSED: Final = 1000
_counts: Final[dict[str, int]] = {}  # how many functions have asked for a key, by root and key
_numbers: Final[WeakIdentities[dict[str, int]]] = WeakIdentities()  # of these functions, as long as they live
_NO_KEY: Final = "its key cannot be made: {!r}"
_SLOWER: Final = "tracing it is faster than looking it up, as earlier processes have found"


class Looked(NamedTuple):
    """What a call asks for, and what there is of it: a trace, or why there is none."""

    asked: Asked
    shelf: Shelf
    world: World
    judged: Judgement
    found: Kept | str | None
    rough: str  # the call, as verdicts have it
    ahead: preload.Preload | None  # the executable that it will likely need
    given: Given  # the arguments of the program


class CallLookup:
    """Looks up the calls of a function; the arguments are as `Resolver` has them."""

    def __init__(
        self,
        function: Callable[..., Any],
        statics: Statics,
        check: Check,
        depends_on: tuple[Dependency, ...],
        *,
        counts: bool,
    ) -> None:
        self.name = str(getattr(function, "__qualname__", None) or type(function).__qualname__)
        self.refused: dict[str | None, str] = {}  # why calls were or will be traced, by key and by rough call
        self._function = function
        self.statics = statics
        self._check = check
        self._depends_on = depends_on
        self._counts = counts
        self._roughly = roughly(function)

    def look_up(self, traced: Given) -> Looked | None:
        """Return what a call asks for, and what there is of it, or why not; None where it is traced as ever."""
        key = rough = None
        try:
            rough = roughly_called(self._roughly, self.statics, traced.args, traced.kwargs)
            reason = self._slower(rough) or tracing.reason_not_to_replay()
            if reason is None:
                shelf = shelf_in_use()
                note = Verdicts(shelf.store.root).likely(rough)
                ahead = preload.Preload(note) if note else None
                program = given()
                wanted = asked(self._function, self.statics, program, traced, self._depends_on)
                if not tracing.are_tracers(wanted.leaves):
                    return None  # where jit is disabled
                key = wanted.key
                if not tracing.are_inputs(wanted.leaves):
                    raise NotStorable(OTHER_LEAVES)
                refused = Verdicts(shelf.store.root).refusal(key)
                if refused is not None and not (shelf.shared or shelf.store.has(key)):
                    raise NotStorable(refused)
                world = shelf.world(wanted, self._count(shelf, key))
                judged = shelf.judge(wanted, world, self._check)
                found = None if judged.refused else shelf.look(wanted, judged)
                if isinstance(found, Kept) and self._check is not Check.NEVER:
                    judged = judged if judged.is_of(found.opened.header) else Judgement(new=judged.new)
                reason = judged.refused or (None if isinstance(found, Kept) else refused)
                if reason is None:
                    return Looked(wanted, shelf, world, judged, found, rough, ahead, program)
        except (GraphKeyError, NotStorable) as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001 - whatever it is, the program goes on
            reason = _NO_KEY.format(error)
        self.refuse(reason, key, rough)
        if not tracing.top_level()():  # as it is where jit is disabled: nothing is traced then
            observers.tell_trace(TraceCall(self.name, None, BYPASSED, reason))
        return None

    def _count(self, shelf: Shelf, key: str) -> int:
        """Return for how many functions this process has asked for a key by now; one that is precompiled is the first.

        JAX traces a function once for arguments of certain types, however often it is jitted.
        """
        if not self._counts:
            return 1
        numbers = _numbers.get(self._function)
        if numbers is None:
            _numbers.put(self._function, numbers := {})
        if (name := f"{shelf.store.root.path}\n{key}") not in numbers:
            numbers[name] = _counts[name] = _counts.get(name, 0) + 1
        return numbers[name]

    def _slower(self, rough: str) -> str | None:
        ours = roots.in_use()
        known = ours is not None and ours.root is not None and Verdicts(ours.root).is_slower(rough)
        return _SLOWER if known else None

    def explain(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Explanation:
        """Return whether a first call would start warm, and if not, why; nothing is run or written."""
        try:
            rough = roughly_called(self._roughly, self.statics, args, kwargs)
            reason = self._slower(rough) or tracing.reason_not_to_replay()
            if reason is None:
                given = Given(args, dict(kwargs))
                wanted = asked(self._function, self.statics, given, None, self._depends_on)
                shelf = shelf_in_use()
                refused = self.refused.get(wanted.key) or Verdicts(shelf.store.root).refusal(wanted.key)
                found = shelf.explain(wanted, refused, self._check)
                before = None if found.hit or found.nearest is not None else self.refused.get(rough)
                return found if before is None else found._replace(reason=before)
        except (GraphKeyError, NotStorable) as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is why a call would not be stored
            reason = _NO_KEY.format(error)
        return self.untold(reason)

    def untold(self, reason: str) -> Explanation:
        from jcache.runtime.explain import Explanation

        return Explanation(name=self.name, key=None, hit=False, reason=reason)

    def refuse(self, reason: str, *names: str | None) -> None:
        """Remember why a call was traced, or will be in the next process: by its key, which tracing may change."""
        for name in names:
            if len(self.refused) < _MOST_REFUSED:
                self.refused[name] = reason
