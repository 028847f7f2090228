"""`@jcache.jit`: jax.jit whose programs start warm, without being traced again.

A function is jitted twice, with the same options. What is called from the outside goes to a program that JAX traces
through `Jitted._resolve`: there the call's key is looked up, and either the function is traced as ever and its trace
stored, or one operation stands in for all that is known (`jcache._replay`). What is called while something else is
traced or transformed, and everything about a program but calling it, goes to the other, which is jax.jit's own. So
dispatch, donation, sharding and devices are JAX's own either way.

The cache may fail, the program may not: whatever goes wrong, the function is traced, and `Jitted.explain` says why.
"""

# ruff: noqa: ANN401 - what functions take and return is anything

from __future__ import annotations

import functools
import gc
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from jcache import _replay, _stablehlo, _tracing, roots, structures
from jcache.errors import DamagedEntry, GraphKeyError, NotStorable, Unresolved
from jcache.explanation import Explanation
from jcache.locking import timeout_in
from jcache.once import warn_once
from jcache.runtime import enable
from jcache.sealed_store import store_of
from jcache.trace_checks import Check, Served, compare_later, is_due, specification
from jcache.trace_entries import TRACES
from jcache.trace_keys import Asked, Statics, asked
from jcache.trace_shelf import Kept, Shelf, Traced
from jcache.units import parse_choice

_MOST_REFUSED: Final = 1000
_STATIC: Final = ("static_argnums", "static_argnames")


