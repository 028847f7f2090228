"""Encoding of values whose state Python does not show, or that serve the running process: by type and what is known."""

# ruff: noqa: ANN401 - these functions take whatever a program has

from __future__ import annotations

import _thread
import collections
import contextlib
import functools
import gc
import io
import sys
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from jcache.fingerprint.attributes import ALL, held
from jcache.fingerprint.containers import name_here
from jcache.fingerprint.describe import attribute_of
from jcache.fingerprint.encoding import LARGEST, SCALARS, sampled, several, sha256, tagged, text
from jcache.fingerprint.refusals import Refused, check, type_name

if TYPE_CHECKING:
    from jcache.fingerprint.values import Encoder

_HOLDERS: Final = frozenset({"queue", "_queue", "asyncio.queues", "logging"})  # their classes hold what they are given
_KEEP_STATE: Final = frozenset(  # modules with classes whose objects tell code what has been done with them
    {"queue", "_queue", "asyncio.queues", "asyncio.locks", "_asyncio", "_thread", "concurrent.futures._base",
     "threading"}
)  # fmt: skip
_OF_FILES: Final = frozenset({"mode"})
_CONTAINERS: Final = (list, dict, set, frozenset, tuple, collections.deque, collections.UserDict)
_ITERATED: Final = ("tqdm.std", "iterable")  # that of a progress bar
_USUAL_ENCODINGS: Final = frozenset({"none", "utf-8", "utf8"})
_READ_BY: Final = {"_exception": "result"}
_CACHES: Final = (type, types.ModuleType, functools._lru_cache_wrapper)
_FILLED_BY_C: Final = frozenset({list, tuple})
_SHOWN: Final = frozenset({"KeyWrapper in functools", "Scanner in _json"})  # all that they hold are objects
_COPYING: Final = ("__getstate__", "__reduce__", "__reduce_ex__")
_DEPTH: Final = 3  # levels of lists within each other
_HEAP_TYPE: Final = 1 << 9


def beside(encoder: Encoder, value: Any) -> bytes:
    """Encode a value that reports, or serves threads: its type, and the attributes that the visited code names.

    Attributes ``_result`` and ``_exception`` are named by ``result``, too. Of its other attributes, plain values and
    objects of the user's classes are set aside.
    """
    kind, named, others, state = type(value), [], {}, list[Any]()
    own = [] if encoder.is_library(kind) else [encoder.class_(kind)]
    is_own = bool(own) or kind is _thread._local
    logging = sys.modules.get("logging")
    is_logger = logging is not None and issubclass(kind, logging.Logger)
    for name, each in _held(value):
        state += each if isinstance(each, _CONTAINERS) else [each]
        if not encoder.names.isdisjoint({name, name.lstrip("_"), _READ_BY.get(name, name)}):
            named.append((name, encoder.then(value, name, each)))
            continue
        if own and ALL not in encoder.names:
            encoder.aside.add(name)
        if type(each) in SCALARS and not encoder.is_reading(each):
            others[name] = each
        elif (
            (kind.__module__, name) == _ITERATED
            or (type(each) in _CONTAINERS and (is_own or (kind.__module__ in _HOLDERS and not is_logger)))
            or (not encoder.is_library(type(each)) or (is_own and type(each) is types.SimpleNamespace))
        ):
            encoder.set_aside(f"{name} of {kind.__qualname__}", each)
    if is_logger:
        others["effective level"] = value.getEffectiveLevel(), value.manager.disable
    if others:
        encoder.set_aside(f"state of {kind.__qualname__}", others)
    if not (hasattr(kind, "daemon") or _KEEP_STATE.isdisjoint(each.__module__ for each in kind.__mro__)):
        encoder.snapshot.add_state(value, name_here(encoder), state)  # that of a thread changes by itself
    attributes = [encoder.attributes(named)] if named else []
    return several(b"opaque", [text(type_name(kind)), *own, *attributes])


