"""What a code object means, worked out once for each."""

import functools
from types import CodeType
from typing import Any, NamedTuple

from jcache.fingerprint.bytecode import Chain, reads, signature
from jcache.fingerprint.encoding import constant
from jcache.fingerprint.weak_map import WeakIdentities


class Lookup:
    """Names that code looks up; there is one for all functions that look up the same.

    Attributes:
        chain: the names.
        name: the same as bytes.
        given: texts that it is given at once.
    """

    __slots__ = ("chain", "given", "name")

    def __init__(self, chain: Chain, name: bytes, given: frozenset[Any]) -> None:
        self.chain, self.name, self.given = chain, name, given


class Meaning(NamedTuple):
    """Of a function's code.

    Attributes:
        digest: of what it does.
        lookups: what it looks up outside of itself, in order.
        attributes: names of all attributes that it takes, of whatever, among others.
    """

    digest: bytes
    lookups: tuple[Lookup, ...]
    attributes: frozenset[str]


_known: WeakIdentities[Meaning] = WeakIdentities()


def meaning(code: CodeType) -> Meaning:
    """Return what a code object means."""
    known = _known.get(code)
    if known is None:
        known = _meaning(code)
        _known.put(code, known)
    return known


def _meaning(code: CodeType) -> Meaning:
    found = reads(code)
    lookups = [_lookup(chain, frozenset(found.given.get(chain, ()))) for chain in sorted(found.chains)]
    return Meaning(signature(code), tuple(lookups), frozenset(found.attributes))


@functools.cache
def _lookup(chain: Chain, given: frozenset[Any]) -> Lookup:
    return Lookup(chain, constant(chain) or b"", given)
