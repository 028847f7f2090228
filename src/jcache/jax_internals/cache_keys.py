"""Hook into the keys that JAX computes for its cache: try keys of other directories, and report each key.

The functions import JAX, so that importing this module costs nothing.
"""

# ruff: noqa: ANN401 - JAX's internals have no stable types

import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final

from jcache.jax_internals.path_keys import with_path_keys
from jcache.patching import Patch

_PARAMETERS: Final = ("module", "devices", "compile_options", "backend")


class _Keys:
    """The state of the hook."""

    patch: Patch | None = None
    try_paths: Callable[[Callable[..., str]], Callable[..., str]] | None = None
    heard: Callable[[str], None] | None = None


def try_path_keys(
    directories: Callable[[], Iterable[str]], is_stored: Callable[[str], bool], found: Callable[[str, str], object]
) -> None:
    """Have JAX use a key that depends on a directory's path where only that key has an entry; see `with_path_keys`.

    It holds until `try_no_path_keys`.
    """
    _Keys.try_paths = lambda original: with_path_keys(original, directories, is_stored, found)
    _install()


def try_no_path_keys() -> None:
    """End the effect of `try_path_keys`."""
    _Keys.try_paths = None
    _install()


def tries_path_keys() -> bool:
    """Return whether keys that depend on a path are tried; if so, the recorder of `jcache run` does not try them."""
    return _Keys.try_paths is not None


def hear(callback: Callable[[str], None] | None) -> None:
    """Have a function called with each key that JAX looks up; None ends that."""
    _Keys.heard = callback
    _install()


def unexpected() -> bool:
    """Return whether this JAX computes its keys in an unknown way."""
    from jax._src import compilation_cache

    function = getattr(compilation_cache, "get_cache_key", None)
    return function is None or tuple(inspect.signature(function).parameters)[: len(_PARAMETERS)] != _PARAMETERS


def _install() -> None:
    if _Keys.patch is not None:
        _Keys.patch.undo()
        _Keys.patch = None
    if (_Keys.try_paths is None and _Keys.heard is None) or unexpected():
        return
    from jax._src import compilation_cache

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        get = original if _Keys.try_paths is None else _Keys.try_paths(original)

        def get_cache_key(*args: Any, **kwargs: Any) -> Any:
            key = get(*args, **kwargs)
            if _Keys.heard is not None:
                _Keys.heard(key)
            return key

        return get_cache_key

    _Keys.patch = Patch(compilation_cache, "get_cache_key", replace)
