"""Hook into the functions of JAX that compute keys, lower functions and take static arguments.

JAX hashes the parts of a key one after the other into one SHA-256 (``jax._src.cache_key.get``), so that a key does not
tell why it differs from another one, and JAX's own DEBUG messages compute each part twice. Here JAX computes each part
once, into a hash that notes what it was given. `jcache.runs.recorder.key_recorder` makes lines of it.

This module needs the standard library and JAX alone: the recorder of `jcache run` loads it where the program's Python
has no jcache. Nothing in it may disturb the program, which is why the broad ``except Exception`` clauses pass.
"""

# ruff: noqa: ANN401, BLE001, S110, SIM105 - as in the recorder

import hashlib
import sys
import threading
from weakref import WeakKeyDictionary

from ... import patching
from ...jax_internals import path_keys
from . import static_values
from .lowered import LoweredFunction

if False:  # for the type checker: typing and collections.abc are not needed to run
    from collections.abc import Callable
    from typing import Any, Protocol

    class Recorder(Protocol):
        """Receives what the hooks note."""

        def on_key(self, key: str, parts: "KeyParts", module: Any, devices: Any, backend: Any) -> object: ...
        def on_miss(self, name: str, data: bytes) -> object: ...


COMPUTATION = "computation"
MAX_MODULE_BYTES = 4 << 20
_MAX_STATIC = 64  # functions whose static arguments are remembered until they are lowered

recorders: "list[Recorder]" = []  # those that want to know
_lowered: "WeakKeyDictionary[Any, LoweredFunction]" = WeakKeyDictionary()


class KeyParts:
    """The parts of a key.

    Attributes:
        given: the bytes that JAX has hashed for each part, by its name.
        computation: SHA-256 of the part ``computation``, as hexadecimal text.
    """

    def __init__(self) -> None:
        self.given: dict[str, list[bytes]] = {}
        self.computation = ""


class _PartsHash:
    """A SHA-256 that notes what it is given for each part of a key."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._since: list[bytes] = []
        self._parts = KeyParts()

    def update(self, data: bytes) -> None:
        self._since.append(data)
        self._hash.update(data)

    def digest(self) -> bytes:
        _thread.parts = self._parts
        return self._hash.digest()

    def hexdigest(self) -> str:
        return self.digest().hex()

    def end_part(self, name: str) -> None:
        if name == COMPUTATION and not self._parts.given:  # the first part: its hash is the state so far
            self._parts.computation = self._hash.hexdigest()
        self._parts.given[name], self._since = self._since, []


class _Hashlib:
    """The module hashlib in ``jax._src.cache_key``."""

    def __init__(self, original: "Any") -> None:
        self._original = original

    def __getattr__(self, name: str) -> "Any":
        return getattr(self._original, name)

    def sha256(self, *data: bytes) -> "Any":
        return self._original.sha256(*data) if data or not recorders else _PartsHash()


class _Thread(threading.local):
    """What one thread has computed last, and the calls that it is tracing."""

    parts: "KeyParts | None" = None
    missed: "tuple[str, str, bytes] | None" = None  # key, hash and bytes of the module that is being looked up
    depth = 0  # of functions that are traced within one another
    static: "dict[str, dict[str, str]] | None" = None  # static arguments by the function's source


_thread = _Thread()


def lowered(module: "Any") -> "LoweredFunction | None":
    """Return what is known of the function of a module; None if nothing is."""
    return _lowered.get(module)


def hook(module: "Any") -> None:
    """Replace the functions of one of JAX's modules, for the rest of the process."""
    for name, replace in REPLACEMENTS[module.__name__].items():
        plain = getattr(module, name)
        ours = replace(plain)
        if callable(plain):
            ours.__doc__, ours.__qualname__, ours.__module__ = plain.__doc__, plain.__qualname__, plain.__module__
            ours.__wrapped__ = plain
        setattr(module, name, ours)


def hide_from_tracebacks() -> None:
    """Have JAX leave this module's frames out of tracebacks, as it does with its own."""
    traceback_util: Any = sys.modules["jax._src.traceback_util"]
    for path in (__file__, patching.__file__):
        traceback_util.register_exclusion(path)


def on_message(text: str, arguments: "tuple[Any, ...]") -> None:
    """Receive a message of JAX's cache: after a miss the module is handed on, after a hit it is not needed."""
    if text.startswith("PERSISTENT COMPILATION CACHE MISS"):
        missed, _thread.missed = _thread.missed, None
        if missed is not None and missed[0] == str(arguments[1]):
            for recorder in list(recorders):
                recorder.on_miss(missed[1], missed[2])
    elif text.startswith("Persistent compilation cache hit"):
        _thread.missed = None


def _replace_get(plain: "Any") -> "Any":
    def get(module: "Any", devices: "Any", options: "Any", backend: "Any", *rest: "Any", **named: "Any") -> "Any":
        key = plain(module, devices, options, backend, *rest, **named)
        try:
            parts, _thread.parts = _thread.parts, None
            if parts is not None and not path_keys.trying.now:
                _note_key(key, parts, module, devices, backend)
        except Exception:
            pass
        return key

    return get


def _replace_log_part(plain: "Any") -> "Any":
    def log_part(hash_obj: "Any", name: str, hash_function: "Any") -> "Any":
        if isinstance(hash_obj, _PartsHash):
            hash_obj.end_part(name)
        return plain(hash_obj, name, hash_function)

    return log_part


def _note_key(key: str, parts: KeyParts, module: "Any", devices: "Any", backend: "Any") -> None:
    data = parts.given.get(COMPUTATION, ())
    fits = sum(map(len, data)) <= MAX_MODULE_BYTES
    _thread.missed = (key, parts.computation, b"".join(data)) if fits else None
    for recorder in list(recorders):
        recorder.on_key(key, parts, module, devices, backend)


def _replace_lowering(plain: "Any") -> "Any":
    def lower_jaxpr_to_module(*args: "Any", **named: "Any") -> "Any":
        result = plain(*args, **named)
        if recorders:
            try:
                jaxpr = args[1] if len(args) > 1 else named["jaxpr"]
                _lowered[result.module] = LoweredFunction(jaxpr, named, _static_of)
            except Exception:
                pass
        return result

    return lower_jaxpr_to_module


def _static_of(source: str) -> "dict[str, str]":
    return (_thread.static or {}).get(source, {})


def _replace_infer_params(plain: "Any") -> "Any":
    def infer_params(*args: "Any", **named: "Any") -> "Any":
        if _thread.depth or not recorders:  # a function that is traced within another one has no key
            return plain(*args, **named)
        try:
            _note_static(*args[-3:])
        except Exception:
            pass
        _thread.depth += 1
        try:
            return plain(*args, **named)
        finally:
            _thread.depth -= 1

    return infer_params


def _note_static(info: "Any", positional: "tuple[Any, ...]", by_name: "dict[str, Any]") -> None:
    if not info.static_argnums and not info.static_argnames:
        return
    if _thread.static is None or len(_thread.static) >= _MAX_STATIC:
        _thread.static = {}
    _thread.static[str(info.fun_sourceinfo)] = static_values.texts(info, positional, by_name)


# By the names of JAX's modules and their attributes: what makes the attribute to put in its place.
REPLACEMENTS: "dict[str, dict[str, Callable[[Any], Any]]]" = {
    "jax._src.cache_key": {"hashlib": _Hashlib, "_log_cache_key_hash": _replace_log_part, "get": _replace_get},
    "jax._src.interpreters.mlir": {"lower_jaxpr_to_module": _replace_lowering},
    "jax._src.pjit": {"_infer_params": _replace_infer_params},
}
