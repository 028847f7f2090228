"""The fence: where jcache touches what JAX keeps private, with jcache._callbacks beside it and nothing else.

Every function looks first whether the JAX at hand is as expected (0.4.31 to 0.12 are). Where it is not, it says why,
changes nothing, and JAX goes on with what its own configuration says. All of it can be repeated and undone. JAX is
imported by the functions, so that importing this module costs nothing.
"""

# ruff: noqa: ANN401 - what is JAX's own has no types that last

import copy
import functools
import inspect
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, Final, Protocol

_STATE: Final = ("_cache", "_cache_initialized", "_cache_checked", "_cache_used")
_PATHS: Final = ("xla_gpu_per_fusion_autotune_cache_dir", "xla_gpu_kernel_cache_file")
_SET_WITH_THEM: Final = (
    "xla_gpu_enable_llvm_module_compilation_parallelism",
    "xla_gpu_experimental_autotune_cache_mode",
)
_PATHS_IN_KEYS: Final = ((0, 4, 36), (0, 11, 0))  # the first version that has them, and the first that no longer has

Listener = Callable[[str, float | None, dict[str, Any]], None]  # the event, its seconds if it has any, its details


class CompilationCache(Protocol):
    """What JAX asks of a cache: the bytes of an entry by its key."""

    def get(self, key: str) -> bytes | None: ...

    def put(self, key: str, value: bytes) -> None: ...


