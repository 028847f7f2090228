"""The state of JAX that a trace depends on, besides the function and its arguments, and state that forbids a hit.

The functions import JAX, so that importing this module costs nothing.
"""

# ruff: noqa: ANN401 - JAX's internals have no stable types

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial, update_wrapper
from itertools import count
from operator import is_
from typing import Any, Final

from jcache.jax_internals.avals import type_of
from jcache.jax_internals.cache_hook import versions
from jcache.jax_internals.registry import mesh_in_effect
from jcache.package import OWN_FILES, PACKAGE

# Beginnings of the names of options that no trace depends on: places of caches, logging, display of errors.
_UNUSED_BY_TRACES: Final = (
    "jax_backend_target", "jax_captured_constants_", "jax_check_proxy_envs", "jax_compilation_cache_",
    "jax_compiler_detailed_logging", "jax_cross_host_", "jax_debug_log_modules", "jax_dump_",
    "jax_enable_compilation_cache", "jax_explain_cache_misses", "jax_hlo_source_file", "jax_include_", "jax_log",
    "jax_mtls_", "jax_persistent_cache_", "jax_platforms", "jax_pprint_", "jax_raise_persistent_cache_errors",
    "jax_traceback_", "jax_tracer_error_",
)  # fmt: skip
_numbers: Final = count(1)
_AGAINST_REPLAY: Final = {  # options with which somebody observes a program while it runs or is traced
    "jax_disable_jit": "jit is disabled",
    "jax_debug_nans": "jax_debug_nans is on",
    "jax_debug_infs": "jax_debug_infs is on",
    "jax_check_tracer_leaks": "jax_check_tracer_leaks is on",
    "jax_no_tracing": "jax_no_tracing is on",
    "jax_no_execution": "jax_no_execution is on",
    "jax_enable_checks": "jax_enable_checks is on",
    "jax_debug_key_reuse": "jax_debug_key_reuse is on",
}


@cache
def prepare() -> None:
    """Make JAX hide jcache's frames as its own ones, in tracebacks and where it names the line of an operation."""
    from jax._src import source_info_util, traceback_util

    traceback_util.register_exclusion(PACKAGE)
    source_info_util.register_exclusion(PACKAGE)


@cache
def _clearing() -> Callable[[], int]:
    from jax._src import util

    made: Callable[[], int] = util.cache(max_size=1, trace_context_in_key=False)(lambda: next(_numbers))
    return made


def clearing() -> int:
    """Return a number that is another one each time that the program has called `jax.clear_caches`."""
    return _clearing()()


def jit(function: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    """Return what JAX's own `jax.jit` makes of a function, also where a program has put another in its place."""
    from jax._src import api

    return api.jit(function, **options)


def give_name(stand_in: Callable[..., Any], function: Callable[..., Any]) -> None:
    """Give a function the name, signature and source of the one that it stands in for, as `jax.jit` reads them.

    JAX looks through a `functools.partial` for the name and the source, but not through one in ``__wrapped__``.
    """
    import inspect

    update_wrapper(stand_in, function)
    inner = function
    while isinstance(inner, partial):
        inner = inner.func
    stand_in.__name__ = str(getattr(inner, "__name__", "<unnamed function>"))
    with suppress(TypeError, ValueError):  # it has no signature
        vars(stand_in).update(__signature__=inspect.signature(function), __wrapped__=inner)


def top_level() -> Callable[[], bool]:
    """Return JAX's function that returns whether this thread is neither tracing nor transforming."""
    from jax._src import core

    clean: Callable[[], bool] = core.trace_state_clean
    return clean


def are_tracers(leaves: Iterable[Any]) -> bool:
    """Return whether all of some leaves are tracers."""
    from jax.core import Tracer

    return all(isinstance(leaf, Tracer) for leaf in leaves)


def are_inputs(leaves: Sequence[Any]) -> bool:
    """Return whether some tracers are all inputs of the current trace, each once and in order.

    The inputs are variables of the trace, and each tracer stands for one; up to jax 0.6 the trace has the mapping.
    """
    if not leaves:
        return True
    trace = leaves[0]._trace
    known = getattr(trace.frame, "tracer_to_var", None)
    variables = [leaf.val if known is None else known.get(id(leaf)) for leaf in leaves if leaf._trace is trace]
    inputs = list(trace.frame.invars)
    return len(inputs) == len(variables) and all(map(is_, inputs, variables))


def first_computed(results: Sequence[Any], leaves: Iterable[Any]) -> int | None:
    """Return the number of a traced function's first result that is no argument; None if there is none."""
    import jax
    from jax.core import Tracer

    is_a: Any = vars(jax.dtypes)["issubdtype"]
    given = {id(leaf) for leaf in leaves}
    for i, value in enumerate(results):
        if isinstance(value, Tracer) and id(value) not in given and not is_a(value.dtype, jax.dtypes.extended):
            return i
    return None


def settings() -> dict[str, str]:
    """Return the options of JAX that a trace may depend on, with this thread's values."""
    import jax

    values = jax.config.values  # a property that makes a new dict each time
    names = [name for name in sorted(values) if not name.startswith(_UNUSED_BY_TRACES)]
    return {name: _text(getattr(jax.config, name, values[name])) for name in names}


def setup() -> dict[str, str]:
    """Return the version of JAX, the platform, how many devices a function may use, and the mesh in effect."""
    import jax

    devices = f"{jax.device_count()} (local: {jax.local_device_count()})"
    mesh = mesh_in_effect()
    found = {"jax": versions()[0], "platform": jax.default_backend(), "number of devices": devices}
    return found | ({"mesh in effect": mesh} if mesh else {})


def reason_not_to_replay() -> str | None:
    """Return the reason why programs must not be replayed now, None if there is none."""
    import jax

    for name, reason in _AGAINST_REPLAY.items():
        if getattr(jax.config, name, False):
            return reason
    return _context()


def _context() -> str | None:
    """Return the context manager around a call that changes its program, None if there is none."""
    from jax._src import config

    for name in ("compute_on_context_manager", "xla_metadata_context_manager"):
        if getattr(getattr(config, name, None), "value", None):
            return f"{name.removesuffix('_context_manager')} is in effect"
    return None


def _text(value: Any) -> str:
    """Return an option's value as text; the text of a device is its platform and number."""
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    return f"{type(value).__name__} {getattr(value, 'name', None) or value}"


def types_of(values: Iterable[Any]) -> list[str]:
    """Return shape and dtype of tracers, or of values that JAX can trace."""
    avals = map(type_of, values)
    return [f"{getattr(aval, 'shape', None)}{getattr(getattr(aval, 'dtype', None), 'name', '')}" for aval in avals]


def is_of_jax(error: Exception) -> bool:
    """Return whether an error comes from within JAX or jcache, and not from a signal's handler or a listener."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return at is not None and at.tb_frame.f_code.co_filename.startswith(_homes())


@cache
def _homes() -> tuple[str, ...]:
    import jax
    import jaxlib

    return (OWN_FILES, *(f"{os.path.dirname(str(package.__file__))}{os.sep}" for package in (jax, jaxlib)))
