"""Calls that have a key: function, arguments, key, and the store of their graph."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from jcache.errors import GraphKeyError
from jcache.fingerprint import Fingerprint, changed_meanwhile, fingerprint
from jcache.fingerprint.depends_on import Dependency
from jcache.graphs.codec_hashes import CodecHashes
from jcache.graphs.file_codec import FileCodec
from jcache.graphs.roots import Places
from jcache.graphs.told import Told
from jcache.layout import Root, storable
from jcache.runtime import side_effects
from jcache.runtime.sealed_store import SealedStore

_NO_KEY: Final = "it has no key"
_NO_ROOT: Final = "there is no root"


class KeyedCall(NamedTuple):
    """A call with its key and the store of its graph."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    fingerprint: Fingerprint
    key: str
    store: SealedStore
    shared: Sequence[Root] = ()

    def run(self) -> Any:  # noqa: ANN401
        """Call the function."""
        return self.function(*self.args, **self.kwargs)

    def changes(self) -> str | None:
        """Return what has changed since the key was made; None if nothing has."""
        return "; ".join(changed_meanwhile(self.fingerprint, self.function, self.args, self.kwargs)) or None


class KeyedCalls:
    """Makes keyed calls.

    Args:
        places: the roots.
        codec: the codec of the graphs; None for arrays and plain values.
        depends_on: more values that are parts of each key.
        told: the reports of the cache.
    """

    def __init__(self, places: Places, codec: FileCodec | None, depends_on: tuple[Dependency, ...], told: Told) -> None:
        self._places = places
        self._codec = codec
        self._of_codec = CodecHashes(() if codec is None else (codec.save, codec.load))
        self._depends_on = depends_on
        self._told = told

    def of(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> KeyedCall | str:
        """Return a call with its key; if it has none, or there is no root, warn and return the reason."""
        try:
            return self.strictly(function, args, kwargs) or _NO_ROOT
        except GraphKeyError as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001  a value's own code may raise anything
            reason = f"its key cannot be made: {error!r}."
        self._told.tally.not_stored(_NO_KEY)
        self._told.warn(function, reason, f"is built without the cache: {reason}")
        return reason

    def strictly(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> KeyedCall | None:
        """Return a call with its key, None if there is no root; raise GraphKeyError if it has no key."""
        store, shared = self._places.now()
        if store is None:
            self._told.tally.not_stored(_NO_ROOT)
            return None
        taken = fingerprint(function, args, kwargs, depends_on=self._depends_on)
        if side_effects.settle(taken.snapshot):
            taken = fingerprint(function, args, kwargs, depends_on=self._depends_on)
        return KeyedCall(function, args, kwargs, taken, self._key(taken), store, shared)

    def _key(self, taken: Fingerprint) -> str:
        """Return the key; a codec's name and functions are part of it, since another codec writes other bytes."""
        if self._codec is None:
            return taken.key
        text = "\n".join([taken.hash, self._codec.name, *self._of_codec()])
        return storable(f"{taken.name}-{hashlib.sha256(text.encode()).hexdigest()}")
