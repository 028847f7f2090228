"""Structures of pytrees: in keys, and as JSON for the result of a stored trace.

Neither the text nor the hash of JAX's treedefs is the same in another process, and `jax.export` stores only dicts with
str keys and classes that the program has registered with it. Here a structure is the list of its nodes, parents before
children.

In a key (`Structure`) a node has four parts: its class, so that the class's code counts; its auxiliary data (JAX's term
for what a node has beside its children: a dict's keys, a module's static fields); the number of its children; and the
functions that flatten and unflatten it, unless they are methods of the class. `aval_key` describes a leaf.

As JSON (`encode`, `decode`) a structure may refer to nodes of its **likes**: the structures of the arguments, which the
reader has, too. The nodes of all likes are numbered together from 0, parents before children.

    structure = [node…]
    node      = "*"                               a leaf
              | null                              None, to JAX a node without leaves
              | number                            a copy of this node of the likes, with all nodes below it
              | [class, aux, number]              any other node, with the number of its children
              | [class, aux, number, digest]      the same, with the digest of flattening functions that are no methods
    class     = "module:name" | number            the class of this node of the likes
    aux       = null | true | false | int of at most 64 bits | finite float | str without surrogates
              | [aux…] | {"tuple": [aux…]} | {"dict": [[aux, aux]…]}
              | {"object": "module:name"}         a class, a function, or an object that has a function's name
              | {"sentinel": ["module:name", class]}   an instance without state, such as equinox's `MISSING`
              | {"like": [number, position…]}     the auxiliary data of this node of the likes, or a part of them
              | {"structure": structure}          a treedef, which has no likes
              | {"made": number}                  this one of the objects that are stored beside the structure
              | {"data": base64}                  anything else that `jcache.formats.pytrees` stores

A position is the number of an item of a list or tuple, or of a value of a dict in the order of its keys, which are str.

Reading imports nothing, and calls nothing that a name in the JSON refers to: names are looked up in modules that are
imported already. The code of the classes runs when the caller unflattens, as for any pytree. Until jax 0.8 it runs
before, too, since these versions can make a treedef only by flattening an instance. If unflattening fails or gives
another structure, a class has changed since then, and the entry cannot be used.
"""

from jcache.traces.structures.decoding import decode
from jcache.traces.structures.encoding import encode, is_plain
from jcache.traces.structures.keys import Structure, aval_key

__all__ = ["Structure", "aval_key", "decode", "encode", "is_plain"]
