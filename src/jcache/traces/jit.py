"""`@jcache.jit`: `jax.jit` whose programs start warm, without being traced again.

A function is jitted by `jax.jit` twice, with the same options. A call at the top level goes to a jitted function that
JAX traces through a `jcache.traces.resolver.Resolver`. A call while something else is traced or transformed, and any
other use such as ``lower``, goes to that of `jcache.traces.inside.Inside`. So dispatch, donation, sharding and devices
are JAX's own either way.

A failure of the cache is no failure of the program: the function is traced, and `Jitted.explain` says why.
"""

# ruff: noqa: ANN401 - what functions take and return is anything

from __future__ import annotations

import copy
import functools
import types
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from jcache.fingerprint.depends_on import Dependency, parse_depends_on
from jcache.fingerprint.io.audit import record_always
from jcache.fingerprint.io.open_blocks import are_none
from jcache.fingerprint.weak_map import WeakIdentities
from jcache.jax_internals import tracing
from jcache.runs import observers
from jcache.runs.calls import BYPASSED, TraceCall
from jcache.runtime import side_effects
from jcache.runtime.build_context import is_nested
from jcache.runtime.warn import warn_outside
from jcache.runtime.worlds.judgement import Check
from jcache.traces.arguments import holds_arguments
from jcache.traces.inside import DEPRECATED_OPTIONS
from jcache.traces.resolver import Resolver
from jcache.units import parse_choice

if TYPE_CHECKING:
    from jcache.runtime.explain import Explanation

record_always()

_INSIDE: Final = "it is called inside jax.jit, jax.vmap or jax.grad: put jcache.jit around the outermost function"


