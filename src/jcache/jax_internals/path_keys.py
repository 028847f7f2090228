"""Find entries that JAX by itself has stored under keys that depend on the path of its cache directory.

JAX from 0.4.36 to 0.10.2 hashes the path of XLA's autotune cache, which lies in its cache directory, into every key.
Under `jcache run` and `jcache.enable()` keys do not depend on the path. So that a directory that JAX has filled by
itself stays warm, JAX's own key is tried wherever there is no entry under the key without the path.

This needs the standard library alone: the recorder of `jcache run` loads it where the program's Python has no jcache.
"""

# ruff: noqa: ANN401 - what is JAX's own has no types that last

import os
import re
import threading
from pathlib import PurePath

if False:  # for the type checker: typing and collections.abc are not needed to run
    from collections.abc import Callable, Iterable
    from typing import Any

FIRST, END = (0, 4, 36), (0, 11)  # the first version whose keys depend on the path, and the first whose keys do not
AUTOTUNE = "xla_gpu_per_fusion_autotune_cache_dir"
_MODE = "xla_gpu_experimental_autotune_cache_mode"  # set by the same versions, and in keys of some of them


class _Trying(threading.local):
    """Whether this thread is computing a key that depends on a path."""

    now = False


trying = _Trying()


def in_keys(version: str) -> bool:
    """Whether a jax of this version has the path in its keys."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return found is not None and FIRST <= tuple(map(int, found[0].split("."))) < END


def with_path_keys(
    get_cache_key: "Callable[..., str]",
    directories: "Callable[[], Iterable[str]]",
    is_stored: "Callable[[str], bool]",
    found: "Callable[[str], object]" = lambda key: None,
) -> "Callable[..., str]":
    """Return JAX's ``get_cache_key``, except that it returns the key of an entry that is stored.

    Args:
        get_cache_key: JAX's function, whose keys do not depend on a path.
        directories: returns the strings to try, in this order, as ``jax_compilation_cache_dir`` had them.
        is_stored: returns whether there is an entry under a key.
        found: is told each key with a path that is returned.
    """

    def get(module: object, devices: object, compile_options: object, *rest: object, **named: object) -> str:
        key = get_cache_key(module, devices, compile_options, *rest, **named)
        if trying.now:
            return key
        try:
            if is_stored(key):
                return key
            for directory in directories():
                trying.now = True
                other = get_cache_key(module, devices, _with_path(compile_options, directory), *rest, **named)
                if "://" in directory or is_stored(other):  # a remote store: JAX's own key, without a look
                    found(other)
                    return other
        except Exception:  # noqa: BLE001, S110 - no more than a miss: JAX compiles, and the program goes on
            pass
        finally:
            trying.now = False
        return key

    return get


def is_file(directory: str, key: str) -> bool:
    """Whether a directory has an entry of JAX's under a key."""
    return os.path.lexists(os.path.join(directory, key + "-cache"))


def _with_path(compile_options: "Any", directory: str) -> "Any":
    """The compile options that JAX makes with a cache directory and its default settings."""
    import copy

    from jax._src import distributed
    from jax._src.lib import xla_client  # type: ignore[attr-defined]

    copied = copy.deepcopy(compile_options)
    debug_options = copied.executable_build_options.debug_options
    setattr(debug_options, AUTOTUNE, str(PurePath(directory) / AUTOTUNE))
    modes = getattr(xla_client, "AutotuneCacheMode", None)
    if modes is not None and hasattr(debug_options, _MODE):
        is_first = (distributed.global_state.process_id or 0) == 0
        setattr(debug_options, _MODE, modes.UPDATE if is_first else modes.READ)
    return copied
