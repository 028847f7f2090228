"""`jcache.precompile`: traces and executables of calls that are still to come, stored ahead of time."""

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
from jcache.traces.arguments import gives_arguments
from jcache.traces.format import has_executable
from jcache.traces.jit import Jitted
from jcache.traces.pending_call import Call
from jcache.traces.resolver import Resolver


class Spec:
    """The arguments of a call that is to come, as `jax.jit`'s ``lower`` takes them.

    Args:
        args, kwargs: as the call will have them, with a `jax.ShapeDtypeStruct` in the place of each array, with its
            sharding where the array will be committed to one; arrays and Python numbers are taken as well. Static
            arguments are values.

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
    """What became of a call that was precompiled.

    Attributes:
        HIT: its trace and its executable were there.
        STORED: they are there now.
        NOT_STORED: a process that makes this call traces or compiles.
    """

    HIT = "hit"
    STORED = "stored"
    NOT_STORED = "not_stored"


@dataclass(frozen=True, slots=True, kw_only=True)
class Precompiled:
    """One call that was precompiled.

    Attributes:
        name: of the function.
        key: of the trace; None where the call has none.
        executable: the key in JAX's cache; None where there is none.
        outcome: what became of it.
        reason: why it is not stored, None if it is.
        seconds: that it took.
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
    """Stores the traces and executables of calls that are to come, so that these start without tracing and compiling.

    Nothing is run on a device, and no argument is allocated: the function is traced and compiled as by ``lower`` and
    ``compile`` of `jax.jit`. It is all stored, whatever thresholds JAX is configured with, in the root that
    `jcache.enable` has put in use. What is there already is not traced again, and its executable is tried.

    Args:
        function: what `jit` has made, a method of such a kind too. A plain function stands for `jit` of it without
            options.
        specs: a tuple of positional arguments, or a `Spec`, for one call; a list of these for several.

    Returns:
        What became of each call, in order. One that is not stored says why, and is no error.

    Raises:
        InvalidValue: the function is none that jcache can store, or the specs are none.
        Exception: what the function raises while it is traced, as a call would.

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
    """What `jit` has made, and what of its arguments is given already."""
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
    configured = config.configure(STORE_EVERYTHING)  # in the place of the thresholds under which JAX stores nothing
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


@gives_arguments
def _compile(resolver: Resolver, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Call | None, str | None]:
    try:
        resolver.jitted.lower(*args, **kwargs).compile()
    except BaseException as error:
        if not resolver.may_trace_instead(error, ()):
            raise
        resolver.jitted.lower(*args, **kwargs).compile()
    return resolver.settle()


def _executable(call: Call) -> str | None:
    """The key in JAX's cache of what was compiled or loaded."""
    if call.compilation is not None:
        return call.compilation.executable_key
    return None if call.replay is None else call.replay.compiled or call.replay.loaded
