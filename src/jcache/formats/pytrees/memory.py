"""Arrays that share memory, or are laid out in another way than new ones: which bytes they take, and where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jcache.errors import NotStorable
from jcache.formats.compression import MAX_CONTENT
from jcache.formats.pytrees import dtypes
from jcache.formats.pytrees.payload import MAX_TREE, Block

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

Node = Any
_MAX_GAPS: Final = 4  # times the size of the arrays: up to here the memory between their elements is stored as zeros
_SMALL: Final = 64 << 10  # bytes


class Memory:
    """The memory of arrays that overlap, or of one array.

    Args:
        members: the arrays.

    Attributes:
        number: its number in the tree, None before it was mentioned.
    """

    def __init__(self, members: list[Array]) -> None:
        self._members = members
        low, high = min(_bounds(each)[0] for each in members), max(_bounds(each)[1] for each in members)
        self._start = low - low % max(each.dtype.alignment for each in members)  # so that aligned arrays stay so
        self.size = high - self._start if high > low else 0
        self.is_dense = self.size <= max(_SMALL, _MAX_GAPS * sum(each.nbytes for each in members))
        self.number: int | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it is that of one array which is as a new one would be."""
        flags = self._members[0].flags
        return len(self._members) == 1 and flags.writeable and (flags.c_contiguous or flags.f_contiguous)

    def place_of(self, array: Array) -> tuple[list[int], int]:
        """Return the strides of one of the arrays, and where its first element is."""
        import numpy as np

        if array.size == 0:
            return list(np.empty(array.shape, array.dtype).strides), 0
        return list(array.strides), _address(array) - self._start

    def content(self) -> memoryview:
        """Return the bytes, with zeros where none of the arrays has an element or a field."""
        import numpy as np

        content = np.zeros(self.size, np.uint8)
        for each in self._members:
            if each.size:
                strides, offset = self.place_of(each)
                dtypes.copy(each, np.ndarray(each.shape, each.dtype, content.data, offset, strides))
        return content.data

    def holds(self, array: Array) -> bool:
        """Return whether an array is one of those that it is the memory of."""
        return any(each is array for each in self._members)


class Arrays:
    """The arrays and blocks of one value in the order in which they are mentioned.

    The nodes of arrays are filled in by `finish`, since only then it is known which of them share memory.

    Attributes:
        has_views: whether there is a ``$view`` among the nodes.
    """

    def __init__(self) -> None:
        self.has_views = False
        self._mentions: list[tuple[object, Node, Block | None]] = []
        self._dtypes: dict[int, Node] = {}
        self._numbered: dict[
            int, object
        ] = {}  # what gets a number, by its id; a reference, so that the id stays its own
        self._numbers: dict[int, int] = {}
        self._memories: dict[int, Memory] = {}
        self._count = 0
        self._blocks: list[Block] = []

    def is_known(self, value: object) -> bool:
        """Return whether an array was mentioned."""
        return id(value) in self._numbered

    def mention(self, value: object, dtype: Node = None) -> Node:
        """Return the node of an array, which is filled in at the end; `dtype` is that of a new numpy array."""
        node: dict[str, Any] = {}
        if dtype is not None:
            self._dtypes[id(value)] = dtype
        self._numbered[id(value)] = value
        self._mentions.append((value, node, None))
        return node

    def add_block(self, block: memoryview, *, aligned: bool, of: object = None) -> None:
        """Add a block, of a jax array or of a value that has no number."""
        if of is not None:
            self._numbered[id(of)] = of
        self._mentions.append((of, None, (block, aligned)))

    def finish(self) -> list[Block]:
        """Fill in all nodes; return the blocks.

        Raises:
            NotStorable: the blocks are too large.
        """
        for members in _overlapping(self._numbered[id_] for id_ in self._dtypes):
            memory = Memory(members)
            self._memories.update((id(each), memory) for each in members)
        for value, node, block in self._mentions:
            if block is not None:
                self._blocks.append(block)
                if value is not None:
                    self._number(value)
            elif id(value) in self._numbers:
                node["$same"] = self._numbers[id(value)]
            else:
                self._describe(value, node)
        if sum(block.nbytes for block, _ in self._blocks) + MAX_TREE > MAX_CONTENT:
            raise NotStorable("The value cannot be stored: its arrays are views of too much memory: return copies.")
        return self._blocks

    def _number(self, value: object) -> None:
        self._numbers[id(value)] = len(self._numbers)

    def _describe(self, value: Any, node: Node) -> None:  # noqa: ANN401
        memory, dtype, shape = self._memories[id(value)], self._dtypes[id(value)], list(value.shape)
        if memory.is_plain:
            order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
            self._blocks.append((dtypes.bytes_of(value.T if order == "F" else value), True))
            node["$array"] = [dtype, shape, order]
            self._number(value)
            return
        self.has_views = True
        where: Node = memory.number
        if where is None:
            memory.number = self._count
            self._count += 1
            where = {"$memory": [memory.size, memory.is_dense]}
            if memory.is_dense:
                self._blocks.append((memory.content(), True))
        base = self._base(value, memory)
        strides, offset = memory.place_of(value)
        if not memory.is_dense:
            self._blocks.append((dtypes.bytes_of(value), True))
        node["$view"] = [where, dtype, shape, strides, offset, value.flags.writeable, base]
        self._number(value)

    def _base(self, value: Any, memory: Memory) -> Node:  # noqa: ANN401
        """Return the node of the array of which this one is a view, if that is in the value, else None."""
        base = value.base
        if base is None or not memory.holds(base):
            return None
        if id(base) in self._numbers:
            return {"$same": self._numbers[id(base)]}
        node: dict[str, Any] = {}
        self._describe(base, node)
        return node


