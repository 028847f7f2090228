"""Replace JAX's cache by jcache's, and put it back.

Every function first checks whether the installed JAX is as expected (0.4.31 to 0.12 are). If not, it returns the reason
and changes nothing, and JAX goes on as configured. Every change can be repeated and undone. The functions import JAX,
so that importing this module costs nothing.
"""

# ruff: noqa: ANN401 - JAX's internals have no stable types

import inspect
import sys
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, Final, Protocol

from ..patching import Patch, WritesOfAllRanks
from .path_keys import AUTOTUNE, KERNELS, in_keys, trying, without_xla_caches
from .versions import NEWEST_TESTED

_STATE_NAMES: Final = ("_cache", "_cache_initialized", "_cache_checked", "_cache_used")


class CompilationCache(Protocol):
    """The interface that JAX requires of a cache, and the methods that JAX's own cache has besides."""

    def get(self, key: str) -> bytes | None: ...

    def put(self, key: str, value: bytes) -> None: ...

    def clear(self) -> None: ...

    def __len__(self) -> int: ...


MakeCache = Callable[[str], CompilationCache | None]


class InstalledCache:
    """JAX's compilation cache, replaced until `uninstall`."""

    def __init__(self, caches: Any, make_cache: MakeCache) -> None:
        """Replace JAX's cache, even if JAX already uses one."""

        def replace(original: Callable[..., Any]) -> Callable[..., Any]:
            def get_file_cache(path: str) -> Any:
                cache = make_cache(path)
                return original(path) if cache is None else (_as_jax_wants_it(caches, cache, path), path)

            return get_file_cache

        self._caches = caches
        self._patch: Patch | None = Patch(caches, "get_file_cache", replace)
        self._before = _exchange(caches, {"_cache": None} | dict.fromkeys(_STATE_NAMES[1:], False))

    def uninstall(self) -> None:
        """Put back the previous cache, with the directory that was in use then."""
        if self._patch is not None:
            self._patch.undo()
            self._patch = None
            _exchange(self._caches, self._before)


class _Adapter:
    """A cache of jcache with JAX's interface; a class that is derived from both is made on use."""

    def __init__(self, cache: CompilationCache, path: Path) -> None:
        self._cache = cache
        self._path = path  # JAX names it in its log

    def get(self, key: str) -> bytes | None:
        return self._cache.get(key)

    def put(self, key: str, value: bytes) -> None:
        self._cache.put(key, value)

    def clear(self) -> None:
        self._cache.clear()

    def __len__(self) -> int:
        return len(self._cache)

    def __bool__(self) -> bool:
        return True


_installed: InstalledCache | None = None
_portable: Patch | None = None
_all_ranks: WritesOfAllRanks | None = None


def version() -> tuple[int, ...]:
    """Return the version of JAX, as numbers."""
    import jax

    return tuple(jax.__version_info__)


def versions() -> tuple[str, str]:
    """Return the versions of jax and of jaxlib."""
    import jax
    from jax._src.lib import version_str

    return jax.__version__, version_str


def newer_than_tested() -> str | None:
    """Return a sentence if the installed JAX is newer than any tested one; it is for information only."""
    if version()[:2] <= NEWEST_TESTED:
        return None
    newest = ".".join(map(str, NEWEST_TESTED))
    return f"jax {versions()[0]} is newer than the newest that jcache was tested with ({newest})"


def platforms() -> frozenset[str] | None:
    """Return JAX's platforms, such as ``cpu`` and ``tpu``; None while it has started none. Start no backend."""
    from jax._src import xla_bridge

    return frozenset(map(str, getattr(xla_bridge, "_backends", None) or ())) or None


def process_index() -> int:
    """Return the number of this process in a multi-process program, 0 in any other; start no backend."""
    from jax._src import distributed

    return int(distributed.global_state.process_id or 0)


def install(make_cache: MakeCache) -> InstalledCache | str:
    """Make JAX use a cache of jcache for the directory that it is configured with.

    It takes effect at once, even if computations have already used another directory, or none. JAX's own check of the
    contents (`jax_compilation_cache_check_contents`) wraps the cache.

    Args:
        make_cache: returns the cache of a directory, when JAX first needs it; None to leave the directory to JAX.

    Returns:
        The installed cache, which can be uninstalled, or the reason why this JAX cannot have one.
    """
    global _installed
    from jax._src import compilation_cache as caches

    if reason := _unexpected(caches):
        return reason
    if _installed is not None:
        _installed.uninstall()
    _installed = InstalledCache(caches, make_cache)
    return _installed


