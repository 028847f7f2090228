"""`@jcache.jit`: jax.jit whose programs start warm, without being traced again.

A function is jitted twice, with the same options. What is called from the outside goes to a program that JAX traces
through a `jcache.traces.resolver.Resolver`. What is called while something else is traced or transformed, and
everything about a program but calling it, goes to the other, which is jax.jit's own. So dispatch, donation, sharding
and devices are JAX's own either way.

The cache may fail, the program may not: whatever goes wrong, the function is traced, and `Jitted.explain` says why.
"""

# ruff: noqa: ANN401 - what functions take and return is anything

from __future__ import annotations

import functools
import sys
import types
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from jcache.fingerprint.depends_on import Dependency, parse_depends_on
from jcache.fingerprint.io.audit import hear_always
from jcache.jax_internals import registry, tracing
from jcache.runs import observers
from jcache.runs.calls import BYPASSED, TraceCall
from jcache.runtime.build_context import is_nested
from jcache.runtime.warn import warn_outside
from jcache.runtime.worlds.judgement import Check
from jcache.traces.arguments import gives_arguments
from jcache.traces.resolver import OLD_OPTIONS, Resolver
from jcache.units import parse_choice

if TYPE_CHECKING:
    from jcache.runtime.explain import Explanation

hear_always(registry.is_tracing)

_INSIDE: Final = "it is called inside jax.jit, jax.vmap or jax.grad: put jcache.jit around the outermost function"


