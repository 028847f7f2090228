"""The kinds of entries, and the suffixes and names of files and directories in a root."""

from enum import StrEnum
from typing import Final

from jcache.units import parse_choice


class Kind(StrEnum):
    """The contents of an entry."""

    EXECUTABLES = "executables"
    TRACES = "traces"
    GRAPHS = "graphs"


ENTRY_SUFFIX: Final = "-cache"
SIDECAR_SUFFIX: Final = "-atime"
LOCK_NAME: Final = ".lockfile"
TAG_NAME: Final = "CACHEDIR.TAG"
TAG_TEXT: Final = (
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This file marks a cache directory made by jcache.\n"
    "# For information about cache directory tags see https://bford.info/cachedir/\n"
)
STATE_NAME: Final = ".jcache"
PINS_NAME: Final = "pins"  # in it
AUTOTUNE_NAME: Final = "xla_gpu_per_fusion_autotune_cache_dir"
KERNELS_NAME: Final = "xla_gpu_kernel_cache_file"
XLA_NAMES: Final = (AUTOTUNE_NAME, KERNELS_NAME)
TEMPORARY_PREFIX: Final = ".jcache-tmp-"
ASIDE_PREFIX: Final = f"{TEMPORARY_PREFIX}xla-"  # XLA's sub-caches on their way out
NAME_LIMIT: Final = 255

DIRECTORY_NAMES: Final = {Kind.EXECUTABLES: "executables", Kind.TRACES: "traces-v1", Kind.GRAPHS: "graphs-v1"}


def parse_kind(text: str) -> Kind:
    """Return the kind that the text names.

    Raises:
        InvalidValue: there is no such kind.
    """
    return parse_choice(Kind, text, "is not a kind")
