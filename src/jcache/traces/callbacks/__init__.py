"""What a program calls back on the host: kept as recipes, and made again in the next process.

JAX gives an executable a list of functions; the n-th callback of a program is a call of the n-th of them. They are
closures: of JAX around the program's own function, which may be a closure as well. A recipe says what such a function
is made of. All recipes of a program are one JSON object::

    {"made": [thing…], "callbacks": [value…]}

    value = null | true | false | int of at most 64 bits | finite float | str without surrogates
          | ["tuple", value…] | ["partial", value, value, value]          a function, its arguments, those by keyword
          | ["fields", class, value…]                                     a named tuple
          | ["made", number]                                              the thing of this number
          | ["object", "module:name", digest | null]                      a class, or a function and its code's digest
          | ["global", "module:name", class]                              an instance of a class of the same module
          | ["member", class, name] | ["module", name]
          | ["method", value, name]                                       of the object
          | ["reached", step…]                                            what the traced function reaches, itself
          | ["local", module, function, variable, number]                 of a function that is running
          | ["frames", str]                                               the text of frames, see `frames`
          | ["random", length]                                            the identifier of a call that has ended
          | ["type", shape, dtype, weak] | ["dtype", name] | ["structure", structure]
          | ["data", base64]                                              anything else that `formats.pytrees` stores
    thing = ["cell"] | ["cell", value] | ["list", value…] | ["dict", [value, value]…] | ["copy", base64]
          | ["ordered", [value, value]…] | ["deque", most, value…]        of Python's `collections`
          | ["instance", class, [name, value]…]
          | ["function", module, name, digest, number, [value…], defaults, defaults by name, attributes]

A function is found by its name; a nested one is made of code that stands in the code of its module, see `codes`, and of
its closure. The traced function's own module has no name in a recipe, since the same function may stand in several. An
object that the program can change is used itself, where the traced function reaches it by a name (see `reach`). What
nobody else refers to is copied; all else is a reason not to store the trace. Reading imports nothing.
"""

from jcache.traces.callbacks.reach import Origin
from jcache.traces.callbacks.reading import read
from jcache.traces.callbacks.writing import write

__all__ = ["Origin", "read", "write"]
