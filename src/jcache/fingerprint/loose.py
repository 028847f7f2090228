"""Values that a function can reach only by ways that its code does not name, as short digests.

They are no part of a key. Their digests tell whether such a value is the same as when a result was compared.
"""

# ruff: noqa: ANN401 - programs hold anything

from typing import Any, Final

from jcache.fingerprint.describe import shortened
from jcache.fingerprint.encoding import SCALARS, sha256, text
from jcache.fingerprint.refusals import type_name
from jcache.fingerprint.values import Encoder

_MOST: Final = 10_000  # values in one
_LARGE: Final = 1 << 20  # bytes of an array whose elements are not read


def loose_digest(value: Any) -> str:
    """Return a digest of a value, of its type alone where it cannot be read."""
    try:
        return shortened(sha256(_Loosely().encode(value)))
    except Exception:  # noqa: BLE001  whatever its own code raises
        return shortened(sha256(text(type_name(type(value)))))


class _Loosely(Encoder):
    """Encodes all attributes of an object, and gives up where these are too many."""

    def __init__(self) -> None:
        super().__init__()
        self._left = _MOST

    def encode(self, value: Any) -> bytes:
        self._left -= 1
        if self._left < 0:
            raise RecursionError
        scalar = SCALARS.get(type(value))
        if scalar is not None:
            return scalar(value)
        if (getattr(value, "nbytes", None) or 0) > _LARGE:
            return text(f"{type_name(type(value))} {value.shape} {value.dtype}")
        return super().encode(value)

    def reading(self, value: Any) -> bytes:
        return text(str(value))
