"""What writing and reading a tree have in common; the grammar is in the package's docstring."""

from typing import Final

from jcache.errors import DamagedEntry

CODEC: Final = "pytree"
MAGIC: Final = b"jctree1\n"
START: Final = len(MAGIC) + 8
MAX_TREE: Final = 256 << 20  # JSON made of empty lists takes twenty times as much memory
MAX_DEPTH: Final = 100  # of a value; JSON nests up to three times as deep
MAX_VALUES: Final = 5_000_000


class Obstacle(Exception):
    """Why something cannot be stored, in words that follow "which", and what to do."""

    def __init__(self, reason: str, way_out: str | None = None) -> None:
        super().__init__(reason)
        self.way_out = way_out


def malformed(what: str) -> DamagedEntry:
    return DamagedEntry(f"A graph whose {what} does not follow the grammar.")
