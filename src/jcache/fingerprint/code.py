"""Digest and look-ups of code objects, computed once for each."""

import functools
from collections.abc import Mapping
from types import CodeType
from typing import Any, Final, NamedTuple

from jcache.fingerprint.bytecode import Chain, reads, signature
from jcache.fingerprint.encoding import constant
from jcache.fingerprint.uses import TELLS
from jcache.fingerprint.ways import Way
from jcache.fingerprint.weak_map import WeakIdentities


class Lookup:
    """Chain of names that code looks up; all functions with the same look-up share one object."""

    __slots__ = ("chain", "given", "is_counted", "name")

    def __init__(self, chain: Chain, given: frozenset[Any], *, is_counted: bool) -> None:
        self.chain, self.name, self.given, self.is_counted = chain, constant(chain) or b"", given, is_counted


class Meaning(NamedTuple):
    """Digest of a function's code, and the names that the code uses."""

    digest: bytes
    lookups: tuple[Lookup, ...]  # of names from outside of the function, sorted
    ways: frozenset[tuple[str, Way]]  # names with the ways in which it uses containers of these names
    asked: Mapping[str, frozenset[str | None]]  # what it asks of each name, see `jcache.fingerprint.uses.asked`
    asked_of_first: frozenset[str | None]  # what it asks of its first parameter
    is_logger: bool  # whether it has the name of a logger's method
    attributes: frozenset[str]  # the names of the attributes that it reads, of any object
    used: frozenset[str]  # the names that it uses for more than to count
    filled: frozenset[str]  # those in which it stores items
    said: frozenset[str]  # those that it gives to the methods of loggers, or to others of these names
    counted: frozenset[str]  # those of variables of which it does nothing but `n += 1`


_known: Final[WeakIdentities[Meaning]] = WeakIdentities()
_lookup: Final = functools.cache(Lookup)


def meaning(code: CodeType) -> Meaning:
    known = _known.get(code)
    if known is None:
        found = reads(code)
        lookups = [
            _lookup(chain, frozenset(found.given.get(chain, ())), is_counted=chain[0] in found.counted)
            for chain in sorted(found.chains)
        ]
        kinds = found.attributes, found.used, found.filled, found.said, found.counted
        names, is_logger = map(frozenset[str], kinds), code.co_name in TELLS
        asked = {name: frozenset(each) for name, each in found.asked.items()}
        known = Meaning(
            signature(code), tuple(lookups), frozenset(found.ways), asked, frozenset(found.asked_of_first), is_logger,
            *names,
        )  # fmt: skip
        _known.put(code, known)
    return known
