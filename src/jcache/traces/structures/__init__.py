"""Structures of pytrees: as a part of keys, and as JSON beside the leaves of a result.

Neither the text nor the hash of JAX's treedefs is the same in another process, and `jax.export` stores only dicts of
str and what the program has registered with it. Here a structure is the list of its nodes, parents before children.

In a key (`Structure`) a node is its class, so that the class's code counts, what it has beside its children (JAX's
"auxiliary data": a dict's keys, a module's static fields), the number of its children, and the functions that take it
apart and put it together where they are no methods of its own. Leaves are told by `aval_key`.

As JSON (`encode`, `decode`) a structure is written with the help of its **likes**, the structures of the arguments,
which the reader has too. Their nodes are counted from 0 through all of them, parents before children.

    structure = [node…]
    node      = "*"                               a leaf
              | null                              None, which JAX takes for a node without leaves
              | number                            what this node of the likes is, with all that is below it
              | [class, aux, number]              any other, and the number of its children
              | [class, aux, number, digest]      and one that functions which are no methods take apart
    class     = "module:name" | number            the class of this node of the likes
    aux       = null | true | false | int of at most 64 bits | finite float | str without surrogates
              | [aux…] | {"tuple": [aux…]} | {"dict": [[aux, aux]…]}
              | {"object": "module:name"}         a class, a function, or what has taken over a function's name
              | {"sentinel": ["module:name", class]}   an instance without state, such as equinox's `MISSING`
              | {"like": [number, position…]}     what this node of the likes has beside its children, or a part of it
              | {"structure": structure}          a treedef, which has no likes
              | {"data": base64}                  anything else that `jcache.formats.pytrees` stores

A position counts the items of a list or tuple, or the values of a dict in the order of its keys, which are str.

Reading imports nothing and calls nothing that it finds a name of: names are looked up in modules that are imported
already. The code of the classes runs when the caller unflattens, as for any pytree (and until jax 0.8, which cannot put
structures together without, already before); where that fails, or what comes of it has another structure, a class has
changed since, and the entry is of no use.
"""

from jcache.traces.structures.decoding import decode
from jcache.traces.structures.encoding import encode
from jcache.traces.structures.keys import Structure, aval_key

__all__ = ["Structure", "aval_key", "decode", "encode"]