class _Call:
    """A call that JAX is tracing, or compiling what came of it.

    Attributes:
        asked: for what.
        shelf: where it is looked up.
        traced, compilation: of a miss, what is traced now and what compiling it tells.
        kept, replay: of a hit, what was found and what stands in for compiling.
    """

    def __init__(self, wanted: Asked, shelf: Shelf) -> None:
        self.asked = wanted
        self.shelf = shelf
        self.traced: Traced | None = None
        self.compilation: _replay.Compilation | None = None
        self.kept: Kept | None = None
        self.replay: _replay.Replay | None = None
        self.started = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Since it was looked up."""
        return time.perf_counter() - self.started


class _Mine(threading.local):
    call: _Call | None = None


_mine = _Mine()


class Jitted:
    """What `jit` makes of a function.

    Args:
        function: which.
        options: of `jax.jit`.
        check: how many of the traces that are served are compared with tracing anew.
    """

    def __init__(self, function: Callable[..., Any], options: Mapping[str, Any], check: Check) -> None:
        import jax

        @functools.wraps(function)
        def resolve(*args: Any, **kwargs: Any) -> Any:
            return self._resolve(args, kwargs)

        functools.update_wrapper(self, function)
        self._function = function
        self._statics = Statics(function, *(options.get(name) for name in _STATIC))
        self._jitted: Any = jax.jit(function, **options)
        self._resolving: Any = jax.jit(resolve, **options)
        self._is_top_level = _tracing.top_level()
        self._check = check
        self._gave_up = False
        self._refused: dict[str | None, str] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function returns."""
        if self._gave_up or not self._is_top_level():
            return self._jitted(*args, **kwargs)
        try:
            result = self._resolving(*args, **kwargs)
        except Exception as error:
            if not self._may_trace_instead(error, args, kwargs):
                raise
            return self._jitted(*args, **kwargs)
        if _mine.call is not None:
            self._settle(args, kwargs)
        return result

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """The method of an instance."""
        return self if instance is None else functools.partial(self, instance)

    def __getattr__(self, name: str) -> Any:
        """All else is as with `jax.jit`: ``lower``, ``trace``, ``eval_shape``."""
        if name.startswith("__") or "_jitted" not in vars(self):
            raise AttributeError(name)
        return getattr(self._jitted, name)

    def clear_cache(self) -> None:
        """Has JAX forget what it has compiled in this process."""
        self._jitted.clear_cache()
        self._resolving.clear_cache()

    def __repr__(self) -> str:
        return f"<jcache.jit of {self._function!r}>"

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """Whether a first call would start warm, and if not, what has changed; nothing is run or written."""
        name = self.__qualname__
        try:
            reason = _tracing.forbidden()
            if reason is None:
                wanted = asked(self._function, self._statics, args, kwargs)
                return _shelf().explain(wanted, self._refused.get(wanted.key))
        except (GraphKeyError, NotStorable) as error:
            reason = str(error)
        return Explanation(name=name, key=None, hit=False, reason=reason)

    # -- while JAX traces

    def _resolve(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        _replay.expect(None)
        _mine.call = None
        call = self._look_up(args, kwargs)
        if call is None:
            return self._function(*args, **kwargs)
        if call.kept is not None and (results := self._stand_in(call)) is not None:
            _mine.call = call
            return results[0]
        return self._trace(call, args, kwargs)

    def _look_up(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call | None:
        """What a call asks for; None where it is traced as ever."""
        try:
            reason = _tracing.forbidden()
            if reason is None:
                shelf = _shelf()
                call = _Call(asked(self._function, self._statics, args, kwargs), shelf)
                if _tracing.are_tracers(call.asked.leaves):
                    call.kept = shelf.look(call.asked)
                    return call
                return None  # where jit is disabled
        except (GraphKeyError, NotStorable) as error:
            reason = str(error)
        except Warning:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the program goes on
            reason = f"its key cannot be made: {error!r}"
        self._refuse(reason)
        return None

    def _stand_in(self, call: _Call) -> tuple[Any] | None:
        """The results of the marker, in the structure that the function returns; None if it cannot be made."""
        kept = call.kept
        if kept is None:
            return None
        try:
            from jax.tree_util import tree_unflatten

            trace = kept.trace
            structure = structures.decode(trace.structure, call.asked.likes)
            results = [_tracing.abstract(result) for result in trace.results]
            operands = [call.asked.leaves[i] for i in trace.kept]
            call.replay = _replay.Replay(call.asked.key, kept.executable, kept.artifact, frozenset(trace.targets))
            values = _stablehlo.bind_marker(call.asked.key, operands, results)
            made = tree_unflatten(structure, values)
        except (DamagedEntry, IndexError, Unresolved) as error:
            call.replay = None
            self._refuse(f"its result cannot be made: {error}", call.asked.key)
            return None
        _replay.expect(call.replay)
        return (made,)

    def _trace(self, call: _Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        from jax.tree_util import tree_flatten

        call.traced = Traced(call.shelf.store, call.asked)
        with _without_collections():
            result = call.traced.run(lambda: self._function(*args, **kwargs))
        try:
            values, treedef = tree_flatten(result)
            call.traced.results = _tracing.results_of(values)
            call.traced.structure = structures.encode(treedef, call.asked.likes)
        except NotStorable as error:
            call.traced.reason = call.traced.reason or str(error)
        call.compilation = _replay.Compilation()
        _replay.expect(call.compilation)
        _mine.call = call
        return result

    # -- afterwards

    def _settle(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Stores what was traced, or tells that it was served."""
        call, _mine.call = _mine.call, None
        _replay.expect(None)
        if call is None:
            return
        try:
            if call.traced is not None and call.compilation is not None:
                reason = call.shelf.keep(call.traced, call.compilation)
                if reason is not None:
                    self._refuse(reason, call.asked.key)
            elif call.replay is not None and call.kept is not None:
                call.shelf.served(call.kept, call.replay, call.seconds)
                if is_due(self._check):
                    self._compare_later(call.shelf, call.kept, args, kwargs)
        except Warning:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the program has its result
            warn_once(("trace", type(error)), f"jcache cannot keep the trace of `{self.__qualname__}`: {error!r}.")

    def _compare_later(self, shelf: Shelf, kept: Kept, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        from jax.tree_util import tree_map

        try:
            args, kwargs = self._statics.replaced(args, kwargs, lambda _, arg: tree_map(specification, arg))
        except TypeError:  # nothing stands for one of them
            return
        compare_later(Served(self._function, self._jitted.lower, self._statics, args, kwargs, shelf, kept), self._check)

    def _may_trace_instead(self, error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether a call that raised did so for a replay that failed before it ran, so that it can be made anew."""
        from jax.tree_util import tree_leaves

        call, _mine.call = _mine.call, None
        _replay.expect(None)
        if call is None or call.replay is None:
            return False
        if any(getattr(leaf, "is_deleted", bool)() for leaf in tree_leaves((args, kwargs))):
            return False
        self._gave_up = True
        self._refuse(f"its program cannot be replayed here: {error!r}", call.asked.key)
        return True

    def _refuse(self, reason: str, key: str | None = None) -> None:
        """Remembers why a call was traced, or will be in the next process."""
        if len(self._refused) < _MOST_REFUSED:
            self._refused[key] = reason


def _shelf() -> Shelf:
    """The traces of the root in use; without one, `jcache.enable` puts the default one in use."""
    ours = roots.in_use()
    if ours is None:
        enable()
        ours = roots.in_use()
    if ours is None or ours.root is None:
        raise NotStorable("There is no root in use.")
    if reason := _replay.install():
        raise NotStorable(f"{reason}.")
    return Shelf(store_of(ours.root, TRACES, max_bytes=ours.max_bytes, lock_timeout=timeout_in(os.environ)))


@contextmanager
def _without_collections() -> Iterator[None]:
    """Collecting garbage while tracing finds next to none, and takes a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def jit(function: Callable[..., Any] | None = None, /, *, check: Check | str = Check.SAMPLE, **options: Any) -> Any:
    """`jax.jit` whose programs start warm: with an earlier process's executable, without being traced or lowered.

    It is called like `jax.jit`, and what it returns is used like what `jax.jit` returns. The first call in a process
    for arguments of certain types looks the function up by its code, what its code reaches, its static arguments, the
    types of the others, and JAX's version and options. What else ran or was read while it was traced is compared as
    well. It uses the root that `jcache.enable` has put in use, and calls that itself if the program has not.

    Programs with host callbacks or effects, of several processes, or under a mesh that is in effect are traced as ever;
    so are functions that depend on what has no fingerprint. `Jitted.explain` tells why.

    Args:
        function: which; None to be used as a decorator with arguments.
        check: how many of the traces that are served are compared with tracing anew, in the background: one in 20,
            ``"sample"``, ``"always"`` all or ``"never"`` any. What differs is warned of and goes to quarantine.
        options: of `jax.jit`.

    Raises:
        InvalidValue: there is no such check.
        TypeError, ValueError: as `jax.jit`.

    Example:
        >>> import jcache
        >>> @jcache.jit
        ... def double(x):
        ...     return x * 2
        >>> float(double(3.0))
        6.0
        >>> double.explain(3.0).hit
        True
    """
    chosen = parse_choice(Check, check, "does not say how much is checked")
    if function is None:
        return lambda function: Jitted(function, options, chosen)
    return Jitted(function, options, chosen)