class Patch:
    """A function in a module of JAX's, replaced until `undo`."""

    def __init__(self, module: Any, name: str, replace: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Put what `replace` makes of the function in its place."""
        self._module = module
        self._name = name
        self._original = getattr(module, name)
        self._on = True
        ours = replace(self._original)

        @functools.wraps(self._original)
        def patched(*args: Any, **kwargs: Any) -> Any:
            return (ours if self._on else self._original)(*args, **kwargs)

        self._patched = patched
        setattr(module, name, patched)

    def undo(self) -> None:
        """Put the function back; where somebody else has replaced ours since, ours stays below, and does nothing."""
        self._on = False
        if getattr(self._module, self._name) is self._patched:
            setattr(self._module, self._name, self._original)


class Installed:
    """JAX's compilation cache, replaced until `uninstall`."""

    def __init__(self, caches: Any, make_cache: Callable[[str], CompilationCache]) -> None:
        """Replace it, also if JAX already uses another one."""

        def get_file_cache(path: str) -> tuple[Any, str]:
            return _as_jax_wants_it(caches, make_cache(path), path), path

        self._caches = caches
        self._patch: Patch | None = Patch(caches, "get_file_cache", lambda original: get_file_cache)
        self._before = _exchange(caches, {"_cache": None} | dict.fromkeys(_STATE[1:], False))

    def uninstall(self) -> None:
        """Put back what was there, with the directory that was in use then."""
        if self._patch is not None:
            self._patch.undo()
            self._patch = None
            _exchange(self._caches, self._before)


class _Adapter:
    """A cache of ours as JAX wants it; its class is made an heir of JAX's interface when it is needed."""

    def __init__(self, cache: CompilationCache, path: Path) -> None:
        self._cache = cache
        self._path = path  # JAX names it in its log

    def get(self, key: str) -> bytes | None:
        return self._cache.get(key)

    def put(self, key: str, value: bytes) -> None:
        self._cache.put(key, value)


_installed: Installed | None = None
_portable: Patch | None = None


def version() -> tuple[int, ...]:
    """The version of JAX, as numbers."""
    import jax

    return tuple(jax.__version_info__)


def versions() -> tuple[str, str]:
    """The versions of jax and of jaxlib."""
    import jax
    from jax._src.lib import version_str

    return jax.__version__, version_str


def process_index() -> int:
    """The number of this process among those of the program, 0 if it is alone; starts no backend."""
    from jax._src import distributed

    return int(distributed.global_state.process_id or 0)


def install(make_cache: Callable[[str], CompilationCache]) -> Installed | str:
    """Make JAX use a cache of ours for the directory that it is configured with.

    It takes effect at once, also if computations have already used another directory, or none. JAX's own check of the
    contents (`jax_compilation_cache_check_contents`) stays around ours.

    Args:
        make_cache: makes the cache for a directory, when JAX first needs it.

    Returns:
        What can be uninstalled again, or why this JAX must be left alone.
    """
    global _installed
    from jax._src import compilation_cache as caches

    if reason := _unexpected(caches):
        return reason
    if _installed is not None:
        _installed.uninstall()
    _installed = Installed(caches, make_cache)
    return _installed


def in_use() -> Path | None:
    """The directory of the cache that JAX uses now; None as long as it has not come to use one."""
    from jax._src import compilation_cache as caches

    path = getattr(getattr(caches, "_cache", None), "_path", None)
    return None if path is None else Path(str(path))


def used_before() -> bool:
    """Whether JAX has compiled something since it started, or since its cache was last exchanged or reset."""
    from jax._src import compilation_cache as caches

    return bool(getattr(caches, "_cache_checked", False))


def portable_keys(*, on: bool) -> str | None:
    """Keep the directory's path out of the keys, where JAX has it in them (0.4.36 to 0.10.2).

    The keys are those that JAX computes with `jax_persistent_cache_enable_xla_caches="none"`, while XLA's autotune
    cache keeps working. With XLA's kernel cache, which one has to ask for, they are as independent of the path, but
    from jax 0.7 on not quite those. On other versions nothing is done.

    Returns:
        Why it cannot be done, or None.
    """
    global _portable
    if _portable is not None:
        _portable.undo()
        _portable = None
    if not on or not _PATHS_IN_KEYS[0] <= version() < _PATHS_IN_KEYS[1]:
        return None
    from jax._src import cache_key, lib

    new_options: Any = vars(lib)["xla_client"].CompileOptions
    options = new_options()
    function = getattr(cache_key, "_hash_serialized_compile_options", None)
    if function is None or not all(hasattr(_debug_options(options), name) for name in _PATHS):
        return f"jax {versions()[0]} computes its keys in a way that jcache does not know"

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        def hash_without_paths(hash_obj: Any, compile_options_obj: Any, *args: Any, **kwargs: Any) -> Any:
            hashed = copy.deepcopy(compile_options_obj)
            found = new_options()  # with what XLA_FLAGS say, as they are where JAX sets none of these
            for name in _PATHS + _SET_WITH_THEM:
                usual = getattr(_debug_options(found), name, None)
                # a value once set is serialized, even if it is the usual one
                if usual is not None and getattr(_debug_options(hashed), name) != usual:
                    setattr(_debug_options(hashed), name, usual)
            return original(hash_obj, hashed, *args, **kwargs)

        return hash_without_paths

    _portable = Patch(cache_key, function.__name__, replace)
    return None


def listen(callback: Listener) -> Callable[[], None]:
    """Hear of every event that JAX records, from whatever thread, until the function returned is called.

    What the callback raises is raised in the program's own computation, so it should raise nothing.
    """
    from jax._src import monitoring

    listening = True

    def on_event(event: str, **details: Any) -> None:
        if listening:
            callback(event, None, details)

    def on_duration(event: str, duration_secs: float, **details: Any) -> None:
        if listening:
            callback(event, duration_secs, details)

    def stop() -> None:
        nonlocal listening
        listening = False  # for a JAX that cannot forget a listener
        for kind, listener in (("event", on_event), ("event_duration", on_duration)):
            old_name = f"_unregister_{kind}_listener_by_callback"
            forget = getattr(monitoring, f"unregister_{kind}_listener", getattr(monitoring, old_name, None))
            if forget is not None:
                with suppress(
                    AssertionError, ValueError
                ):  # the program has cleared all of them, or this is the second time
                    forget(listener)

    monitoring.register_event_listener(on_event)
    monitoring.register_event_duration_secs_listener(on_duration)
    return stop


def _unexpected(caches: Any) -> str | None:
    """What is not as expected in JAX's module for its cache."""
    from jax._src import compilation_cache_interface

    missing = [name for name in (*_STATE, "get_file_cache") if not hasattr(caches, name)]
    if not hasattr(compilation_cache_interface, "CacheInterface"):
        missing.append("CacheInterface")
    if not missing:
        with suppress(TypeError):
            inspect.signature(caches.get_file_cache).bind("path")
            return None
        missing = ["get_file_cache(path)"]
    return f"jax {versions()[0]} has no {', '.join(missing)} in its compilation cache"


def _exchange(caches: Any, state: dict[str, Any]) -> dict[str, Any]:
    """Give JAX's cache another state; returns the one that it had."""
    with getattr(caches, "_cache_initialized_mutex", nullcontext()):
        before = {name: getattr(caches, name) for name in state}
        for name, value in state.items():
            setattr(caches, name, value)
    return before


def _as_jax_wants_it(caches: Any, cache: CompilationCache, path: str) -> Any:
    """The cache as an instance of JAX's interface, within JAX's own check of the contents if that is asked for."""
    from jax._src import config
    from jax._src.compilation_cache_interface import CacheInterface

    adapter = type("JcacheCompilationCache", (_Adapter, CacheInterface), {})(cache, Path(path))
    check = getattr(config, "compilation_cache_check_contents", None)
    return caches.VerificationCache(adapter) if check is not None and check.value else adapter


def _debug_options(compile_options: Any) -> Any:
    """A view into the options, which must outlive it."""
    return compile_options.executable_build_options.debug_options
