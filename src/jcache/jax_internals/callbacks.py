"""Cache programs with host callbacks, which JAX up to 0.10.2 compiles again in every process.

From jax 0.6 on, the n-th callback of a program is lowered to a call with the number n. The functions behind the numbers
are an argument of compiling, and of loading. So an executable holds no address of the process that compiled it, equal
keys mean equal numbers in equal places, and the process that loads it binds its own functions. But:

- before jax 0.6, the program and its key hold the address of the function;
- before jaxlib 0.8.1, such an executable can be loaded only without functions;
- from jax 0.11 on, JAX stores and loads these programs itself;
- JAX from 0.6 to 0.10.2 loads any entry under its key without functions, and the process dies (SIGSEGV) when one is
  called. So these programs get separate keys, under which JAX without jcache never looks.

The recorder of `jcache run` loads this module, too, so it and the modules that it imports need the standard library and
JAX alone.
"""

# ruff: noqa: ANN401 - JAX's internals have no stable types

import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from ..patching import Patch, View
from .cache_hook import version, versions
from .versions import CALLBACKS_CACHED_BY_JAX, CALLBACKS_NUMBERED, can_bind_callbacks

BESIDE: Final = "_jcache_beside"  # the package in which the recorder loads this in a Python that may have no jcache
_TESTED_PLATFORMS: Final = frozenset({"cpu"})
_KEY_SUFFIX: Final = "jcache: host callbacks are bound on loading"
_IN_DOCSTRING: Final = "host_callbacks: collections.abc.Sequence[collections.abc.Callable]"  # jaxlib's
_WRITE_PARAMETERS: Final = ("cache_key", "compile_time_secs", "module_name", "backend", "executable", "host_callbacks")

_patches: list[Patch] = []


class _Bound(threading.local):
    """The callbacks of the program that this thread compiles, or reads from the cache."""

    callbacks: Sequence[Any] = ()
    has_own_key: bool = False  # not so where the program has set a custom hook after us

    def can_bind(self) -> bool:
        return bool(self.callbacks) and self.has_own_key


_bound = _Bound()


def cache_callbacks(*, on: bool) -> str | None:
    """Let JAX's cache keep programs with host callbacks where that is tested: jax 0.8.1 to 0.10.2, on the CPU.

    On other platforms these versions still compile such programs in every process.

    Returns:
        The reason why this JAX cannot keep them; None if it does, or if `on` is false.
    """
    recorders = sys.modules.get(f"{BESIDE}.jax_internals.callbacks")  # set on by `jcache run`: now the program decides
    if recorders is not None and recorders.__name__ != __name__:
        recorders.cache_callbacks(on=False)
    while _patches:
        _patches.pop().undo()
    if not on or version() >= CALLBACKS_CACHED_BY_JAX:
        return None
    if reason := _impossible():
        return reason
    from jax._src import cache_key, compilation_cache, compiler

    _patches.append(Patch(cache_key, "custom_hook", _with_key_of_their_own))
    _patches.append(Patch(compilation_cache, "get_executable_and_time", _with_callbacks_bound))
    _patches.append(Patch(compiler, "_cache_write", _with_callbacks_allowed))
    _patches.append(Patch(compiler, "compile_or_get_cached", _with_callbacks_known))
    return None


def _impossible() -> str | None:
    """Return the reason why this JAX cannot bind callbacks on loading, None if it can."""
    if version() < CALLBACKS_NUMBERED:
        return (
            f"jax {versions()[0]} compiles the addresses of host callbacks into the program; jax 0.8.1 and later do not"
        )
    from jax._src import cache_key, compilation_cache, compiler, lib

    loading = getattr(vars(lib)["xla_client"].Client, "deserialize_executable", None)
    if not can_bind_callbacks(version()) or _IN_DOCSTRING not in str(getattr(loading, "__doc__", "")):
        return (
            f"jaxlib {versions()[1]} cannot give host callbacks to a program that it loads; jaxlib 0.8.1 and later can"
        )
    for module, name, parameters in (
        (compiler, "compile_or_get_cached", ("backend", "computation", "devices", "compile_options", "host_callbacks")),
        (compiler, "_cache_write", _WRITE_PARAMETERS),
        (compilation_cache, "get_executable_and_time", ("cache_key", "compile_options", "backend")),
        (cache_key, "custom_hook", ()),
    ):
        if not _begins_with(getattr(module, name, None), parameters):
            return f"jax {versions()[0]} compiles in a way that jcache does not know ({name})"
    return None


def _begins_with(function: Any, parameters: tuple[str, ...]) -> bool:
    return function is not None and tuple(inspect.signature(function).parameters)[: len(parameters)] == parameters


@contextmanager
def _binding(callbacks: Sequence[Any]) -> Iterator[None]:
    before = _bound.callbacks, _bound.has_own_key
    _bound.callbacks, _bound.has_own_key = callbacks, False
    try:
        yield
    finally:
        _bound.callbacks, _bound.has_own_key = before


def _is_tested(callbacks: Sequence[Any], platform: str) -> bool:
    """Return whether callbacks can be bound to executables of a platform."""
    return platform in _TESTED_PLATFORMS and all(map(callable, callbacks))


@contextmanager
def loading(callbacks: Sequence[Any], platform: str) -> Iterator[bool]:
    """Bind callbacks to an executable that is loaded within the block; yields whether one may be loaded there."""
    if not callbacks or version() >= CALLBACKS_CACHED_BY_JAX:
        yield True
    elif _patches and _is_tested(callbacks, platform):
        with _binding(callbacks):
            _bound.has_own_key = True
            yield True
    else:
        yield False


def _with_callbacks_known(original: Callable[..., Any]) -> Callable[..., Any]:
    def compile_or_get_cached(
        backend: Any,
        computation: Any,
        devices: Any,
        compile_options: Any,
        host_callbacks: Sequence[Any],
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        with _binding(host_callbacks if _is_tested(host_callbacks, backend.platform) else ()):
            return original(backend, computation, devices, compile_options, host_callbacks, *args, **kwargs)

    return compile_or_get_cached


def _with_key_of_their_own(original: Callable[..., Any]) -> Callable[..., Any]:
    def custom_hook() -> str:
        _bound.has_own_key = True
        return str(original()) + (_KEY_SUFFIX if _bound.callbacks else "")

    return custom_hook


def _with_callbacks_bound(original: Callable[..., Any]) -> Callable[..., Any]:
    def get_executable_and_time(cache_key: str, compile_options: Any, backend: Any, *args: Any) -> Any:
        if _bound.can_bind():  # the client binds this process's callbacks to the executable that it loads
            load, callbacks = backend.deserialize_executable, list(_bound.callbacks)
            backend = View(backend, deserialize_executable=lambda *args: load(*args, callbacks))
        return original(cache_key, compile_options, backend, *args)

    return get_executable_and_time


def _with_callbacks_allowed(original: Callable[..., Any]) -> Callable[..., Any]:
    def cache_write(
        cache_key: str, seconds: float, module_name: str, backend: Any, executable: Any, host_callbacks: Sequence[Any]
    ) -> None:
        original(cache_key, seconds, module_name, backend, executable, () if _bound.can_bind() else host_callbacks)

    return cache_write
