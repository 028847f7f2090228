"""Find entries that JAX by itself has stored under keys that depend on the path of its cache directory.

JAX from 0.4.36 to 0.10.2 hashes the paths of XLA's own caches, which lie in its cache directory, into every key; later
versions hash that of XLA's kernel cache, where JAX is set to use it. Under `jcache run` and `jcache.enable()` keys do
not depend on the path. So that a directory that JAX has filled by itself stays warm, the keys that JAX itself computes
for the directory are tried wherever there is no entry under the key without the path.

This needs the standard library alone: the recorder of `jcache run` loads it where the program's Python has no jcache.
"""

# ruff: noqa: ANN401 - what is JAX's own has no types that last

import logging
import os
import re
import threading
from pathlib import PurePath

from ..patching import WithDefaults
from .versions import KEYS_WITH_PATHS, KEYS_WITHOUT_PATHS

if False:  # for the type checker: typing and collections.abc are not needed to run
    from collections.abc import Callable, Iterable
    from typing import Any

SPELLINGS = "JCACHE_RUN_DIRECTORIES"  # the variable in which `jcache run` names the strings to try, one on each line
NO_PATH = ""  # in their place: the key that does not depend on a path
AUTOTUNE = "xla_gpu_per_fusion_autotune_cache_dir"
KERNELS = "xla_gpu_kernel_cache_file"
_MODE = "xla_gpu_experimental_autotune_cache_mode"  # set with AUTOTUNE, and in keys of some versions
_PARALLELISM = "xla_gpu_enable_llvm_module_compilation_parallelism"  # set with KERNELS
SET_BY_JAX = (AUTOTUNE, KERNELS, _PARALLELISM, _MODE)


class _Trying(threading.local):
    """Whether this thread is computing a key that JAX has not asked for."""

    now = False


trying = _Trying()


def in_keys(version: str) -> bool:
    """Whether a jax of this version, with its default settings, has the path in its keys."""
    return KEYS_WITH_PATHS <= _numbers(version) < KEYS_WITHOUT_PATHS


def in_keys_now(version: str) -> bool:
    """Whether JAX, of this version, has the path in its keys as it is set now: from 0.11 on with XLA's kernel cache."""
    return in_keys(version) or (_numbers(version) >= KEYS_WITHOUT_PATHS and KERNELS in xla_caches())


def _numbers(version: str) -> "tuple[int, ...]":
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def with_path_keys(
    get_cache_key: "Callable[..., str]",
    directories: "Callable[[], Iterable[str]]",
    is_stored: "Callable[[str], bool]",
    found: "Callable[[str, str], object]" = lambda path_key, key: None,
) -> "Callable[..., str]":
    """Return JAX's ``get_cache_key``, except that it returns the key of an entry that is stored.

    Args:
        get_cache_key: JAX's function.
        directories: returns the strings to try, in this order, as ``jax_compilation_cache_dir`` had them; `NO_PATH`
            among them stands for the key that depends on none.
        is_stored: returns whether there is an entry under a key.
        found: is told each key with a path that is returned, and the key in whose place it is; it must raise nothing.
    """
    _keep_tries_out_of_logs()

    def get(module: object, devices: object, compile_options: object, *rest: object, **named: object) -> str:
        key = get_cache_key(module, devices, compile_options, *rest, **named)
        if trying.now:
            return key
        try:
            if is_stored(key):
                return key
            for directory in directories():
                trying.now = True
                options = _with_path(compile_options, directory) if directory else _without_path(compile_options)
                other = get_cache_key(module, devices, options, *rest, **named)
                if "://" in directory or is_stored(other):  # a remote store: JAX's own key, without a look
                    if directory:
                        found(other, key)
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


def xla_caches() -> "frozenset[str]":
    """The caches of XLA that JAX is set to use, each of which puts the path into keys: `AUTOTUNE`, `KERNELS`."""
    from jax._src import config

    setting = str(config.persistent_cache_enable_xla_caches.value or "")
    return frozenset(name for name in (AUTOTUNE, KERNELS) if setting == "all" or name in setting)


def _with_path(compile_options: "Any", directory: str) -> "Any":
    """The compile options that JAX makes with another cache directory, with its default caches of XLA if none are set.

    Args:
        compile_options: as JAX has made them with the caches of XLA that it is set to use.
        directory: as ``jax_compilation_cache_dir`` has it.
    """
    import copy

    from jax._src import distributed
    from jax._src.lib import xla_client  # type: ignore[attr-defined]

    copied = copy.deepcopy(compile_options)
    debug_options = copied.executable_build_options.debug_options
    caches = xla_caches()
    for name in caches or (AUTOTUNE,):
        setattr(debug_options, name, str(PurePath(directory) / name))
    modes = getattr(xla_client, "AutotuneCacheMode", None)
    if not caches and modes is not None and hasattr(debug_options, _MODE):
        is_first = (distributed.global_state.process_id or 0) == 0
        setattr(debug_options, _MODE, modes.UPDATE if is_first else modes.READ)
    return copied


def _without_path(compile_options: "Any") -> "Any":
    """The compile options whose key is the one of `jcache.enable()`."""
    return WithDefaults(compile_options, SET_BY_JAX)


def _keep_tries_out_of_logs() -> None:
    """At level DEBUG JAX logs the parts of each key that it computes; those that it has not asked for are left out."""
    logging.getLogger("jax._src.cache_key").addFilter(_is_asked_for)


def _is_asked_for(record: object) -> bool:
    del record
    return not trying.now