class Jitted:
    """What `jit` makes of a function."""

    def __init__(
        self,
        function: Callable[..., Any],
        options: Mapping[str, Any],
        check: Check,
        depends_on: tuple[Dependency, ...] = (),
    ) -> None:
        tracing.prepare()
        self._jitted = _jitted(function, options)
        functools.update_wrapper(self, self._jitted, updated=())  # the names that JAX gives it
        functools.update_wrapper(self, function, assigned=())
        self.__depends_on__ = depends_on
        self._resolver = _resolver_of(function, options, check, depends_on)
        self._is_settled = self._resolver.is_settled
        self._unfit = _unfit(function)
        self._is_top_level = tracing.top_level() if self._unfit is None else lambda: False
        self._is_said = False

    @gives_arguments
    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """What the function returns."""
        if not self._is_top_level():
            self._say_where()
            return self._jitted(*args, **kwargs)
        try:
            result = self._resolver.jitted(*args, **kwargs)
        except BaseException as error:
            if not self._resolver.may_trace_instead(error, (args, kwargs)):
                raise
            return self(*args, **kwargs)
        if not self._is_settled():
            self._resolver.settle()
        return result

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """The method of an instance."""
        return self if instance is None else types.MethodType(self, instance)

    def lower(self, /, *args: Any, **kwargs: Any) -> Any:
        """As with `jax.jit`."""
        return self._jitted.lower(*args, **kwargs)

    def trace(self, /, *args: Any, **kwargs: Any) -> Any:
        """As with `jax.jit`."""
        return self._jitted.trace(*args, **kwargs)

    def eval_shape(self, /, *args: Any, **kwargs: Any) -> Any:
        """As with `jax.jit`."""
        return self._jitted.eval_shape(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """All else is as with `jax.jit`."""
        if (name.startswith("__") and name != "__signature__") or "_jitted" not in vars(self):
            raise AttributeError(name)
        return getattr(self._jitted, name)

    def clear_cache(self) -> None:
        """Has JAX forget what it has compiled in this process."""
        self._jitted.clear_cache()
        self._resolver.jitted.clear_cache()

    def _cache_size(self) -> int:
        """For how many types of arguments there is a program in this process."""
        size: int = self._jitted._cache_size() + self._resolver.jitted._cache_size()
        return size

    def __repr__(self) -> str:
        return repr(self._jitted) if "__wrapped__" in vars(self) else "<PjitFunction>"  # as with `jax.jit`

    def explain(self, /, *args: Any, **kwargs: Any) -> Explanation:
        """Whether a first call would start warm, and if not, what has changed; nothing is run or written."""
        if self._unfit is not None:
            return self._resolver.lookup.untold(self._unfit)
        return self._resolver.lookup.explain(args, kwargs)

    def resolver(self) -> Resolver:
        """One that knows of no call yet, to precompile."""
        ours = self._resolver
        return Resolver(ours.function, ours.options, depends_on=ours.depends_on, counts=False)

    def _say_where(self) -> None:
        """Tells once whoever records this process that the function is called where no trace can serve."""
        if not self._is_said and not is_nested():
            self._is_said = True
            observers.tell_trace(TraceCall(self._resolver.lookup.name, None, BYPASSED, self._unfit or _INSIDE))


def _unfit(function: Callable[..., Any]) -> str | None:
    """Why JAX may refuse to call a function when it is jitted, None if it does not: it keeps what it calls by these."""
    try:
        weakref.ref(function)
        hash(function)
    except Exception as error:  # noqa: BLE001 - the function may be an object with code of its own
        return f"it cannot be kept in JAX's tables: {error}"
    return None


def _jitted(function: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    """What `jax.jit` makes of it; what JAX warns of old options names the line that calls jcache."""
    if not OLD_OPTIONS.intersection(options):
        return tracing.jit(function, options)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        jitted = tracing.jit(function, options)
    for each in told:
        warn_outside(each.message, each.category)
    return jitted


def _resolver_of(
    function: Callable[..., Any], options: Mapping[str, Any], check: Check, depends_on: tuple[Dependency, ...]
) -> Resolver:
    """The resolver of a function, of one that its module holds always the same.

    So ``jcache.jit(function)(x)`` in a loop looks it up once.
    """
    if not _is_held(function):
        return Resolver(function, options, check, depends_on)
    asked = function, check, depends_on, tuple((name, type(value), value) for name, value in sorted(options.items()))
    try:
        resolver = _of_held.get(asked)
    except TypeError:  # an option that cannot be hashed
        return Resolver(function, options, check, depends_on)
    if resolver is None:
        for each in [each for each in list(_of_held) if not _is_held(each[0])]:
            _of_held.pop(each, None)
        resolver = _of_held[asked] = Resolver(function, options, check, depends_on)
    return resolver


def _is_held(function: Callable[..., Any]) -> bool:
    """Whether a function is what its module has under its name."""
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    return module is not None and vars(module).get(getattr(function, "__qualname__", "")) is function


_of_held: Final[dict[tuple[Any, ...], Resolver]] = {}
_LATER: Final[Any] = object()


def jit(
    function: Callable[..., Any] = _LATER,
    /,
    *,
    check: Check | str = Check.FIRST,
    depends_on: Callable[[], Any] | Iterable[Callable[[], Any]] = (),
    **options: Any,
) -> Any:
    """`jax.jit` whose programs start warm: with an earlier process's executable, without being traced or lowered.

    It is called like `jax.jit`, and what it returns is used like what `jax.jit` returns. The first call in a process
    for arguments of certain types looks the function up by its code, what its code reaches, its static arguments, the
    types of the others, and JAX's version and options; what was read while it was traced is compared as well. A trace
    is served only in a world in which it was compared: where a source, a distribution, an argument of the command line
    or another part of the program is new, the first start traces the function and compares. It uses the root that
    `jcache.enable` has put in use, and calls that itself if the program has not.

    Programs with lowering rules of their own, of several processes, or under a mesh that is in effect are traced as
    ever; so are functions that depend on what has no fingerprint, and those that call back to the host what a later
    process would not find or make again. `Jitted.explain` tells why.

    Args:
        function: which; left out where it is used as a decorator with arguments.
        check: which starts that a trace would serve are traced instead, and compared with it: ``"first"`` those in a
            new world (``"sample"`` is another word for it), ``"always"`` all, or ``"never"`` none. Such a start has the
            side effects of tracing, and runs what it has traced.
        depends_on: a function without parameters, or several; what they return when a call is looked up counts as if
            it were a static argument. So jcache learns of what it cannot see, such as a table in a database.
        options: of `jax.jit`.

    Raises:
        InvalidValue: there is no such check, or `depends_on` cannot be called.
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
    chosen, dependencies = parse_choice(Check, check, "is not a value of check"), parse_depends_on(depends_on)
    if function is _LATER:
        return lambda function: Jitted(function, options, chosen, dependencies)
    return Jitted(function, options, chosen, dependencies)
