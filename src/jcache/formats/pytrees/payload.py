"""A tree and its blocks as one payload, and back; the grammar is in the package's docstring."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from jcache.formats.envelope import ALIGNMENT
from jcache.formats.pytrees.grammar import malformed

CODEC: Final = "pytree"
MAX_TREE: Final = 256 << 20  # JSON made of empty lists takes twenty times as much memory

_MAGIC: Final = b"jctree1\n"
_MAGIC_OF_SHARED: Final = b"jctree2\n"
_START: Final = len(_MAGIC) + 8

Block: TypeAlias = tuple[memoryview, bool]  # bytes, and whether they are aligned


class Dumped(NamedTuple):
    """A value as bytes.

    Attributes:
        pieces: pieces of the payload, in their order; some of them are views of the value's arrays.
        codec: the name of the format, which selects the reader.
    """

    pieces: tuple[bytes | memoryview, ...]
    codec: str = CODEC


def join_payload(tree: bytes, blocks: Iterable[Block], *, shares: bool = False) -> Iterator[bytes | memoryview]:
    """Yield magic, length, tree and blocks, with zeros before an aligned block.

    Args:
        tree: the tree.
        blocks: its blocks.
        shares: whether the tree has nodes that the first version of the grammar lacks.
    """
    yield (_MAGIC_OF_SHARED if shares else _MAGIC) + len(tree).to_bytes(8, "big") + tree
    position = _START + len(tree)
    for block, is_aligned in blocks:
        if is_aligned and (gap := -position % ALIGNMENT):
            yield bytes(gap)
            position += gap
        yield block
        position += block.nbytes


def split_payload(payload: memoryview) -> tuple[memoryview, int]:
    """Return the tree of a payload, and where the blocks begin.

    Raises:
        DamagedEntry: the payload does not begin as one.
    """
    length = int.from_bytes(payload[len(_MAGIC) : _START], "big")
    if bytes(payload[: len(_MAGIC)]) not in {_MAGIC, _MAGIC_OF_SHARED} or length > min(MAX_TREE, len(payload) - _START):
        raise malformed("beginning")
    return payload[_START : _START + length], _START + length