def reset() -> None:
    """Make JAX forget its cache; on the next use it makes the one that is configured then."""
    from jax.experimental.compilation_cache import compilation_cache

    compilation_cache.reset_cache()


def in_use() -> Path | None:
    """Return the directory of the cache that JAX uses; None until its first use."""
    from jax._src import compilation_cache as caches

    path = getattr(getattr(caches, "_cache", None), "_path", None)
    return None if path is None else Path(str(path))


def used_before() -> bool:
    """Return whether JAX has compiled a program since it started, or since its cache was replaced or reset."""
    from jax._src import compilation_cache as caches

    return bool(getattr(caches, "_cache_checked", False))


def portable_keys(*, on: bool) -> str | None:
    """Keep the directory's path out of the keys, where JAX includes it (0.4.36 to 0.10.2).

    The keys are those that JAX computes with `jax_persistent_cache_enable_xla_caches="none"`, while the caches of XLA
    that JAX is set to use keep working. On other versions of JAX nothing is done.

    Returns:
        The reason why it cannot be done, or None.
    """
    global _portable
    if _portable is not None:
        _portable.undo()
        _portable = None
    if not on or not in_keys(versions()[0]):
        return None
    from jax._src import cache_key, lib

    compile_options: Any = vars(lib)["xla_client"].CompileOptions
    # making an instance would read XLA_FLAGS once and for all, perhaps before the program has set them
    debug_options = getattr(sys.modules[compile_options.__module__], "DebugOptions", None)
    function = getattr(cache_key, "_hash_serialized_compile_options", None)
    if function is None or not all(hasattr(debug_options, name) for name in (AUTOTUNE, KERNELS)):
        return f"jax {versions()[0]} computes its keys in a way that jcache does not know"

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        def hash_without_paths(hash_obj: Any, compile_options_obj: Any, *args: Any, **kwargs: Any) -> Any:
            if trying.now:
                return original(hash_obj, compile_options_obj, *args, **kwargs)
            return original(hash_obj, without_xla_caches(compile_options_obj), *args, **kwargs)

        return hash_without_paths

    _portable = Patch(cache_key, function.__name__, replace)
    return None


def all_ranks_write(*, on: bool) -> str | None:
    """Let every process of a multi-process program write to the cache; in JAX only the first one does.

    Everything else that depends on the rank stays the same.

    Returns:
        The reason why it cannot be done, or None.
    """
    global _all_ranks
    if _all_ranks is not None:
        _all_ranks.undo()
        _all_ranks = None
    if not on:
        return None
    from jax._src import compiler, distributed

    write = inspect.unwrap(getattr(compiler, "_cache_write", lambda: None))
    if getattr(compiler, "distributed", None) is not distributed or not {
        "distributed",
        "global_state",
        "process_id",
    } <= set(write.__code__.co_names):
        return f"jax {versions()[0]} chooses the process that writes to the cache in a way that jcache does not know"
    _all_ranks = WritesOfAllRanks(compiler)
    return None


def _unexpected(caches: Any) -> str | None:
    """Return how JAX's cache module differs from the expected one, None if it does not."""
    from jax._src import compilation_cache_interface

    missing = [name for name in (*_STATE_NAMES, "get_file_cache") if not hasattr(caches, name)]
    if not hasattr(compilation_cache_interface, "CacheInterface"):
        missing.append("CacheInterface")
    if not missing:
        with suppress(TypeError):
            inspect.signature(caches.get_file_cache).bind("path")
            return None
        missing = ["get_file_cache(path)"]
    return f"jax {versions()[0]} has no {', '.join(missing)} in its compilation cache"


def _exchange(caches: Any, state: dict[str, Any]) -> dict[str, Any]:
    """Replace the state of JAX's cache module; return the previous one."""
    with getattr(caches, "_cache_initialized_mutex", nullcontext()):
        before = {name: getattr(caches, name) for name in state}
        for name, value in state.items():
            setattr(caches, name, value)
    return before


def _as_jax_wants_it(caches: Any, cache: CompilationCache, path: str) -> Any:
    """Return the cache as an instance of JAX's interface, wrapped in JAX's check of the contents if that is on."""
    from jax._src import config
    from jax._src.compilation_cache_interface import CacheInterface

    adapter = type("JcacheCompilationCache", (_Adapter, CacheInterface), {})(cache, Path(path))
    check = getattr(config, "compilation_cache_check_contents", None)
    return caches.VerificationCache(adapter) if check is not None and check.value else adapter
