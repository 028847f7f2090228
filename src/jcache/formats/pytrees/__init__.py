r"""The bytes of graphs: an encoding of trees of arrays and plain values, without pickle.

    from jcache.formats import pytrees
    dumped = pytrees.dump({"rates": numpy.ones(3), "names": ["a", "b"]})
    pytrees.load(memoryview(bytearray(b"".join(dumped.pieces))))

The payload of a graph's envelope:

    payload  = magic tree-length tree blocks                       nothing behind
    magic    = "jctree1\n" | "jctree2\n"                           the latter where a node of version 2 is used
    length   = 8 bytes, unsigned, big-endian: of the tree, at most 256 MiB
    tree     = JSON (UTF-8, no blanks, the order of keys kept), a node
    blocks   = in the order in which the tree, read from left to right, mentions them; the block of an array starts at
               the next multiple of 64 from the beginning of the payload, any other where the block before it ends

A node is plain JSON for None, bool, int of at most 64 bits, finite float, str without surrogates, list, and dict whose
keys are such str (except a dict of one key that begins with "$"). For every other value it is an object of one key:

    {"$int": hex}  {"$float": 16 hex}  {"$complex": [16 hex, 16 hex]}  {"$str": hex}       bits, and UTF-8 of surrogates
    {"$bytes": length}                                                                     with a block
    {"$tuple": [node…]}  {"$set": [node…]}  {"$frozenset": [node…]}  {"$range": [node, node, node]}
    {"$slice": [node, node, node]}  {"$dict": [[node, node]…]}  {"$ordered": [[node, node]…]}   "$ordered": OrderedDict
    {"$enum": [class, name, value]}  {"$flag": [class, value]}       the value of a member where it is plain, else null
    {"$namedtuple": [class, [field…], [node…]]}  {"$dataclass": [class, [field…], [node…]]}
    {"$registered": [name, node]}                                    by `register_class`: the result of its to_dict;
                                                                     a name that begins with "jcache:" is that of a
                                                                     class of another package, see `adapters`
    {"$array": [dtype, [size…], "C" | "F"]}                          numpy.ndarray, with a block
    {"$scalar": [dtype, hex]}  {"$text": node}  {"$raw": node}       numpy's scalars; numpy.str_ and numpy.bytes_
    {"$jax": [dtype, [size…], weak]}  {"$key": [implementation, [size…]]}                  jax.Array, with a block
    {"$same": number}                                                the array of this number, counted as the blocks are

and in version 2, which readers of the first one refuse:

    {"$shared": node}                           a container that is mentioned again
    {"$again": number}                          that container; the $shared are counted as they end
    {"$memory": [size, dense]}                  the memory of arrays; a block has its content if it is dense
    {"$view": [memory | number, dtype, [size…], [stride…], offset, writable, base | null]}
                                                an array in a memory, which has a number as arrays have; the base is
                                                another array's node. A memory that is not dense is filled from blocks
                                                that have the elements of each of its arrays in C order

    dtype    = numpy's ``dtype.str`` | "ml_dtypes.<name>" | ["array", dtype, [size…]]
               | ["struct", itemsize, aligned, [[name, title | null, offset, dtype]…]]
    class    = module ":" qualified name

A loaded value equals the dumped one: a container, an object or an array that is mentioned more than once is one object;
arrays share memory as they did, and have the same strides and the same write protection. There are these differences:
numbers, texts, bytes and scalars that were one object may be several; what lies in memory between the elements of all
arrays is zero; the values that a dataclass's cached properties have stored are left out. A jax array that JAX was free
to place is placed by JAX again; any other is a "$registered" one, and comes back on its device or mesh.

The bytes cannot choose code that runs on reading. A class is looked up, by module and name, among the classes that the
program has imported, and must still be an enumeration, namedtuple or dataclass of the same fields; its instances are
made without calling it. jcache calls ``from_dict`` only of classes that the program has given to `register_class`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jcache.formats.pytrees.decoding import load
    from jcache.formats.pytrees.encoding import dump
    from jcache.formats.pytrees.payload import Dumped
    from jcache.formats.pytrees.registration import register_class

__all__ = ["Dumped", "dump", "load", "register_class"]

_MODULE_OF = {"load": "decoding", "Dumped": "payload", "dump": "encoding", "register_class": "registration"}


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    return value
