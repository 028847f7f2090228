"""A small plain root of long ago, and damage in it."""

import time
from pathlib import Path

from jcache.formats.envelope import Codec
from jcache.formats.executable import pack_executable
from tests.helpers.entries import add, key, tree, xla_program

OLD = time.time_ns() - 86_400 * 10**9
SOUND = pack_executable(xla_program(b"an executable " * 99), 2, Codec.ZSTD)


def small_root(path: Path) -> Path:
    """Make a plain JAX directory of twelve small entries of long ago, and return its path."""
    for i in range(12):
        add(path, key(i), SOUND, written_ns=OLD)
    return path


def damage(root: Path, number: int = 1, data: bytes = SOUND[:-5]) -> str:
    """Damage an entry of long ago, and return its key."""
    add(root, key(number), data, written_ns=OLD)
    return key(number)


def unchanged(root: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Return everything below the root except jcache's own files."""
    return {path: what for path, what in tree(root).items() if "/.jcache" not in path}
