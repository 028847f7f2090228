"""How JAX flattens classes of libraries that the program has registered, as a part of what an entry depends on.

A function need not name a class whose instances it is given by a library, so its fingerprint cannot tell. While an
entry is made all such classes are written down; a later process compares those that it has imported. It leaves out
classes of a library that was not loaded when the entry was made, since no code that made the entry has used them.
"""

import sys
from collections.abc import Mapping
from typing import Final
from weakref import WeakKeyDictionary

from jcache.fingerprint.describe import shortened
from jcache.fingerprint.distributions import is_loaded_since
from jcache.fingerprint.origins import of_module_named
from jcache.fingerprint.registrations import are_of_dataclass, is_by_others, pytrees, registered
from jcache.fingerprint.walk import digest_of

_LABEL: Final = "pytrees registered"
_NONE: Final = "none"
_dataclasses: Final[WeakKeyDictionary[type, str]] = WeakKeyDictionary()  # whose fields never change
_KEYLESS: Final = "?"  # of a class whose functions have no key: what was made with it is not served


def flattened() -> dict[str, str]:
    """The part that tells it, if JAX is imported."""
    if "jax" not in sys.modules:
        return {}
    return {_LABEL: _written({name: _words(cls) for name, cls in pytrees().items() if is_by_others(cls)})}


def flattened_now(then: Mapping[str, str]) -> dict[str, str]:
    """The same part today, in the same words if no class that is imported is flattened otherwise than then.

    Args:
        then: all parts of the entry, those of its key too: they name the libraries that were loaded.
    """
    words = then.get(_LABEL)
    if words is None:
        return {}
    pairs = [] if words == _NONE else words.split()
    known = dict(zip(pairs[::2], pairs[1::2], strict=False))
    counted = {
        name: cls
        for name, cls in pytrees().items()
        if name in known or (is_by_others(cls) and not is_loaded_since(of_module_named(str(cls.__module__)), then))
    }
    now = {name: _words(cls) for name, cls in counted.items()}
    same = all(known.get(name) == digest != _KEYLESS for name, digest in now.items())
    return {_LABEL: words if same else _written(known | now)}


def _words(cls: type) -> str:
    known = _dataclasses.get(cls)
    if known is None:
        functions = registered(cls)
        digest = digest_of(functions)
        known = _KEYLESS if digest is None else shortened(digest)
        if are_of_dataclass(functions):
            _dataclasses[cls] = known
    return known


def _written(classes: Mapping[str, str]) -> str:
    return " ".join(f"{name} {digest}" for name, digest in sorted(classes.items())) or _NONE