def _overlapping(arrays: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield the arrays in groups whose members' bytes lie between one another's, and empty ones one by one."""
    group: list[Any] = []
    end = 0
    for (low, high), array in sorted(((_bounds(each), each) for each in arrays), key=lambda pair: pair[0]):
        if low == high:
            yield [array]
        elif group and low < end:
            group.append(array)
            end = max(end, high)
        else:
            if group:
                yield group
            group, end = [array], high
    if group:
        yield group


def _bounds(array: Array) -> tuple[int, int]:
    """Return the address of an array's first byte, and that behind its last."""
    if array.nbytes == 0:
        return (_address(array),) * 2
    steps = [(size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True)]
    low = _address(array) + sum(step for step in steps if step < 0)
    return low, _address(array) + sum(step for step in steps if step > 0) + array.itemsize


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


# -- loading


class StoredMemory(NamedTuple):
    """The memory of arrays, and whether a block has its content; each array of it has a block of its own otherwise."""

    block: memoryview
    is_dense: bool


def placed(
    block: Any,  # noqa: ANN401 - numpy takes a buffer of any type
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    strides: list[int],
    offset: int,
) -> Array:
    """Return an array in a buffer; one without elements has a buffer of its own."""
    import numpy as np

    empty = 0 in shape or dtype.itemsize == 0
    return np.ndarray(shape, dtype, bytearray() if empty else block, 0 if empty else offset, strides)


def view_of(
    base: Array,
    block: memoryview,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    strides: list[int],
    offset: int,
) -> Array:
    """Return an array in the memory of another one, as a view of that where it can be one."""
    buffer = base if base.flags.c_contiguous else base.T
    start = _address(base) - _address_of(block)
    if not buffer.flags.c_contiguous or base.nbytes == 0 or not 0 <= start <= offset:
        return placed(block, shape, dtype, strides, offset)
    was_writable, base.flags.writeable = base.flags.writeable, True
    try:
        return placed(buffer, shape, dtype, strides, offset - start)
    finally:
        base.flags.writeable = was_writable


def _address_of(block: memoryview) -> int:
    import numpy as np

    return _address(np.frombuffer(block, np.uint8))
