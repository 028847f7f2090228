"""`jcache.precompile`: store traces and executables of future calls."""

# ruff: noqa: ANN401 - functions and arguments are anything

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from jcache import clock
from jcache.errors import InvalidValue
from jcache.jax_internals import config
from jcache.jax_internals.presets import STORE_EVERYTHING
from jcache.runtime.worlds.judgement import Check
from jcache.store import roots
from jcache.traces.arguments import holds_arguments
from jcache.traces.format import has_executable
from jcache.traces.jit import Jitted
from jcache.traces.pending_call import PendingCall
from jcache.traces.resolver import Resolver


class Spec:
    """The arguments of a future call, as ``lower`` of `jax.jit` takes them.

    Args:
        args, kwargs: the arguments of the call, with a `jax.ShapeDtypeStruct` in place of each array; give it a
            sharding if the array will be committed to one. Arrays and Python numbers may be given themselves. Static
            arguments are given as values.

    Example:
        >>> import jax, jcache
        >>> spec = jcache.Spec(jax.ShapeDtypeStruct((8, 3), "float32"), n=2)
    """

    __slots__ = ("args", "kwargs")

    def __init__(self, /, *args: Any, **kwargs: Any) -> None:
        self.args = args
        self.kwargs = kwargs

    def __repr__(self) -> str:
        texts = [*map(repr, self.args), *(f"{name}={value!r}" for name, value in self.kwargs.items())]
        return f"Spec({', '.join(texts)})"


class Precompilation(StrEnum):
    """The outcome of precompiling a call.

    Attributes:
        HIT: its trace and its executable were stored before.
        STORED: its trace and its executable are stored now.
        NOT_STORED: its trace or its executable is not stored, so a process that makes this call traces or compiles.
    """

    HIT = "hit"
    STORED = "stored"
    NOT_STORED = "not_stored"


@dataclass(frozen=True, slots=True, kw_only=True)
class Precompiled:
    """The result of precompiling one call.

    Attributes:
        name: the name of the function.
        key: the key of the trace; None if the call has none.
        executable: the executable's key in JAX's cache; None if there is none.
        outcome: the outcome.
        reason: the reason why trace or executable is not stored; None if both are.
        seconds: the time that it took.
    """

    name: str
    key: str | None
    executable: str | None
    outcome: Precompilation
    reason: str | None
    seconds: float

    def __str__(self) -> str:
        why = "" if self.reason is None else f", {self.reason}"
        return f"{self.name}: {self.outcome.replace('_', ' ')}{why}"


def precompile(
    function: Callable[..., Any], specs: tuple[Any, ...] | Spec | Iterable[tuple[Any, ...] | Spec], /
) -> list[Precompiled]:
    """Store the traces and executables of future calls, so that these calls start without tracing and compiling.

    Nothing is run on a device, and no argument is allocated: the function is traced and compiled as by ``lower`` and
    ``compile`` of `jax.jit`. Everything is stored in the root that `jcache.enable` has put in use, whatever thresholds
    JAX is configured with. A call whose trace is stored already is not traced again; its executable is loaded to try
    it.

    Args:
        function: a function or method that `jcache.jit` has jitted. A plain function is jitted without options.
        specs: for one call a tuple of positional arguments or a `Spec`; for several calls a list of these.

    Returns:
        The result of each call, in order. If a call is not stored, that is no error, and its result has the reason.

    Raises:
        InvalidValue: `function` is no function that jcache can store, or `specs` are no specs.
        Exception: the function raised it while it was traced, as it would in a call.

    Example:
        >>> import jax, jcache
        >>> @jcache.jit
        ... def double(x):
        ...     return x * 2
        >>> [done] = jcache.precompile(double, (jax.ShapeDtypeStruct((8,), "float32"),))
        >>> print(done)
        double: stored
    """
    jitted, bound = _jitted_of(function)
    calls = [specs] if isinstance(specs, tuple | Spec) else _listed(specs)
    return [_precompiled(jitted, bound, spec if isinstance(spec, Spec) else Spec(*spec)) for spec in calls]


def _jitted_of(function: Any) -> tuple[Jitted, functools.partial[Any] | None]:
    """Return the jitted function, and the partial that binds arguments of it; None if there is no partial."""
    if isinstance(function, Jitted):
        return function, None
    if isinstance(function, types.MethodType) and isinstance(function.__func__, Jitted):
        function = functools.partial(function.__func__, function.__self__)
    if isinstance(function, functools.partial) and isinstance(function.func, Jitted):
        return function.func, function
    if not callable(function):
        raise InvalidValue(f"{function!r} is no function: give what jcache.jit has made of one.")
    if hasattr(function, "lower") or hasattr(function, "cache"):
        raise InvalidValue(
            f"{function!r} is not of jcache.jit, and its options are not known: give what jcache.jit makes of the "
            "function itself."
        )
    return Jitted(function, {}, Check.NEVER), None


def _listed(specs: Any) -> list[tuple[Any, ...] | Spec]:
    listed = list(specs) if isinstance(specs, Iterable) and not isinstance(specs, str | bytes | dict) else [specs]
    for spec in listed:
        if not isinstance(spec, tuple | Spec):
            raise InvalidValue(
                f"{spec!r} does not say with what to call: give a tuple of positional arguments, a jcache.Spec, or a "
                "list of these."
            )
    return listed


def _precompiled(jitted: Jitted, bound: functools.partial[Any] | None, spec: Spec) -> Precompiled:
    args, kwargs = spec.args, spec.kwargs
    if bound is not None:
        args, kwargs = (*bound.args, *args), {**bound.keywords, **kwargs}
    resolver, started = jitted.resolver(), clock.monotonic()
    configured = config.configure(STORE_EVERYTHING)  # instead of the thresholds below which JAX stores nothing
    try:
        call, reason = _compile(resolver, args, kwargs)
    finally:
        configured.restore()
    reason = reason or next(iter(resolver.lookup.refused.values()), None)
    executable = None if call is None else _executable(call)
    if reason is None and call is None:
        reason = "it is not compiled under this configuration"
    ours = roots.in_use()
    used = () if ours is None or ours.root is None else (ours.root, *ours.shared)
    if reason is None and (executable is None or not any(has_executable(root, executable) for root in used)):
        reason = "JAX did not store its executable"
    hit = call is not None and call.replay is not None and call.replay.compiled is None
    outcome = Precompilation.HIT if hit else Precompilation.STORED
    return Precompiled(
        name=resolver.lookup.name,
        key=None if call is None else call.key,
        executable=executable,
        outcome=outcome if reason is None else Precompilation.NOT_STORED,
        reason=reason,
        seconds=clock.monotonic() - started,
    )


@holds_arguments
def _compile(
    resolver: Resolver, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[PendingCall | None, str | None]:
    try:
        resolver.jitted.lower(*args, **kwargs).compile()
    except BaseException as error:
        if not resolver.may_trace_instead(error, ()):
            raise
        resolver.jitted.lower(*args, **kwargs).compile()
    return resolver.settle()


def _executable(call: PendingCall) -> str | None:
    """Return the key in JAX's cache of the executable that was compiled or loaded; None if there is none."""
    if call.compilation is not None:
        return call.compilation.executable_key
    return None if call.replay is None else call.replay.compiled or call.replay.loaded