def _held(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield names and values of attributes, and what some types of C hold without any."""
    yield from value.__dict__.items() if isinstance(value, _thread._local) else held(value)
    home = type(value).__module__
    if home == "_queue" and sys.version_info >= (3, 13):  # where no list holds the items
        yield "items", [each for each in _referents(value) if each is not type(value)]
    elif home == "_queue":
        yield from (("items", each) for each in _referents(value) if type(each) is list)
    elif home == "_asyncio" and hasattr(value, "_result"):
        yield from (("_result", value._result), ("_exception", value._exception))


def file(encoder: Encoder, value: Any) -> bytes:
    """Encode a file that is open for reading: its content and position; or what it reads from, by its attributes."""
    kind = type(value)
    is_library = encoder.is_library(kind)
    own = encoder.beside(value, _OF_FILES) if is_library else [encoder.class_(kind), encoder.state(value)]
    if isinstance(value, io.BytesIO | io.StringIO) and not value.closed:
        return several(b"file", [encoder.encode((value.getvalue(), value.tell())), *own])
    decoding = [getattr(value, name, None) for name in ("encoding", "errors")]
    if str(decoding[0]).lower() not in _USUAL_ENCODINGS or decoding[1] not in {None, "strict"}:
        own.append(encoder.encode(decoding))
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
        if value.readable() and value.seekable():
            is_number = type(value.name) is int  # a descriptor, which must stay open
            with open(f"/dev/fd/{value.name}" if is_number else value.name, "rb") as opened:
                digest = sha256(opened.read())
            return several(b"file", [tagged(b"content", digest), encoder.encode(value.tell()), *own])
    opaque = tagged(b"opaque", type_name(kind).encode())
    with contextlib.suppress(OSError, ValueError, AttributeError):
        if value.readable() and value.seekable():
            inner = [encoder.encode(getattr(value, name, None)) for name in ("buffer", "raw")]
            return several(b"reader", [opaque, *inner, encoder.state(value), *own])
    return several(b"reader", [opaque, *own]) if own else opaque


def hidden(encoder: Encoder, value: Any) -> bytes:
    """Encode a value with a state of C by its class, the functions in it, and what a copy of it is made from.

    If it cannot be copied, its attributes and what it refers to are set aside; only of a few types is that all of their
    state. Another such value is no argument: two of them could not be told apart.
    """
    check(value)
    kind = type(value)
    items = [encoder.class_(kind), *functions_in(encoder, value)]
    attributes = dict(held(value))
    if attributes and encoder.is_library(kind):
        encoder.set_aside(f"attributes of {kind.__qualname__}", attributes)
    elif attributes:
        items.append(encoder.state(value))
    copied = _inner(value) if type_name(kind) in _SHOWN else reduced(value)
    if copied is not None:
        return several(b"reduced", [*items, encoder.encode(copied)])
    if encoder.is_given:
        raise Refused(value, "it holds what Python does not show, and cannot be copied by `copy`")
    encoder.set_aside(f"state of {kind.__qualname__}", inner := _inner(value))
    encoder.snapshot.add_state(value, name_here(encoder), [inner] if type(inner) is bytes else [])
    return several(b"opaque", items)


def has_own_state(cls: type) -> bool:
    """Return whether a class says itself what its instances are copied from."""
    return any(getattr(cls, name, None) is not getattr(object, name, None) for name in _COPYING)


def reduced(value: Any) -> object:
    """Return what `copy` and `pickle` make a value from; None if it cannot be copied."""
    try:
        parts = value.__reduce_ex__(4)
    except Exception:  # noqa: BLE001  its own code may raise anything
        return None
    return parts if isinstance(parts, str) else [list(part) if hasattr(part, "__next__") else part for part in parts]


def _inner(value: Any) -> Any:
    """Return the bytes of an `mmap`, or the objects that a value of C refers to."""
    homes = {each.__module__ for each in type(value).__mro__}
    if "mmap" in homes:
        with contextlib.suppress(ValueError, TypeError), memoryview(value) as view:
            return sha256(view) if len(view) <= LARGEST else sampled(view)
    members = [(name, attribute_of(value, name)) for name in _members(type(value))]
    return [members, *(each for each in _referents(value) if not isinstance(each, _CACHES))]


def _members(cls: type) -> Iterator[str]:
    """Yield the names of the fields that types of C show, which are read without running code."""
    for base in cls.__mro__:
        yield from (name for name, each in vars(base).items() if type(each) is types.MemberDescriptorType)


def _referents(value: Any, depth: int = _DEPTH) -> list[Any]:
    """Return what a value of C refers to; lists and tuples as copies, since C may leave places in its own ones empty.

    To iterate over such a list, such as the stack of an `xml.etree.ElementTree.TreeBuilder`, ends the process.
    """
    found = gc.get_referents(value)
    return [_referents(each, depth - 1) if depth and type(each) in _FILLED_BY_C else each for each in found]


def functions_in(encoder: Encoder, value: Any) -> list[bytes]:
    """Return the encodings of what a value of C refers to and can call: functions, objects, the user's classes."""
    found = [each for each in gc.get_referents(value) if callable(each) and each is not type(value)]
    return encoder.items(each for each in found if not (isinstance(each, type) and encoder.is_library(each)))


def compiled(cls: type) -> type:
    """Return the first of a class and its bases that is not made by a ``class`` statement or the like."""
    return next(each for each in cls.__mro__ if not each.__flags__ & _HEAP_TYPE)


def fields(value: BaseException) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of an exception's fields that are no attributes, such as the ``obj`` of some."""
    for cls in type(value).__mro__:
        if compiled(cls) is cls and cls is not object:
            for name, each in vars(cls).items():
                if isinstance(each, types.MemberDescriptorType | types.GetSetDescriptorType) and name[:1] != "_":
                    yield name, attribute_of(value, name)