class Jitted:
    """A function that `jit` has jitted.

    Args:
        function: the function.
        options: options of `jax.jit`.
        check: which starts that a stored trace would serve are traced and compared.
        depends_on: functions whose values count as static arguments.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        options: Mapping[str, Any],
        check: Check,
        depends_on: tuple[Dependency, ...] = (),
    ) -> None:
        tracing.prepare()
        self._jitted = _jitted(function, options)
        functools.update_wrapper(self, self._jitted, updated=())  # the names that JAX gives to it
        functools.update_wrapper(self, function, assigned=())
        self.__depends_on__ = depends_on
        self._resolver = _resolver_of(function, options, check, depends_on)
        self._is_settled = self._resolver.is_settled
        self._unfit = _unfit(function)
        self._is_top_level = tracing.top_level() if self._unfit is None else lambda: False
        self._is_reported = False

    @holds_arguments
    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Return the result of the function."""
        if not self._is_top_level():
            self._report_bypass()
            side_effects.settle_for(self._resolver.function)
            result = self._elsewhere(*args, **kwargs)
            self._resolver.inside.hand_on()
            return result
        try:
            result = self._resolver.jitted(*args, **kwargs)
        except BaseException as error:
            if not self._resolver.may_trace_instead(error, (args, kwargs)):
                raise
            return self(*args, **kwargs)
        if not self._is_settled():
            self._resolver.settle()
        if not are_none():
            self._resolver.inside.hand_on()
        return result

    @property
    def _elsewhere(self) -> Any:
        """The jitted function of all uses but calls at the top level."""
        return self._jitted if self._unfit is not None else self._resolver.inside.jitted

    def __reduce__(self) -> Any:
        """Have a copy, in this process or another one, jit the function again, as with `jax.jit`."""
        ours = self._resolver
        return _again, (ours.function, ours.options, ours.lookup.check, ours.depends_on)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Return a copy for the same function, as with `jax.jit`."""
        return copy.copy(self)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Return the method of an instance."""
        return self if instance is None else types.MethodType(self, instance)

    def lower(self, /, *args: Any, **kwargs: Any) -> Any:
        """Lower the function for some arguments, as with `jax.jit`."""
        side_effects.settle_for(self._resolver.function)
        return self._elsewhere.lower(*args, **kwargs)

    def trace(self, /, *args: Any, **kwargs: Any) -> Any:
        """Trace the function for some arguments, as with `jax.jit`."""
        side_effects.settle_for(self._resolver.function)
        return self._elsewhere.trace(*args, **kwargs)

    def eval_shape(self, /, *args: Any, **kwargs: Any) -> Any:
        """Return the shapes and dtypes of the result for some arguments, as with `jax.jit`."""
        side_effects.settle_for(self._resolver.function)
        return self._elsewhere.eval_shape(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of what `jax.jit` has made of the function."""
        if (name.startswith("__") and name != "__signature__") or "_jitted" not in vars(self):
            raise AttributeError(name)
        return getattr(self._jitted, name)

    def clear_cache(self) -> None:
        """Make JAX forget the programs of this function that it has compiled in this process."""
        if self._resolver.inside.is_used:
            self._elsewhere.clear_cache()
        self._resolver.jitted.clear_cache()
        self._resolver.lookup.times_cleared += 1

    def _cache_size(self) -> int:
        """Return the number of programs of this function in this process: one for all arguments of the same types."""
        size: int = self._elsewhere._cache_size() if self._resolver.inside.is_used else 0
        return size + int(self._resolver.jitted._cache_size())

    def __repr__(self) -> str:
        return repr(self._jitted) if "__wrapped__" in vars(self) else "<PjitFunction>"  # as with `jax.jit`

    def explain(self, /, *args: Any, **kwargs: Any) -> Explanation:
        """Return whether a first call would start warm, and if not, what has changed; nothing is run or written.

        Args:
            args: the positional arguments of the call.
            kwargs: the keyword arguments of the call.
        """
        if self._unfit is not None:
            return self._resolver.lookup.explain_without_key(self._unfit)
        return self._resolver.lookup.explain(args, kwargs)

    def resolver(self) -> Resolver:
        """Return a new resolver of the function, which has resolved no call yet; `precompile` uses it."""
        ours = self._resolver
        return Resolver(ours.function, ours.options, depends_on=ours.depends_on, counts=False)

    def _report_bypass(self) -> None:
        """Report, the first time only, that the function was called where no stored trace can serve it."""
        if not self._is_reported and not is_nested():
            self._is_reported = True
            observers.tell_trace(TraceCall(self._resolver.lookup.name, None, BYPASSED, self._unfit or _INSIDE))


def _again(
    function: Callable[..., Any], options: Mapping[str, Any], check: Check, depends_on: tuple[Dependency, ...]
) -> Jitted:
    return Jitted(function, options, check, depends_on)


def _unfit(function: Callable[..., Any]) -> str | None:
    """Return the reason why JAX may refuse to call a function once it is jitted; None if there is none.

    JAX finds jitted functions in its tables by their hashes, and refers to them weakly.
    """
    try:
        weakref.ref(function)
        hash(function)
    except Exception as error:  # noqa: BLE001 - the function may be an object with code of its own
        return f"it cannot be kept in JAX's tables: {error}"
    return None


def _jitted(function: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    """Jit a function by `jax.jit`; JAX's warnings of deprecated options name the line that calls jcache."""
    if not DEPRECATED_OPTIONS.intersection(options):
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
    """Return the resolver of a function; it is the same for equal options, as long as the function lives.

    So a loop that calls ``jcache.jit(function)(x)`` looks the function up once, as JAX traces it once.
    """
    known: dict[tuple[Any, ...], Resolver] | None
    asked = check, tuple((name, type(value), value) for name, value in sorted(options.items()))
    if depends_on:  # which may refer to the function, and would keep it alive
        return Resolver(function, options, check, depends_on)
    try:
        if (known := _resolvers.get(function)) is None:
            _resolvers.put(function, known := {})
        if asked not in known:
            known[asked] = Resolver(function, options, check, depends_on)
        return known[asked]
    except TypeError:  # a function that cannot be referred to weakly, or an option that cannot be hashed
        return Resolver(function, options, check, depends_on)


_resolvers: Final[WeakIdentities[dict[tuple[Any, ...], Resolver]]] = WeakIdentities()
_LATER: Final[Any] = object()


def jit(
    function: Callable[..., Any] = _LATER,
    /,
    *,
    check: Check | str = Check.FIRST,
    depends_on: Callable[[], Any] | Iterable[Callable[[], Any]] = (),
    **options: Any,
) -> Any:
    """Jit a function so that its programs start warm: with an earlier process's executable, neither traced nor lowered.

    It is called like `jax.jit`, and its result is used like that of `jax.jit`. The first call in a process for
    arguments of certain types looks up a stored trace by the function's code, everything that the code reaches, the
    static arguments, the types of the other arguments, the mesh in effect, and JAX's version and options. What was read
    while it was traced, such as a file, must be unchanged, too. A trace is served only in a world in which it was
    compared: where a source, a distribution, an argument of the command line or another part of the program is new, the
    first start traces the function and compares. The traces are in the root that `jcache.enable` has put in use; if the
    program has not called `jcache.enable`, the first look-up calls it.

    `jax.jit` traces the function, and nothing is stored, if the program has lowering rules of its own; if the function
    depends on something that has no fingerprint; or if it calls back to the host and a later process could not find or
    make the callback again. `Jitted.explain` says why.

    Args:
        function: the function; left out where `jit` is used as a decorator with arguments.
        check: which starts that a stored trace would serve are traced instead, and compared with it: ``"first"`` those
            in a new world (``"sample"`` is another word for it), ``"always"`` all, or ``"never"`` none. Such a start
            has the side effects of tracing, and runs the program that it has traced.
        depends_on: a function without parameters, or several; their values when a call is looked up count like static
            arguments. So jcache learns of values that it cannot see, such as a table in a database.
        options: options of `jax.jit`.

    Returns:
        A `Jitted`; without a function, a decorator that returns one.

    Raises:
        InvalidValue: there is no such check, or `depends_on` cannot be called.
        TypeError, ValueError: as for `jax.jit`.

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
