"""Decoding: the value of a payload; the grammar is in the package's docstring."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from jcache.errors import JcacheError, Unresolved
from jcache.formats.compression import MAX_CONTENT
from jcache.formats.envelope import ALIGNMENT
from jcache.formats.pytrees import classes, dtypes, jax_arrays
from jcache.formats.pytrees.adapters import PREFIX, from_plain
from jcache.formats.pytrees.grammar import from_bits, malformed
from jcache.formats.pytrees.memory import StoredMemory, placed, view_of
from jcache.formats.pytrees.payload import split_payload
from jcache.formats.pytrees.registration import from_registered

if TYPE_CHECKING:
    import numpy as np

_ORDERS: Final = ("C", "F")


def load(payload: memoryview) -> Any:  # noqa: ANN401
    """Return the value of a payload whose seal has been verified; arrays are views of the payload.

    Raises:
        DamagedEntry: the payload does not follow the grammar.
        Unresolved: a part of it cannot be made here, such as an instance of a class that is not imported.
    """
    tree, position = split_payload(payload)
    decoder = _Decoder(payload, position)
    try:
        value = json.loads(str(tree, "utf-8"), object_hook=decoder.value, parse_constant=_refuse)
    except (RecursionError, MemoryError) as error:
        raise Unresolved("A graph is nested too deeply, or is too large, for this program.") from error
    except (ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
        raise malformed("tree") from error
    except JcacheError:
        raise
    except Exception as error:
        raise Unresolved(f"The code of a class in a graph raised {error!r}.") from error
    if decoder.position != len(payload):
        raise malformed("length")
    return value


def _refuse(constant: str) -> None:
    raise ValueError(constant)


class _Decoder:
    """Turns the objects of a tree into values, from the innermost outwards, and takes the blocks that they mention."""

    def __init__(self, payload: memoryview, position: int) -> None:
        self._payload = payload
        self.position = position
        self._arrays: list[object] = []
        self._memories: list[StoredMemory] = []
        self._shared: list[object] = []

    def value(self, node: dict[str, Any]) -> Any:  # noqa: ANN401
        if len(node) != 1:
            return node
        ((tag, body),) = node.items()
        if not tag.startswith("$"):
            return node
        decode = _DECODERS.get(tag)
        if decode is None:
            raise malformed("tree")
        return decode(self, body)

    # -- plain values and containers

    def _int(self, body: str) -> int:
        return int(body, 16)

    def _float(self, body: str) -> float:
        return from_bits(body)

    def _complex(self, body: list[str]) -> complex:
        real, imaginary = body
        return complex(from_bits(real), from_bits(imaginary))

    def _str(self, body: str) -> str:
        return bytes.fromhex(body).decode(errors="surrogatepass")

    def _bytes(self, body: int) -> bytes:
        return bytes(self._taken(body))

    def _tuple(self, body: list[object]) -> tuple[object, ...]:
        return tuple(_checked(body, list))

    def _set(self, body: list[object]) -> set[object]:
        return set(_checked(body, list))

    def _frozenset(self, body: list[object]) -> frozenset[object]:
        return frozenset(_checked(body, list))

    def _range(self, body: list[Any]) -> range:
        start, stop, step = _checked(body, list)
        return range(start, stop, step)

    def _slice(self, body: list[object]) -> slice:
        start, stop, step = _checked(body, list)
        return slice(start, stop, step)

    def _dict(self, body: list[list[Any]]) -> dict[Any, object]:
        return dict(_checked(body, list))

    def _ordered(self, body: list[list[Any]]) -> OrderedDict[Any, object]:
        return OrderedDict(self._dict(body))

    def _share(self, body: object) -> object:
        self._shared.append(body)
        return body

    def _again(self, body: int) -> object:
        return self._shared[_index(body)]

    # -- classes

    def _enum(self, body: list[Any]) -> object:
        name, member, value = body
        return classes.member_of(_checked(name, str), _checked(member, str), value)

    def _flag(self, body: list[Any]) -> object:
        name, value = body
        return classes.flag_of(_checked(name, str), _checked(value, int))

    def _namedtuple(self, body: list[Any]) -> object:
        name, fields, values = body
        return classes.namedtuple_of(_checked(name, str), _checked(fields, list), _checked(values, list))

    def _dataclass(self, body: list[Any]) -> object:
        name, fields, values = body
        return classes.instance_of(_checked(name, str), _checked(fields, list), _checked(values, list))

    def _registered(self, body: list[Any]) -> object:
        name, state = body
        make = from_plain if _checked(name, str).startswith(PREFIX) else from_registered
        return make(name, state)

    # -- arrays

    def _taken(self, length: int, *, aligned: bool = False) -> memoryview:
        """Return the next block."""
        start = self.position + (-self.position % ALIGNMENT if aligned else 0)
        if type(length) is not int or not 0 <= length <= len(self._payload) - start:
            raise malformed("blocks")
        self.position = start + length
        return self._payload[start : self.position]

    def _view(self, dtype: np.dtype[Any], sizes: object, order: str = "C") -> np.ndarray[Any, Any]:
        """Return the next block as an array."""
        import numpy as np

        if order not in _ORDERS:
            raise malformed("arrays")
        shape, length = dtypes.checked_shape(sizes), dtype.itemsize
        for size in shape:
            length *= size
        block = self._taken(length, aligned=True)
        return np.ndarray(shape, dtype, buffer=block if length else bytearray(), order=order)  # type: ignore[arg-type]

    def _array(self, body: list[Any]) -> object:
        description, sizes, order = body
        return self._known(self._view(dtypes.restore(description), sizes, order))

    def _jax(self, body: list[Any]) -> object:
        description, sizes, weak = body
        view = self._view(dtypes.restore(description), sizes)
        return self._known(jax_arrays.from_numpy(view, weak=_checked(weak, bool)))

    def _key(self, body: list[Any]) -> object:
        implementation, sizes = body
        view = self._view(dtypes.restore("<u4"), sizes)
        return self._known(jax_arrays.keys_of(view, _checked(implementation, str)))

    def _known(self, array: object) -> object:
        self._arrays.append(array)
        return array

    def _same(self, body: int) -> object:
        return self._arrays[_index(body)]

    def _memory(self, body: list[Any]) -> StoredMemory:
        import numpy as np

        size, is_dense = body
        if not 0 <= _checked(size, int) <= MAX_CONTENT:
            raise malformed("arrays")
        block = self._taken(size, aligned=True) if _checked(is_dense, bool) else np.zeros(size, np.uint8).data
        self._memories.append(StoredMemory(block, is_dense))
        return self._memories[-1]

    def _viewed(self, body: list[Any]) -> object:
        import numpy as np

        memory, description, sizes, strides, offset, is_writable, base = body
        memory = memory if isinstance(memory, StoredMemory) else self._memories[_index(memory)]
        dtype, shape = dtypes.restore(description), dtypes.checked_shape(sizes)
        if (
            not isinstance(strides, list)
            or any(type(stride) is not int for stride in strides)
            or type(offset) is not int
        ):
            raise malformed("arrays")
        place = shape, dtype, strides, offset
        if base is None:
            array = placed(memory.block, *place)
        else:
            array = view_of(_checked(base, np.ndarray), memory.block, *place)
        if not memory.is_dense:
            dtypes.copy(self._view(dtype, sizes), array)
        array.flags.writeable = _checked(is_writable, bool)
        return self._known(array)

    def _scalar(self, body: list[Any]) -> object:
        import numpy as np

        description, text = body
        dtype, data = dtypes.restore(description), bytearray.fromhex(_checked(text, str))
        if len(data) != dtype.itemsize:
            raise malformed("scalars")
        return np.ndarray((), dtype, buffer=data)[()]

    def _text(self, body: str) -> object:
        import numpy as np

        return np.str_(_checked(body, str))

    def _raw(self, body: bytes) -> object:
        import numpy as np

        return np.bytes_(_checked(body, bytes))


_NAMES: Final = {"share": "shared", "viewed": "view"}  # where the methods have names of their own
_DECODERS: Final[dict[str, Callable[[_Decoder, Any], object]]] = {
    f"${_NAMES.get(name, name)}": getattr(_Decoder, f"_{name}")
    for name in (
        "int", "float", "complex", "str", "bytes", "tuple", "set", "frozenset", "range", "slice", "dict", "ordered",
        "enum", "flag", "namedtuple", "dataclass", "registered", "array", "jax", "key", "same", "scalar", "text", "raw",
        "share", "again", "memory", "viewed",
    )
}  # fmt: skip


def _index(number: object) -> int:
    """Return a number that counts something that was before."""
    if type(number) is not int or number < 0:
        raise malformed("tree")
    return number


def _checked(value: Any, cls: type) -> Any:  # noqa: ANN401
    """Return the value, which must be of exactly this type."""
    if type(value) is not cls:
        raise malformed("tree")
    return value
