"""Digest and look-ups of code objects, computed once for each."""

import functools
from types import CodeType
from typing import Any, Final, NamedTuple

from jcache.fingerprint.bytecode import IMPORT, Chain, reads, signature
from jcache.fingerprint.encoding import constant
from jcache.fingerprint.weak_map import WeakIdentities


class Lookup:
    """Chain of names that code looks up; all functions with the same look-up share one object."""

    __slots__ = ("chain", "given", "is_used", "name")

    def __init__(self, chain: Chain, given: frozenset[Any], *, is_used: bool) -> None:
        self.chain, self.name, self.given, self.is_used = chain, constant(chain) or b"", given, is_used


class Meaning(NamedTuple):
    """Digest of a function's code, and the names that the code uses."""

    digest: bytes
    lookups: tuple[Lookup, ...]  # of names from outside of the function, sorted
    attributes: frozenset[str]  # the names of the attributes that it reads, of any object
    used: frozenset[str]  # the names that it uses for more than to count
    whole: frozenset[str]  # those of containers of which it uses the length, the order or all items
    filled: frozenset[str]  # those in which it counts, or stores items
    opened: frozenset[str]  # the names that it uses for anything but items under constant texts


_known: Final[WeakIdentities[Meaning]] = WeakIdentities()
_lookup: Final = functools.cache(Lookup)


def meaning(code: CodeType) -> Meaning:
    known = _known.get(code)
    if known is None:
        found = reads(code)
        lookups = [
            _lookup(chain, frozenset(found.given.get(chain, ())), is_used=found.used.issuperset(names))
            for chain in sorted(found.chains)
            for names in [chain[1:] if chain[0].startswith(IMPORT) else chain]
        ]
        names = (frozenset(each) for each in (found.attributes, found.used, found.whole, found.filled, found.opened))
        known = Meaning(signature(code), tuple(lookups), *names)
        _known.put(code, known)
    return known
