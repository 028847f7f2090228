"""Write lines about each key of JAX's cache: its parts, and the function that it belongs to.

    {"e": "process", "host", "rank", "devices", "variables", "digests"}    before the first key of a process
    {"e": "options", "id", "values"}                    JAX's options, when they have changed; `id` is their hash
    {"e": "value", "part", "hash", "value"}             a readable value of a part, once, cut into texts of `_CHUNK`
    {"e": "parts", "id", "parts"}                       hashes of all parts but the computation, once for equal parts
    {"e": "key", "key", "computation", "parts", "options", "function", "source", "arguments", "static", "constants"}

Each line also has the time and the thread, ``t`` and ``th``. `jcache.runs.log` reads the lines, and
`jcache.runs.record` has the meaning of the fields. A module that was not in the cache is handed on as well.
Threads compute keys at the same time, without a lock, which a forked child could inherit locked: an identifier is the
hash of what it stands for, and what two threads tell twice is the same.

This module needs the standard library and JAX alone, as `jcache.runs.recorder.key_hooks`.
"""

# ruff: noqa: ANN401, BLE001, PTH - as in the recorder

import base64
import hashlib
import os
import sys
from _thread import get_ident
from time import time

from .file_names import MODULE_SUFFIX, SECRET_NAME
from .key_hooks import COMPUTATION, hide_from_tracebacks, hook, lowered, on_message, recorders

if False:  # for the type checker: typing and collections.abc are not needed to run
    from collections.abc import Callable, Iterable
    from typing import Any

    from .key_hooks import KeyParts

    Line = dict[str, Any]

__all__ = ["KeyRecorder", "hide_from_tracebacks", "hook", "on_message", "record_to_files"]

MAX_MODULES_BYTES = 32 << 20  # of one process
_CHUNK = 1500  # characters, less than the recorder cuts a text to
_MAY_BE_SECRET = ("key", "token", "secret", "passw", "credential")
_UNIMPORTANT = frozenset({"_", "PWD", "OLDPWD", "SHLVL"})  # differ from shell to shell
_PATHS_AND_LOGS = ("cache", "dump", "log", "_dir")  # in the names of JAX's options on which no program depends
_CLEAR = frozenset({"XLA_FLAGS", "LIBTPU_INIT_ARGS", "XLA_PYTHON_CLIENT_MEM_FRACTION", "PYTHONHASHSEED"})


class KeyRecorder:
    """Writes lines about the keys that this process computes, from `start` until `stop`.

    Args:
        write_line: receives each line.
        keep_module: receives the hash and the bytes of each module that was not in the cache; None to keep none.
        secret: returns the key of the digests of variables; empty bytes for no digests.
    """

    def __init__(
        self,
        write_line: "Callable[[Line], object]",
        keep_module: "Callable[[str, bytes], object] | None",
        secret: "Callable[[], bytes]",
    ) -> None:
        self._write_line, self._keep_module, self._secret = write_line, keep_module, secret
        self._told = _Told(-1)

    def start(self) -> None:
        """Record keys from now on; the hooks are the caller's."""
        recorders.append(self)

    def stop(self) -> None:
        """Record no more keys."""
        if self in recorders:
            recorders.remove(self)

    def on_key(self, key: str, parts: "KeyParts", module: "Any", devices: "Any", backend: "Any") -> None:
        """Write the lines of a key that JAX has computed in this thread."""
        told = self._told
        if told.pid != os.getpid():
            self._tell_process(backend)
            told = self._told = _Told(os.getpid())
        line: Line = {"e": "key", "key": key, "computation": parts.computation}
        line["parts"] = self._tell_parts(told, parts.given, devices)
        line["options"] = self._tell_options(told)
        self._tell({**line, **_function_fields(module)})

    def on_miss(self, name: str, data: bytes) -> None:
        """Hand on a module that was not in the cache; its name is its hash."""
        if self._keep_module is not None:
            self._keep_module(name, data)

    def _tell_process(self, backend: "Any") -> None:
        clear, digests = _variables(self._secret())
        self._tell(
            {
                "e": "process",
                "host": os.uname().nodename if hasattr(os, "uname") else "",
                "rank": int(backend.process_index()),
                "devices": _kinds(backend.devices()),
                "variables": clear,
                "digests": digests,
            }
        )

    def _tell(self, line: "Line") -> None:
        line["t"], line["th"] = time(), get_ident()
        self._write_line(line)

    def _tell_parts(self, told: "_Told", given: "dict[str, list[bytes]]", devices: "Any") -> str:
        """Return the identifier of a key's parts without the computation; tell their hashes and values if it is new."""
        others = tuple([(name, tuple(data)) for name, data in given.items() if name != COMPUTATION])
        identifier = told.parts.get(others)
        if identifier is None:
            hashes = {}
            for name, data in others:
                hashes[name] = hashlib.sha256(b"".join(data)).hexdigest()
                self._tell_value(told, name, hashes[name], data, devices)
            identifier = _hash(hashes)
            self._tell({"e": "parts", "id": identifier, "parts": hashes})
            told.parts[others] = identifier
        return identifier

    def _tell_value(self, told: "_Told", name: str, digest: str, data: "tuple[bytes, ...]", devices: "Any") -> None:
        if (name, digest) not in told.values:
            text = _value_text(name, data, devices)
            chunks = [text[start : start + _CHUNK] for start in range(0, len(text), _CHUNK)]
            self._tell({"e": "value", "part": name, "hash": digest, "value": chunks})
            told.values.add((name, digest))

    def _tell_options(self, told: "_Told") -> str:
        """Return the identifier of the present values of JAX's options; tell the values if it is new."""
        config: Any = sys.modules["jax._src.config"]
        context = getattr(config, "trace_context", None) or getattr(config, "_trace_context", None)
        present = context() if context is not None else None
        context_before, identifier = told.latest_options
        if present is None or present != context_before:
            values = _option_values(config)
            identifier = _hash(values)
            if identifier not in told.options:
                self._tell({"e": "options", "id": identifier, "values": values})
                told.options.add(identifier)
            told.latest_options = present, identifier
        return identifier


