"""Names on disk: every suffix and directory name that jcache knows, keys, and the layout of a root.

This table owns the disk; no suffix or directory name is spelled anywhere else::

    ROOT/                                a root made by jcache
      CACHEDIR.TAG                         backup programs pass the tree over (bford.info/cachedir)
      executables/                         jax_compilation_cache_dir; JAX's rules hold, nothing of ours inside
        <key>-cache                          an entry (jax >= 0.4.31)
        <key>-atime                          its recency: 8 bytes, little-endian nanoseconds since 1970
        .lockfile                            JAX's lock (filelock)
        <name>-<64 hex>, <64 hex>            legacy entries (jax <= 0.4.30), never hit by a later JAX
        xla_gpu_per_fusion_autotune_cache_dir/   xla_gpu_kernel_cache_file      XLA's own sub-caches
      traces-v1/  graphs-v1/               the same names; the bytes are sealed envelopes
      .jcache/                             ledger.sqlite3, quarantine/, runs/, building/, handed/, verdicts/,
                                           records/, modules/, worlds/

    JAXDIR/                              a plain JAX directory is a root too: its executables lie in it directly,
                                         traces-v1/, graphs-v1/ and .jcache/ are sub-directories JAX does not look at

    OTHERS/                              another program's directory; an adapter (``jcache.store.foreign``) knows the
                                         names in it; of jcache only pins are inside, see `Root.state`

    key  = name "-" 64 lower-case hexadecimal digits          (name: printable, not empty, no "/")
    file = key "-cache"                                       (at most 255 bytes in all)
"""

from jcache.layout.keys import (
    are_files_of_keys,
    check_key,
    hash_of,
    is_key,
    kept_of,
    name_of,
    short_key,
    shortened,
    storable,
)
from jcache.layout.layouts import JAX, JCACHE, FileKind, Layout, file_name_of, member
from jcache.layout.names import (
    ASIDE_PREFIX,
    AUTOTUNE_NAME,
    DIRECTORY_NAMES,
    ENTRY_SUFFIX,
    KERNELS_NAME,
    LOCK_NAME,
    NAME_LIMIT,
    PINS_NAME,
    SIDECAR_SUFFIX,
    STATE_NAME,
    TAG_NAME,
    TAG_TEXT,
    TEMPORARY_PREFIX,
    XLA_NAMES,
    Kind,
    parse_kind,
)  # fmt: skip
from jcache.layout.root import Root

__all__ = [
    "ASIDE_PREFIX", "AUTOTUNE_NAME", "DIRECTORY_NAMES", "ENTRY_SUFFIX", "JAX", "JCACHE", "KERNELS_NAME",
    "LOCK_NAME", "NAME_LIMIT", "PINS_NAME", "SIDECAR_SUFFIX", "STATE_NAME", "TAG_NAME", "TAG_TEXT",
    "TEMPORARY_PREFIX", "XLA_NAMES", "FileKind", "Kind", "Layout", "Root", "are_files_of_keys", "check_key",
    "file_name_of", "hash_of", "is_key", "kept_of", "member", "name_of", "parse_kind", "short_key", "shortened",
    "storable",
]  # fmt: skip
