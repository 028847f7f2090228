"""The callbacks of a program on the host: stored as recipes, and made again in the next process.

JAX gives an executable a list of functions; the n-th callback of the program calls the n-th function. Each is a closure
of JAX around the program's own function, which may be a closure, too. A recipe describes the parts of such a function.
All recipes of a program are one JSON object::

    {"made": [thing…], "callbacks": [value…]}

    value = null | true | false | int of at most 64 bits | finite float | str without surrogates
          | ["tuple", value…] | ["partial", value, value, value]          function, positional, keyword arguments
          | ["fields", class, value…]                                     a named tuple
          | ["made", number]                                              the thing with this number
          | ["object", "module:name", digest | null]                      a class, or a function and its code's digest
          | ["global", "module:name", class]                              an instance of a class in the class's module
          | ["member", class, name]                                       a member of an enum
          | ["flags", class, int] | ["ellipsis"]                          a union of flags, and `...`
          | ["module", name]
          | ["method", value, name]                                       a bound method of the value
          | ["reached", step…]                                            the object at a path, see `reach`
          | ["local", module, function, variable, number]                 a variable of a function that is running
          | ["frames", str]                                               a text with frames, see `frames`
          | ["random", length]                                            the identifier of a call that has ended
          | ["type", shape, dtype, weak] | ["dtype", dtype] | ["structure", structure]
          | ["flax id"]                                                   a new identifier of a module of flax
          | ["data", base64]                                              anything else that `formats.pytrees` stores
    thing = ["cell"] | ["cell", value] | ["list", value…] | ["dict", [value, value]…] | ["copy", base64]
          | ["ordered", [value, value]…] | ["deque", maxlen, value…]      of Python's `collections`
          | ["instance", class, [name, value]…]
          | ["function", module, name, digest, number, [value…], defaults, defaults by name, attributes,
             [[name, value…]…]]                                            what its code does not tell of it

A function is found by its name. A nested function is made from its code, which is found in its module (see `codes`),
and its closure. The module of the traced function is left out of the recipes, since several modules may have the same
function. An object that the program can change is used itself if the traced function reaches it by a name (see
`reach`), and copied if nothing else refers to it; otherwise the trace is not stored. Reading a recipe imports nothing.

The objects that the structure of a result has beside its leaves, such as the ``apply_fn`` of a ``TrainState``, are
stored as recipes as well, if JSON cannot have them.
"""

from jcache.traces.callbacks.reading import read, read_objects
from jcache.traces.callbacks.writing import write, write_objects

__all__ = ["read", "read_objects", "write", "write_objects"]
