"""What `functools.cached_property` has kept on objects while something was traced.

A process that traces nothing does not compute it, and its objects are the same all the same: what was derived from an
object's state by a library's own code, and from nothing else, is no part of that state.
"""

# ruff: noqa: ANN401 - objects are anything

from contextlib import suppress
from typing import Any, Final

from jcache.fingerprint.weak_map import WeakIdentities

_known: Final[WeakIdentities[dict[str, bytes]]] = WeakIdentities()


def note(instance: Any, name: str, digest: bytes) -> None:
    """Notes that an attribute was derived, and a digest of it."""
    with suppress(TypeError):  # it cannot be referred to weakly
        _known.put(instance, {**(_known.get(instance) or {}), name: digest})


def noted(instance: Any, name: str) -> bytes | None:
    """The digest of an attribute that was derived; None of any other."""
    return (_known.get(instance) or {}).get(name)
