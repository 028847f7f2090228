"""The keys that JAX computes for its cache: which directories' keys are tried, and who hears of them.

JAX is imported by the functions, so that importing this module costs nothing.
"""

# ruff: noqa: ANN401 - what is JAX's own has no types that last

import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final

from jcache.jax_internals.path_keys import with_path_keys
from jcache.patching import Patch

_PARAMETERS: Final = ("module", "devices", "compile_options", "backend")


class _Keys:
    """What is done with each key."""

    patch: Patch | None = None
    try_paths: Callable[[Callable[..., str]], Callable[..., str]] | None = None
    heard: Callable[[str], None] | None = None


def try_path_keys(
    directories: Callable[[], Iterable[str]], is_stored: Callable[[str], bool], found: Callable[[str, str], object]
) -> None:
    """Have JAX use the key that depends on a directory's path where only such an entry is stored; arguments as there.

    It holds until `try_no_path_keys`.
    """
    _Keys.try_paths = lambda original: with_path_keys(original, directories, is_stored, found)
    _install()


def try_no_path_keys() -> None:
    """Have JAX use no key that depends on a path any more."""
    _Keys.try_paths = None
    _install()


def tries_path_keys() -> bool:
    """Whether keys that depend on a path are tried; the recorder of `jcache run` then tries none itself."""
    return _Keys.try_paths is not None


def hear(callback: Callable[[str], None] | None) -> None:
    """Have a function called with each key under which JAX looks; None for no function any more."""
    _Keys.heard = callback
    _install()


def unexpected() -> bool:
    """Whether this JAX computes its keys in a way that jcache does not know."""
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
