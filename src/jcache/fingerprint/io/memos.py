"""Record what was read for memoized results: those of `functools.lru_cache`, and JAX's traces.

A block that takes such a result reads nothing again, but depends on what was read when the result was made. After
`audit.record_always`, this module records in all threads, in blocks and outside, which files and directories are opened
and which environment variables are read. A block depends on what was read

- for the results of each ``lru_cache`` that was hit during the block,
- while JAX was tracing anything, because nothing reports which trace a block calls.
"""

# ruff: noqa: ANN401 - the arguments of audit events are of any type

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from jcache.attribution import Reader, is_own, package_of, reader
from jcache.fingerprint.describe import attribute_of
from jcache.fingerprint.io import open_blocks
from jcache.fingerprint.io.digests import Look, is_read, label_of, names_in, now, path_of, seen, variable
from jcache.jax_internals.registry import is_tracing

if TYPE_CHECKING:
    from jcache.fingerprint.io.reads import Reads

_MAX_RECORDED: Final = 10_000  # files and variables recorded for one ``lru_cache``, or for all traces
_LOOKING_UP: Final = frozenset({"os", "_collections_abc"})  # modules that look up variables for their callers
_MAX_UNUSED_LOOKUPS: Final = 100  # look-ups of a variable on one line, for no result, before they are ignored
_ENVIRONMENT: Final = "environment"
_MAX_MODULES: Final = 1_000  # modules whose ``lru_cache`` objects are remembered
_LRU: Final = type(functools.lru_cache(str))
_LIBRARIES: Final = sys.stdlib_module_names | {"jax", "jaxlib", "jcache"}  # their own results do not count
_LISTS: Final = frozenset({"os.listdir", "os.scandir"})

Noted = dict[str, tuple[str, str]]  # label -> the label of a quick check, and its text then
_of_lru: Final[WeakKeyDictionary[Any, Noted]] = WeakKeyDictionary()
_of_traces: Final[Noted] = {}
_unused_lookups: Final[dict[tuple[int, int, str], int]] = {}
_lost = ""  # why something could not be recorded


def note(frame: FrameType, event: str, arguments: tuple[Any, ...]) -> None:
    """Record the read in an audit event, or of a variable (``"environment"``), if it is for a memoized result."""
    global _lost
    if is_own(frame):
        return
    try:
        given = arguments[0] if arguments else None
        if event == "open" and type(flags := arguments[-1]) is int and flags & os.O_ACCMODE == os.O_WRONLY:
            return  # nothing is read, as of a log
        if isinstance(given, str | bytes | os.PathLike):
            _note(frame, event, os.fsdecode(given))
        elif given is None and event in _LISTS:
            _note(frame, event, ".")
    except Exception as error:  # noqa: BLE001  the program goes on
        _lost = f"used what could not be watched before ({error!r})"


def _note(frame: FrameType, event: str, name: str) -> None:
    global _lost
    is_traced = is_tracing()
    at = frame
    while at.f_globals.get("__name__") in _LOOKING_UP and at.f_back is not None:
        at = at.f_back
    where = id(at.f_code), at.f_lineno, name
    if event == _ENVIRONMENT and not is_traced and _unused_lookups.get(where, 0) >= _MAX_UNUSED_LOOKUPS:
        return
    if reader(frame, None, name) is not Reader.PROGRAM:  # before the callers are looked at, which takes far longer
        return
    keeping = [_of_lru.setdefault(each, {}) for each in _filled(frame)] + ([_of_traces] if is_traced else [])
    if not keeping:
        if event == _ENVIRONMENT and len(_unused_lookups) < _MAX_RECORDED:
            _unused_lookups[where] = _unused_lookups.get(where, 0) + 1
        return
    label, noted = _evidence(event, name)
    for each in keeping:
        if len(each) < _MAX_RECORDED:
            each[label] = noted
        else:
            _lost = f"used results for which more than {_MAX_RECORDED:,} files were read"


def _evidence(event: str, name: str) -> tuple[str, tuple[str, str]]:
    if event == _ENVIRONMENT:
        label = label_of(Look.VARIABLE, name)
        return label, (label, variable(name))
    path = os.path.join(os.getcwd(), name)
    if event in _LISTS:
        label = label_of(Look.DIRECTORY, path)
        return label, (label, names_in(path))
    return label_of(Look.FILE, path), (label_of(Look.STATUS, path), seen(path, Look.STATUS))


def reads_in(parts: Mapping[str, str]) -> dict[str, str]:
    """Return what was read for a trace that is served from the disk, and is fresh, by label, as `hand_over` takes it.

    Args:
        parts: the parts of its entry, in which a variable that the code names may be described otherwise.
    """
    labels = [label for label in parts if is_read(label)]
    return {each: variable(path_of(each)) if each.startswith(f"{_ENVIRONMENT} ") else parts[each] for each in labels}


def hand_over(parts: Mapping[str, str], chance: Iterable[str], reason: str | None) -> None:
    """Give the open blocks of this thread what was read for a trace that they use.

    Args:
        parts: what was read, by label, with what was found then.
        chance: what is another thing in each process.
        reason: why no result may be stored that it was used for; None if it may.
    """
    if blocks := open_blocks.of_this_thread():
        open_blocks.report(blocks, _hand_over, (parts, chance, reason))


