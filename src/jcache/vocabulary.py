"""Why something missed the cache: the table of the causes, each with its reason and its resolution.

`jcache explain`, `jcache stats` and the explanations of `jcache.jit` and of graphs use these words and no others. The
order of the table is the order of the diagnosis: a miss is counted in the first cause that explains it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class CauseKind(StrEnum):
    """The causes of misses, in the order of the diagnosis."""

    BYPASSED = "bypassed"
    DAMAGED = "damaged"
    UNREADABLE = "unreadable"
    ABSENT = "another process lacks it"
    EVICTED = "evicted"
    MEANWHILE = "compiled meanwhile"
    NOT_STORED = "not stored"
    FIRST_TIME = "first time"
    VERSION = "version"
    PLATFORM = "platform version"
    XLA_FLAGS = "XLA_FLAGS"
    DEVICES = "devices"
    CPU = "CPU"
    CACHE_PATH = "cache path"
    COMPILE_OPTION = "compile option"
    JAX_OPTION = "JAX option"
    KEY_PART = "part of the key"
    STATIC = "static argument"
    STRUCTURE = "arguments"
    DTYPE = "dtype"
    SHAPE = "shape"
    WEAK_TYPE = "weak type"
    SHARDING = "sharding"
    DONATION = "donation"
    NAMES = "names"
    CONSTANT = "constant"
    HASH_SEED = "PYTHONHASHSEED"
    CHURN = "churn"
    ORDER = "order"
    WORLD = "new world"
    PROGRAM = "program"
    UNKNOWN = "unknown"


class Words(NamedTuple):
    """What is said about a cause.

    Attributes:
        reason: why it led to a miss; a sentence without its full stop.
        resolution: what to do about it; ``{command}`` stands for the command of the run, ``{environment}`` for the
            variables before it, ``{root}`` for the option ``--root``, ``{name}`` for the name of what changed.
    """

    reason: str
    resolution: str


_FILL: Final = "fill the cache once: {environment}jcache warm{root} -- {command}"
VOCABULARY: Final = {
    CauseKind.BYPASSED: Words(
        "JAX compiles it without a look-up", "turn the cache on for it, or accept the compilation"
    ),
    CauseKind.DAMAGED: Words(
        "the entry was damaged, so it was compiled again", "look for more damage: jcache verify{root}"
    ),
    CauseKind.UNREADABLE: Words(
        "the entry could not be read",
        "check the owner of the directory and the health of the disk: jcache verify{root}",
    ),
    CauseKind.ABSENT: Words(
        "another process of the program lacks it, so all of them compile it",
        'have each process store what it compiles, `jcache.enable(write="all")`, or give all of them one store: '
        "jcache push URL, then jcache pull URL on each host",
    ),
    CauseKind.EVICTED: Words(
        "the entry was there in an earlier run, and has been removed since",
        "raise the bound or pin what must stay: jcache config{root}, jcache pin{root}",
    ),
    CauseKind.MEANWHILE: Words(
        "another thread or process has stored it meanwhile",
        "start one process first, or fill the cache once: {environment}jcache warm{root} -- {command}",
    ),
    CauseKind.NOT_STORED: Words(
        "it was compiled before, and could not be stored", "have it stored: jcache run stores all"
    ),
    CauseKind.FIRST_TIME: Words("nothing of this name was there", _FILL),
    CauseKind.VERSION: Words("another version of {name} makes other keys", _FILL),
    CauseKind.PLATFORM: Words("another version of the driver or the platform's libraries makes other keys", _FILL),
    CauseKind.XLA_FLAGS: Words("XLA's flags are part of every key", f"use the same flags in all runs, or {_FILL}"),
    CauseKind.DEVICES: Words("the devices are part of every key", f"run on the same devices, or {_FILL}"),
    CauseKind.CPU: Words(
        "the machine's CPU features or its topology are part of every key",
        "have a cache for each kind of machine, or fill it there: {environment}jcache warm{root} -- {command}",
    ),
    CauseKind.CACHE_PATH: Words(
        "this JAX has the path of the cache directory in its keys",
        "run the program with jcache run or jcache.enable(), or set jax_persistent_cache_enable_xla_caches to none",
    ),
    CauseKind.COMPILE_OPTION: Words(
        "compile options are part of the key", f"use the same option in all runs, or {_FILL}"
    ),
    CauseKind.JAX_OPTION: Words(
        "this option changes the programs that JAX makes", f"set it alike in all runs, or {_FILL}"
    ),
    CauseKind.KEY_PART: Words("this part of JAX's key changed", f"keep it the same in all runs, or {_FILL}"),
    CauseKind.STATIC: Words(
        "each value of a static argument is a program of its own",
        "pass it as an array if it varies, or warm all values: {environment}jcache warm{root} -- {command}",
    ),
    CauseKind.STRUCTURE: Words("other arguments make another program", "pass the same pytree in all runs"),
    CauseKind.DTYPE: Words("each dtype is a program of its own", "convert the argument before the call: x.astype(…)"),
    CauseKind.SHAPE: Words("each shape is a program of its own", "pad arrays to few sizes, or warm all of them"),
    CauseKind.WEAK_TYPE: Words(
        "Python numbers are weakly typed, arrays are not", "pass jnp.asarray(x, dtype) where a Python number was passed"
    ),
    CauseKind.SHARDING: Words(
        "each sharding is a program of its own", "place the argument the same way: jax.device_put"
    ),
    CauseKind.DONATION: Words("donated arguments are part of the program", "keep donate_argnums and donate_argnames"),
    CauseKind.NAMES: Words(
        "same program but for names, and JAX hashes the names of functions and results", f"keep names, or {_FILL}"
    ),
    CauseKind.CONSTANT: Words(
        "the value of a constant in the program changed; a captured array or number is part of the program",
        "pass the value as an argument",
    ),
    CauseKind.HASH_SEED: Words(
        "the program iterates a set or hashes strings, so its order follows the seed", "sort what is iterated"
    ),
    CauseKind.CHURN: Words(
        "3 runs gave 3 keys and never a hit: something in the program changes in every process",
        "keep id(), addresses, timestamps and the order of sets out of the program",
    ),
    CauseKind.ORDER: Words("the same operations come in another order", "sort what is iterated, a set for example"),
    CauseKind.WORLD: Words(
        "something that the program may depend on is new, so it is traced once and compared", "nothing to do"
    ),
    CauseKind.PROGRAM: Words("the code of the function changed", "nothing to do if the change is meant"),
    CauseKind.UNKNOWN: Words("the record does not tell what changed", "run it again with JCACHE_RECORD=modules"),
}
KEEP_PINNED: Final = "pin what must stay: jcache pin{root}"  # for what somebody has removed by hand
RANK: Final = {item: number for number, item in enumerate(CauseKind)}

_NOT_STORED_RESOLUTIONS: Final = {  # by the beginning of the reason
    "compiled in less than": "lower JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS, or use jcache run, which stores all",
    "smaller than": "lower JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES, or use jcache run, which stores all",
    "it calls back to the host": "call jcache.enable(), which stores programs with callbacks where that is proven",
    "only process 0 writes": "let all processes write: jcache.enable(write='all')",
    "larger than the cache may grow": "raise the bound: jcache config",
    "another process of the job": "nothing to do: the job shares it",
    "the entry with this key is incomplete": "remove it: jcache verify --repair",
    "the write failed": "see why the directory cannot be written: jcache verify",
    "there is no usable cache directory": "set a cache directory that can be written",
}
_BYPASS_RESOLUTIONS: Final = {
    "the compilation cache is disabled": "unset JAX_ENABLE_COMPILATION_CACHE",
    "it calls back to the host": "call jcache.enable(), which stores programs with callbacks where that is proven",
    "no key could be made": "see the message of JAX",
    "this backend cannot serialize": "nothing to do: the backend has no cache",
    "the runtime": "nothing to do: the backend has no cache",
    "there is no usable cache directory": "set a cache directory that can be written",
}


def not_stored_resolution(reason: str) -> str:
    """Return what to do about a program that could not be stored for a reason."""
    return _by_beginning(_NOT_STORED_RESOLUTIONS, reason) or VOCABULARY[CauseKind.NOT_STORED].resolution


def bypass_resolution(reason: str) -> str:
    """Return what to do about a program that was compiled without a look-up for a reason."""
    return _by_beginning(_BYPASS_RESOLUTIONS, reason) or VOCABULARY[CauseKind.BYPASSED].resolution


def _by_beginning(table: dict[str, str], text: str) -> str | None:
    return next((words for beginning, words in table.items() if text.startswith(beginning)), None)
