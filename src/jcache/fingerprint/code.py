"""Digest and look-ups of code objects, computed once for each."""

import builtins
import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import Any, Final, NamedTuple

from jcache.fingerprint.asks import Asks, asks_in
from jcache.fingerprint.bytecode import Chain, reads, signature
from jcache.fingerprint.encoding import constant
from jcache.fingerprint.origins import USER, of_module_named
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
    computed: frozenset[Chain]  # globals of which it reads attributes whose names it computes
    asks: Callable[[], Asks]  # returns what it asks of names and of its parameters
    is_logger: bool  # whether it has the name of a logger's method
    handles_errors: bool  # whether it may use the text of an error
    attributes: frozenset[str]  # the names of the attributes that it reads, of any object
    used: frozenset[str]  # the names that it uses for more than to count
    filled: frozenset[str]  # those in which it stores items
    said: frozenset[str]  # those that it gives to the methods of loggers, or to others of these names
    counted: frozenset[str]  # those of variables and attributes of which it does nothing but `n += 1`
    set_otherwise: frozenset[str]  # those of attributes that it sets in another way
    told_by: frozenset[str]  # those of globals with which it only prints and logs in some statements


TOLD: Final = "(told)"  # stands among the names where what code prints or logs counts
_CAPTURES: Final = frozenset({"addHandler", "getvalue", "redirect_stderr", "redirect_stdout"})
_STREAMS: Final = frozenset({"stderr", "stdout"})
_told_counts: Final = ContextVar("told counts", default=False)
_known: Final[WeakIdentities[Meaning]] = WeakIdentities()
_untold: Final[WeakIdentities[Meaning]] = WeakIdentities()
_lookup: Final = functools.cache(Lookup)


@contextmanager
def with_told(*, told: bool) -> Iterator[None]:
    """Have what code only prints or logs count as well, in this block, if `told`: the program uses it."""
    token = _told_counts.set(told)
    try:
        yield
    finally:
        _told_counts.reset(token)


def uses_told(known: Meaning) -> bool:
    """Return whether code may use what it has printed or logged."""
    return not (known.attributes.isdisjoint(_CAPTURES) and known.set_otherwise.isdisjoint(_STREAMS))


def meaning_of(function: FunctionType) -> Meaning:
    """Return the meaning of a function's code; what it only prints, or gives to loggers of Python's, does not count."""
    known = meaning(function.__code__)
    if (
        not known.told_by
        or _told_counts.get()
        or not all(_only_tells(name, function.__globals__) for name in known.told_by)
    ):
        return known
    untold = _untold.get(function.__code__)
    if untold is None:
        _untold.put(function.__code__, untold := _meaning(function.__code__, untold=True))
    return untold


def _only_tells(name: str, namespace: dict[str, Any]) -> bool:
    """Return whether a global is `print`, a logger without handlers of the user's, or the module of such loggers."""
    value = namespace.get(name, vars(builtins).get(name))
    if value is builtins.print:
        return type(value) is BuiltinFunctionType
    logging: Any = sys.modules.get("logging")
    if logging is None:
        return False
    is_module = value is logging or (value is not None and value is sys.modules.get("absl.logging"))
    logger: Any = logging.root if is_module else value
    while type(logger) in {logging.Logger, logging.RootLogger}:
        if any(of_module_named(type(each).__module__) == USER for each in (*logger.handlers, *logger.filters)):
            return False
        if logger.parent is None:
            return True
        logger = logger.parent
    return False


def meaning(code: CodeType) -> Meaning:
    known = _known.get(code)
    if known is None:
        _known.put(code, known := _meaning(code))
    return known


def _meaning(code: CodeType, *, untold: bool = False) -> Meaning:
    found = reads(code, untold=untold)
    lookups = [
        _lookup(chain, frozenset(found.given.get(chain, ())), is_counted=chain[0] in found.counted)
        for chain in sorted(found.chains)
    ]
    kinds = found.attributes, found.used, found.filled, found.said, found.counted, found.set_otherwise, found.told_by
    names, traits = map(frozenset[str], kinds), (code.co_name in TELLS, found.handles_errors)
    asks = functools.cache(functools.partial(asks_in, code, untold=untold))  # few walks need it
    computed = frozenset(each for each in found.computed if each is not None)
    return Meaning(signature(code), tuple(lookups), frozenset(found.ways), computed, asks, *traits, *names)
