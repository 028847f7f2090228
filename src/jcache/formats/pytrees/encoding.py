"""Encoding: the payload of a value; the grammar is in the package's docstring."""

from __future__ import annotations

import enum
import json
import math
import sys
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, Final

from jcache.errors import NotStorable
from jcache.formats.compression import MAX_CONTENT
from jcache.formats.envelope import ALIGNMENT
from jcache.formats.pytrees import classes, dtypes, grammar, jax_arrays
from jcache.formats.pytrees.adapters import plain_of
from jcache.formats.pytrees.grammar import MAX_DEPTH, PLAIN, CannotEncode, Unsupported, are_nodes, bits_of, is_text
from jcache.formats.pytrees.memory import Arrays
from jcache.formats.pytrees.payload import MAX_TREE, Dumped, join_payload
from jcache.formats.pytrees.registration import Registered, registered
from jcache.formats.pytrees.sharing import Containers

if TYPE_CHECKING:
    import numpy as np

Node = Any


def dump(value: object) -> Dumped:
    """Return a value as bytes.

    Raises:
        NotStorable: a part of it cannot be stored; the message says which, why, and what to do.
    """
    encoder = _Encoder()
    try:
        root = encoder.node(value)
        if encoder.containers.are_shared:
            root = encoder.containers.resolved(root)
        blocks = encoder.arrays.finish()
        tree = json.dumps(root, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except NotStorable:
        raise
    except CannotEncode as refused:
        raise NotStorable(str(refused)) from refused.__cause__
    except RecursionError as error:
        raise NotStorable("The value cannot be stored: it is nested too deeply for the stack at hand.") from error
    except Exception as error:
        raise NotStorable(f"The value cannot be stored: {type(error).__name__}: {error}.") from error
    if len(tree) > MAX_TREE:
        raise NotStorable(
            f"The value cannot be stored: without its arrays it takes {len(tree):,} bytes: {grammar.ADVICE}."
        )
    return Dumped(tuple(join_payload(tree, blocks, shares=encoder.containers.are_shared or encoder.arrays.has_views)))


class _Encoder:
    """Turns one value into a node, and collects the blocks that it mentions."""

    def __init__(self) -> None:
        self.arrays = Arrays()
        self._bytes = 0
        self._values = 0
        self._open: set[int] = set()  # ids of the containers around the current value
        self.containers = Containers()
        self._nodes = self.containers.nodes
        self._kept: list[object] = []  # what `to_dict` and adapters have returned, so that its ids stay its own

    def node(self, value: object) -> Node:
        encode = _PLAIN.get(type(value))
        if encode is not None:
            return encode(self, value)
        if id(value) in self._nodes:
            return self.containers.again(value)
        encode = _CONTAINERS.get(type(value))
        node = encode(self, value) if encode is not None else self._other(value)
        if encode is not None and (value or type(value) not in _SINGLE_IF_EMPTY):
            self._nodes[id(value)] = node
        return node

    def _other(self, value: object) -> Node:
        cls = type(value)
        if (how := registered(cls)) is not None:
            return self.containers.add(value, self._registered(value, how))
        if isinstance(value, enum.Enum):
            return self._enum(value)
        numpy, jax = sys.modules.get("numpy"), sys.modules.get("jax")
        if numpy is not None and isinstance(value, numpy.ndarray | numpy.generic):
            return self._ndarray(value) if isinstance(value, numpy.ndarray) else self._scalar(value)
        if jax is not None and isinstance(value, getattr(jax, "Array", ())):
            return self._jax(value)
        if is_dataclass(cls):
            return self.containers.add(value, self._dataclass(value))
        if isinstance(value, tuple) and classes.is_namedtuple(cls):
            return self.containers.add(value, self._namedtuple(value))
        return self.containers.add(value, self._adapted(value))

    # -- containers

    def _items(
        self, container: object, items: Collection[object], step: Callable[[int], str] = "[{}]".format
    ) -> list[Node]:
        """Return the nodes of the items in a container; ``step`` names the path to an item, for messages."""
        if id(container) in self._open:
            raise CannotEncode(container, "contains itself", "return a value without cycles")
        if len(self._open) >= MAX_DEPTH:
            raise CannotEncode(container, f"is nested more than {MAX_DEPTH} levels deep", "flatten the value")
        self._values += len(items)
        if self._values > grammar.MAX_VALUES:
            raise CannotEncode(container, f"makes it more than {grammar.MAX_VALUES:,} values", "make arrays of them")
        if are_nodes(items):
            return list(items)
        self._open.add(id(container))
        nodes: list[Node] = []
        try:
            for item in items:
                nodes.append(self.node(item))
        except CannotEncode as refused:
            refused.path.append(step(len(nodes)))
            raise
        self._open.remove(id(container))
        return nodes

    def _list(self, value: list[object]) -> Node:
        return self._items(value, value)

    def _tagged(self, value: Any) -> Node:  # noqa: ANN401
        return {f"${type(value).__name__}": self._items(value, value)}

    def _range(self, value: range | slice) -> Node:
        parts = value.start, value.stop, value.step
        return {f"${type(value).__name__}": self._items(value, parts, (".start", ".stop", ".step").__getitem__)}

    def _dict(self, value: dict[Any, object]) -> Node:
        keys = list(value)
        texts = type(value) is dict and all(type(key) is str and is_text(key) for key in keys)
        if texts and not (len(keys) == 1 and keys[0].startswith("$")):
            nodes = self._items(value, value.values(), lambda number: _key_step(keys[number]))
            return dict(zip(keys, nodes, strict=True))
        both = [part for item in value.items() for part in item]
        nodes = self._items(value, both, lambda n: _key_step(keys[n // 2]) if n % 2 else f".keys()[{n // 2}]")
        return {_DICTS[type(value)]: [list(pair) for pair in zip(nodes[::2], nodes[1::2], strict=True)]}

    # -- classes

    def _registered(self, value: object, how: Registered) -> Node:
        try:
            state = how.to_dict(value)
        except Exception as error:
            raise CannotEncode(value, f"has a `to_dict` that raised {error!r}", "correct it") from error
        self._kept.append(state)
        return {"$registered": [how.name, *self._items(value, [state], lambda _: ".to_dict()")]}

    def _adapted(self, value: object) -> Node:
        try:
            found = plain_of(value)
        except Unsupported as error:
            raise CannotEncode(value, str(error), error.advice or grammar.ADVICE) from error
        if found is None:
            raise CannotEncode(value, "no codec knows")
        return self._stored_as(found[0], value, found[1])

    def _stored_as(self, name: str, value: object, state: object) -> Node:
        self._kept.append(state)
        return {"$registered": [name, *self._items(value, [state], lambda _: "")]}

    def _enum(self, value: enum.Enum) -> Node:
        cls = type(value)
        self._check_class(value)
        if cls._member_map_.get(value._name_) is value:
            plain = type(value._value_) in PLAIN
            return {"$enum": [classes.name_of(cls), value._name_, self.node(value._value_) if plain else None]}
        if classes.is_flag(cls) and type(value._value_) is int:
            return {"$flag": [classes.name_of(cls), self.node(value._value_)]}
        raise CannotEncode(value, "does not have it as a member")

    def _dataclass(self, value: object) -> Node:
        try:
            names, values = classes.state_of(value)
        except Unsupported as error:
            raise CannotEncode(value, str(error)) from error
        nodes = self._items(value, values, lambda number: f".{names[number]}")
        return {"$dataclass": [classes.name_of(type(value)), list(names), nodes]}

    def _namedtuple(self, value: tuple[object, ...]) -> Node:
        self._check_class(value)
        cls, names = type(value), classes.fields_of_namedtuple(type(value))
        if len(names) != len(value) or classes.held_by(value, classes.slots_of(cls)):
            raise CannotEncode(value, "holds more or less than its fields")
        nodes = self._items(value, tuple(tuple.__iter__(value)), lambda number: f".{names[number]}")
        return {"$namedtuple": [classes.name_of(cls), list(names), nodes]}

    def _check_class(self, value: object) -> None:
        try:
            classes.check_findable(type(value))
        except Unsupported as error:
            raise CannotEncode(value, str(error)) from error

    # -- arrays

    def _ndarray(self, value: np.ndarray[Any, Any]) -> Node:
        import numpy as np

        if type(value) is not np.ndarray:
            raise CannotEncode(value, "is a class of arrays of its own", "return plain arrays of what it holds")
        if self.arrays.is_known(value):
            return self.arrays.mention(value)
        self._count_bytes(value, value.nbytes)
        return self.arrays.mention(value, self._dtype(value))

    def _dtype(self, value: np.ndarray[Any, Any] | np.generic) -> Node:
        try:
            return dtypes.describe(value.dtype)
        except Unsupported as error:
            raise CannotEncode(value, str(error), "convert it") from error

    def _scalar(self, value: np.generic) -> Node:
        import numpy as np

        if type(value) is np.str_:
            return {"$text": self.node(str.__str__(value))}
        if type(value) is np.bytes_:
            return {"$raw": self.node(bytes(value))}
        if type(value) is not value.dtype.type:
            raise CannotEncode(value, "is a class of scalars of its own")
        return {"$scalar": [self._dtype(value), bytes(dtypes.bytes_of(np.asarray(value))).hex()]}

    def _jax(self, value: Any) -> Node:  # noqa: ANN401
        try:
            host, node = jax_arrays.to_numpy(value)
            state = jax_arrays.state_of(value, host, node)
        except Unsupported as error:
            raise CannotEncode(value, str(error), error.advice or "return it as a numpy array") from error
        if state is not None:
            return self.containers.add(value, self._stored_as(jax_arrays.NAME, value, state))
        if self.arrays.is_known(value):
            return self.arrays.mention(value)
        if node is None:
            node = {"$jax": [self._dtype(host), list(host.shape), value.weak_type]}
        self._count_bytes(value, host.nbytes)
        self.arrays.add_block(dtypes.bytes_of(host), aligned=True, of=value)
        return node

    # -- plain values

    def _count_bytes(self, value: object, size: int) -> None:
        self._bytes += size + ALIGNMENT
        if self._bytes + MAX_TREE > MAX_CONTENT:
            raise CannotEncode(value, f"makes it more than {MAX_CONTENT - MAX_TREE:,} bytes", "store it in parts")

    def _bytes_object(self, value: bytes) -> Node:
        self._count_bytes(value, len(value))
        self.arrays.add_block(memoryview(value), aligned=False)
        return {"$bytes": len(value)}

    def _itself(self, value: object) -> Node:
        return value

    def _int(self, value: int) -> Node:
        return value if value.bit_length() <= 64 else {"$int": hex(value)}

    def _float(self, value: float) -> Node:
        return value if math.isfinite(value) else {"$float": bits_of(value)}

    def _complex(self, value: complex) -> Node:
        return {"$complex": [bits_of(value.real), bits_of(value.imag)]}

    def _str(self, value: str) -> Node:
        return value if is_text(value) else {"$str": value.encode(errors="surrogatepass").hex()}


_DICTS: Final[dict[type, str]] = {dict: "$dict", OrderedDict: "$ordered"}
_SINGLE_IF_EMPTY: Final = frozenset({tuple, frozenset})  # Python has one empty one of each
_PLAIN: Final[dict[type, Callable[[_Encoder, Any], Node]]] = {
    type(None): _Encoder._itself,
    bool: _Encoder._itself,
    int: _Encoder._int,
    float: _Encoder._float,
    complex: _Encoder._complex,
    str: _Encoder._str,
    bytes: _Encoder._bytes_object,
    **dict.fromkeys((range, slice), _Encoder._range),
}
_CONTAINERS: Final[dict[type, Callable[[_Encoder, Any], Node]]] = {
    list: _Encoder._list,
    dict: _Encoder._dict,
    OrderedDict: _Encoder._dict,
    **dict.fromkeys((tuple, set, frozenset), _Encoder._tagged),
}


def _key_step(key: object) -> str:
    return f"[{key!r:.60}]" if type(key) in (str, int, float, bool) else ".values()[…]"
