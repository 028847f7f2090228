"""Make JAX also try the keys under which it alone, or `jcache.enable()`, has stored entries in its directory.

`jcache.jax_internals.path_keys` has the keys. This module needs the standard library and JAX alone, as
`jcache.runs.recorder.listener`.
"""

# ruff: noqa: ANN401, BLE001, S110, SIM105 - as in the recorder

import sys
from _thread import get_ident
from time import time

from ...jax_internals import path_keys

if False:  # for the type checker: typing and collections.abc are not needed to run
    from collections.abc import Callable
    from typing import Any

    Line = dict[str, Any]


def try_others(
    module: "Any",
    spellings: "list[str]",
    cache_dir: str,
    write_line: "Callable[[Line], object]",
    is_ours: "Callable[[], bool]",
) -> None:
    """Replace JAX's function that computes keys, for the rest of the process.

    Args:
        module: ``jax._src.compilation_cache``.
        spellings: the strings that may stand for the run's directory in keys of its entries.
        cache_dir: the run's directory; the program may set another one.
        write_line: writes a line into the process's log.
        is_ours: returns whether the parent `jcache run`, and not the user, has turned XLA's caches off.
    """
    plain, version = module.get_cache_key, str(getattr(sys.modules.get("jax.version"), "__version__", ""))

    def configured() -> str:
        return str(module.config.compilation_cache_dir.value or "")

    def directories() -> "list[str]":
        if not path_keys.can_be_in_keys(version) or _tries_path_keys():
            return []
        theirs = configured()
        if "://" in theirs:
            return [theirs] if path_keys.in_keys(version) and is_ours() else []
        known = spellings if theirs == cache_dir else [theirs]
        return [*known, path_keys.NO_PATH] if path_keys.in_keys_now(version) and path_keys.xla_caches() else known

    def note(path_key: str, key: str) -> None:
        try:
            write_line({"e": "path_key", "t": time(), "th": get_ident(), "key": path_key, "instead": key})
        except Exception:
            pass

    ours: Any = path_keys.with_path_keys(plain, directories, lambda key: path_keys.is_file(configured(), key), note)
    ours.__doc__, ours.__qualname__, ours.__module__ = plain.__doc__, plain.__qualname__, plain.__module__
    ours.__wrapped__ = plain
    module.get_cache_key = ours


def _tries_path_keys() -> bool:
    """Return whether the program's own jcache already tries keys with a path."""
    keys: Any = sys.modules.get("jcache.jax_internals.cache_keys")
    return keys is not None and bool(keys.tries_path_keys())