class _Told:
    """What the log of one process has. An item is added after its line has been written.

    Attributes:
        pid: number of the process.
        parts: the identifier of parts, by the bytes that JAX has hashed for them.
        values: the name and hash of each part that has a readable value.
        options: the identifiers of values of JAX's options.
        latest_options: the context of the options that were read last, and their identifier.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.parts: dict[object, str] = {}
        self.values: set[tuple[str, str]] = set()
        self.options: set[str] = set()
        self.latest_options: tuple[object, str] = (self, "")


def _function_fields(module: "Any") -> "Line":
    """Return what is known of the function of a module, if anything."""
    try:
        function = lowered(module)
        return {} if function is None else function.fields()
    except Exception:
        return {}


def _hash(texts: "dict[str, str]") -> str:
    return hashlib.sha256(repr(sorted(texts.items())).encode("utf-8", "surrogatepass")).hexdigest()


def _value_text(name: str, given: "tuple[bytes, ...]", devices: "Any") -> str:
    if name == "compile_options":
        return base64.b64encode(b"".join(given)).decode("ascii")
    if name == "accelerator_config":
        return " + ".join(_kinds(devices.flat))
    return "\n".join([data.decode("utf-8", "replace") for data in given])


def _kinds(devices: "Iterable[Any]") -> "list[str]":
    """Return how many devices of each kind there are, as texts."""
    counts: dict[str, int] = {}
    for device in devices:
        counts[str(device.device_kind)] = counts.get(str(device.device_kind), 0) + 1
    return [f"{number} x {kind}" for kind, number in counts.items()]


def _option_values(config: "Any") -> "dict[str, str]":
    """Return the options of JAX that have a plain value, without those for paths and logs."""
    found = {}
    for name, holder in config.config._value_holders.copy().items():
        value = getattr(holder, "value", None)
        is_plain = value is None or isinstance(value, (bool, int, float, str)) or hasattr(value, "name")
        if is_plain and name.startswith("jax_") and not any(word in name for word in _PATHS_AND_LOGS):
            found[name] = str(getattr(value, "name", value))
    return found


def _variables(secret: bytes) -> "tuple[dict[str, str], dict[str, str]]":
    """Return the environment: values that can be shown, and digests of all others if there is a secret."""
    clear: dict[str, str] = {}
    digests: dict[str, str] = {}
    config: Any = sys.modules["jax._src.config"]
    options = config.config._value_holders
    for name in list(os.environ):
        value = os.environ.get(name)
        if value is None or not name.isidentifier() or name in _UNIMPORTANT or name.startswith("JCACHE_RUN_"):
            continue
        lower = name.lower()
        if lower.startswith("jax_") and any(word in lower for word in _PATHS_AND_LOGS):
            continue  # `jcache run` sets some of them
        may_be_secret = any(word in lower for word in _MAY_BE_SECRET)
        if not may_be_secret and (name in _CLEAR or lower in options):
            clear[name] = value
        elif secret:
            digests[name] = hashlib.blake2b(os.fsencode(value), key=secret, digest_size=8).hexdigest()
    return clear, digests


def record_to_files(write_line: "Callable[[Line], object]", log_dir: str, *, with_modules: bool) -> None:
    """Record the keys of this process for its `jcache run`, and each missed module in a file of its own.

    Args:
        write_line: writes a line into the process's log.
        log_dir: the directory of the logs. Its file `SECRET_NAME` has the secret of the root.
        with_modules: whether modules are kept.
    """
    kept_bytes = 0

    def keep_module(name: str, data: bytes) -> None:
        nonlocal kept_bytes
        path = os.path.join(log_dir, name + MODULE_SUFFIX)
        if kept_bytes + len(data) > MAX_MODULES_BYTES or os.path.exists(path):
            return
        kept_bytes += len(data)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)

    def secret() -> bytes:
        try:
            with open(os.path.join(log_dir, SECRET_NAME), "rb") as file:
                return file.read(64)
        except OSError:
            return b""

    KeyRecorder(write_line, keep_module if with_modules else None, secret).start()
