"""Find entries that JAX without jcache has stored under keys that depend on the path of its cache directory.

JAX from 0.4.36 to 0.10.2 hashes the paths of XLA's own caches, which lie in its cache directory, into every key; later
versions hash the path of XLA's kernel cache, where JAX is set to use it. Under `jcache run` and `jcache.enable()` keys
do not depend on the path. A directory that JAX has filled without jcache stays warm all the same: where no entry has
the key without the path, the keys that JAX itself computes for the directory are tried.

This module needs the standard library alone: the recorder of `jcache run` loads it where the program's Python has no
jcache.
"""

# ruff: noqa: ANN401 - JAX's internals have no stable types

import copy
import os
import re
import threading
from pathlib import PurePath

from .option_bytes import without_field
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
SET_BY_JAX = (AUTOTUNE, _PARALLELISM, _MODE, KERNELS)
_KERNELS_FIELD = (3, 3, 306)  # CompileOptionsProto.executable_build_options.debug_options.xla_gpu_kernel_cache_file


class _Trying(threading.local):
    """Whether this thread computes a key that JAX has not asked for."""

    now = False


trying = _Trying()


def in_keys(version: str) -> bool:
    """Return whether keys of this version of jax depend on the path with default settings."""
    return KEYS_WITH_PATHS <= version_numbers(version) < KEYS_WITHOUT_PATHS


def in_keys_now(version: str) -> bool:
    """Return whether keys of this version depend on the path with the current settings, such as XLA's kernel cache."""
    return in_keys(version) or (version_numbers(version) >= KEYS_WITHOUT_PATHS and KERNELS in xla_caches())


def can_be_in_keys(version: str) -> bool:
    """Return whether keys of this version depend on the path with at least one of JAX's settings."""
    return version_numbers(version) >= KEYS_WITH_PATHS


def version_numbers(version: str) -> "tuple[int, ...]":
    """Return the numbers of a version for comparison: ``0.4.31+cuda12`` gives ``(0, 4, 31)``."""
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
        directories: returns the values of ``jax_compilation_cache_dir`` to try, in this order; `NO_PATH` stands for
            the key that depends on no path.
        is_stored: returns whether a key has an entry.
        found: is called with each returned key that depends on a path, and the key that it replaces; it must not raise.
    """
    _keep_tries_out_of_logs()

    def get(module: object, devices: object, compile_options: object, *rest: object, **named: object) -> str:
        key = get_cache_key(module, devices, compile_options, *rest, **named)
        if trying.now:
            return key
        try:
            if is_stored(key):
                return key
            for directory, options in _alternatives(compile_options, list(directories())):
                trying.now = True
                other = get_cache_key(module, devices, options, *rest, **named)
                trying.now = False
                if "://" in directory or is_stored(other):  # in a remote store, JAX's own key is not looked up first
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
    """Return whether a directory of JAX has an entry under a key."""
    return os.path.lexists(os.path.join(directory, key + "-cache"))


def xla_caches() -> "frozenset[str]":
    """Return the caches of XLA that JAX is set to use: `AUTOTUNE`, `KERNELS`; each puts the path into keys."""
    from jax._src import config

    setting = str(config.persistent_cache_enable_xla_caches.value or "")
    return frozenset(name for name in (AUTOTUNE, KERNELS) if setting == "all" or name in setting)


def _alternatives(compile_options: "Any", directories: "list[str]") -> "Iterable[tuple[str, Any]]":
    """Yield compile options with another key, each with the directory in the key, or with `NO_PATH`.

    An entry has the key of the caches of XLA that its program was set to use, so each such setting is tried: first the
    current one, and then the others. A remote store is asked for one key alone.

    Args:
        compile_options: the options that JAX has made.
        directories: the directories to try, `NO_PATH` among them where that key is another one than JAX's own.
    """
    from jax import version

    in_key = {AUTOTUNE, KERNELS} if in_keys(version.__version__) else {KERNELS}
    current = xla_caches() & in_key
    places = [directory for directory in directories if directory]
    without = without_xla_caches(compile_options)
    if places and "://" in places[0]:
        yield places[0], _with_xla_caches(without, places[0], current or in_key & {AUTOTUNE})
        return
    if current:
        yield from ((place, _with_xla_caches(without, place, current)) for place in places)
    if NO_PATH in directories:
        yield NO_PATH, without
    for caches in ({AUTOTUNE}, {AUTOTUNE, KERNELS}, {KERNELS}):
        if caches <= in_key and caches != current:
            yield from ((place, _with_xla_caches(without, place, caches)) for place in places)


def _with_xla_caches(compile_options: "Any", directory: str, caches: "Iterable[str]") -> "Any":
    """Return the compile options that JAX makes with another cache directory and with these caches of XLA.

    The options that are given must be without caches of XLA.
    """
    from jax._src import distributed
    from jax._src.lib import xla_client  # type: ignore[attr-defined]

    copied = copy.deepcopy(compile_options)
    debug_options = copied.executable_build_options.debug_options
    for name in caches:
        setattr(debug_options, name, str(PurePath(directory) / name))
    if KERNELS in caches and hasattr(debug_options, _PARALLELISM):
        setattr(debug_options, _PARALLELISM, True)
    modes = getattr(xla_client, "AutotuneCacheMode", None)
    if AUTOTUNE in caches and modes is not None and hasattr(debug_options, _MODE):
        is_first = (distributed.global_state.process_id or 0) == 0
        setattr(debug_options, _MODE, modes.UPDATE if is_first else modes.READ)
    return copied


def without_xla_caches(compile_options: "Any") -> "Any":
    """Return the compile options that JAX makes where it is set to use no cache of XLA, as their bytes have it."""
    copied = copy.deepcopy(compile_options)
    usual = type(copied)()  # with the values of XLA_FLAGS, as JAX has them where it sets none of these options
    for name in SET_BY_JAX:
        value = getattr(_debug_options(usual), name, None)
        # a value that has been set is serialized, even if it is the default
        if value is not None and getattr(_debug_options(copied), name) != value:
            setattr(_debug_options(copied), name, value)
            if name == KERNELS and not value:
                copied = type(copied).ParseFromString(without_field(copied.SerializeAsString(), _KERNELS_FIELD))
    return copied


def _debug_options(compile_options: "Any") -> "Any":
    """Return the debug options, which are a view into the compile options and must not outlive them."""
    return compile_options.executable_build_options.debug_options


def _keep_tries_out_of_logs() -> None:
    """Keep keys that JAX has not asked for out of its log, which at level DEBUG shows the parts of each key."""
    import logging

    logging.getLogger("jax._src.cache_key").addFilter(_is_asked_for)


def _is_asked_for(record: object) -> bool:
    del record
    return not trying.now