def _hand_over(
    blocks: Sequence[Reads], _frame: FrameType, parts: Mapping[str, str], chance: Iterable[str], reason: str | None
) -> None:
    labels = [
        label for label, text in parts.items() if is_read(label) and not all(each.has(label, text) for each in blocks)
    ]
    today = now(labels)
    for block in blocks:
        block.chance.update(chance)
        if reason is not None:
            block.refuse(reason)
        for label in labels:
            _give(block, label, is_same=today[label] == parts[label])


def _give(block: Reads, label: str, *, is_same: bool) -> None:
    if is_same:
        block.adopt(label)
    else:
        block.refuse(f"used a result for which {label} was read, which has changed since")


def hits() -> dict[Any, int]:
    """Return the number of hits of each ``lru_cache`` for whose results something was read."""
    return {each: each.cache_info().hits for each in _noted()}


def _noted() -> list[Any]:
    """Return the ``lru_cache`` objects for whose results something was read, even while threads add more."""
    return [each for reference in _of_lru.keyrefs() if (each := reference()) is not None]


def hand_on(blocks: Iterable[Reads], _frame: FrameType, before: Mapping[Any, int]) -> None:
    """Give blocks what was read for the memoized results that they may have taken.

    Args:
        blocks: the blocks, which are about to be left.
        before: `hits` when the blocks began.
    """
    lru = [(each, _of_lru.get(each, {})) for each in _noted()]
    for block in blocks:
        taken = [noted.copy().items() for each, noted in lru if each.cache_info().hits > before.get(each, 0)]
        taken.append(_of_traces.copy().items())
        for label, (check, text) in (each for noted in taken for each in noted):
            _give(block, label, is_same=now([check])[check] == text)
        if _lost and any(taken):
            block.refuse(_lost)


# -- the results that are being made


_plain: Final[dict[int, tuple[CodeType, int]]] = {}  # code that belongs to no ``lru_cache``, and the size of its module


def _filled(frame: FrameType) -> list[Any]:
    """Return the ``lru_cache`` objects whose functions run in a frame or in its callers."""
    found: list[Any] = []
    at: FrameType | None = frame
    while at is not None:
        code = at.f_code
        known = _plain.get(id(code))
        if known is None or known[0] is not code or known[1] != len(at.f_globals):
            is_library = package_of(at) in _LIBRARIES
            near = [] if is_library or code.co_name == "<module>" else list(_near(at))
            found += [each for each in near if each not in found]
            if not near and (is_library or "<locals>" not in code.co_qualname):
                _plain[id(code)] = code, len(at.f_globals)
        at = at.f_back
    return found


def _near(frame: FrameType) -> Iterator[Any]:
    """Yield the ``lru_cache`` objects of a frame's function from the places that usually hold them.

    These are the frame's module and its classes, the caller's module and variables, and the object of a method.
    """
    code, caller = frame.f_code, frame.f_back
    yield from _of_module(frame.f_globals).get(id(code), ())
    yield from _of_code([frame.f_globals.get(code.co_name)], code)
    if code.co_argcount and (instance := _locals(frame).get(code.co_varnames[0])) is not None:
        with suppress(Exception):  # an object may have any `__dict__`
            yield from _of_code(vars(instance).copy().values(), code)
    if caller is not None and caller.f_globals is not frame.f_globals:
        yield from _of_module(caller.f_globals).get(id(code), ())
    if caller is not None and "<locals>" in code.co_qualname:
        yield from _of_code(_locals(caller).values(), code)


def _locals(frame: FrameType) -> dict[str, Any]:
    """Return the variables of a function's frame. Before Python 3.13, also clear the copies that the frame keeps."""
    found = dict(frame.f_locals)
    if sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        frame.f_locals.clear()
    return found


def _of_code(values: Iterable[Any], code: CodeType) -> Iterator[Any]:
    return (each for each in list(values) if type(each) is _LRU and _code_of(each) is code)


_modules: Final[dict[int, tuple[dict[str, Any], int, dict[int, list[Any]]]]] = {}


def _of_module(namespace: dict[str, Any]) -> dict[int, list[Any]]:
    """Return the ``lru_cache`` objects in a module and its classes, by the addresses of their functions' code."""
    known = _modules.get(id(namespace))
    if known is not None and known[0] is namespace and known[1] == len(namespace):
        return known[2]
    found: dict[int, list[Any]] = {}
    values = [*namespace.copy().values()]
    for cls in [each for each in values if isinstance(each, type) and each.__module__ == namespace.get("__name__")]:
        values += [attribute_of(each, "__func__", each) for each in vars(cls).copy().values()]
    for each in values:
        if type(each) is _LRU and (code := _code_of(each)) is not None:
            found.setdefault(id(code), []).append(each)
    if len(_modules) >= _MAX_MODULES:
        _modules.clear()
    _modules[id(namespace)] = namespace, len(namespace), found
    return found


def _code_of(cached: Any) -> CodeType | None:
    function = attribute_of(cached, "__wrapped__")
    code = attribute_of(attribute_of(function, "__func__", function), "__code__")
    return code if isinstance(code, CodeType) else None
