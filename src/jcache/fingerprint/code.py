"""What a code object means, worked out once for each."""

import functools
from types import CodeType
from typing import Any, Final, NamedTuple

from jcache.fingerprint.bytecode import Chain, reads, signature
from jcache.fingerprint.encoding import constant
from jcache.fingerprint.weak_map import WeakIdentities


class Lookup:
    """Names that code looks up; there is one for all functions that look up the same."""

    __slots__ = ("chain", "given", "name")

    def __init__(self, chain: Chain, given: frozenset[Any]) -> None:
        self.chain, self.name, self.given = chain, constant(chain) or b"", given


class Meaning(NamedTuple):
    """What a function's code does and looks up."""

    digest: bytes
    lookups: tuple[Lookup, ...]  # outside of itself, in order
    attributes: frozenset[str]  # the names of all that it takes, of whatever


_known: Final[WeakIdentities[Meaning]] = WeakIdentities()
_lookup: Final = functools.cache(Lookup)


def meaning(code: CodeType) -> Meaning:
    known = _known.get(code)
    if known is None:
        found = reads(code)
        lookups = [_lookup(chain, frozenset(found.given.get(chain, ()))) for chain in sorted(found.chains)]
        known = Meaning(signature(code), tuple(lookups), frozenset(found.attributes))
        _known.put(code, known)
    return known
