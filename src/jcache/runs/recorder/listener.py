"""Make lines of what JAX's cache does: of the events of ``jax.monitoring`` and of JAX's messages.

``sitecustomize.py`` has the grammar of the lines. This module needs the standard library alone: the recorder of
`jcache run` loads it where the program's Python has no jcache. Its failures are silent, as the recorder's.
"""

# ruff: noqa: BLE001, S110 - as in the recorder

import os
import sys
from _thread import get_ident
from time import time

if False:  # for the type checker: typing and collections.abc are not needed to run
    from collections.abc import Callable
    from typing import Any

    Line = dict[str, Any]

_VERSIONS = ("jax.version", "jaxlib.version")
_EVENTS = "/jax/compilation_cache/"
_DURATIONS = (_EVENTS, "/jax/core/compile/")
END_OF_COMPILE = "/jax/core/compile/backend_compile_duration"
_MESSAGES = (  # the beginnings of the messages with a key or a reason; the same from jax 0.4.31 to 0.12
    "Persistent compilation cache hit",
    "PERSISTENT COMPILATION CACHE MISS",
    "Not writing persistent cache entry",
    "Writing %s to persistent",
    "'%s' took at least",
    "Waiting for module",
    "get_executable_and_time: cache is disabled",
    "_get_cache: Unsupported runtime",
    "compile_or_get_cached: unable to generate cache key, skipping the cache",
    "Error reading persistent",
    "Error writing persistent",
    "Cache value for key",
)
_MAX_CHARS = 2000  # characters of a message or argument: module names are shorter, exception texts need not be whole


class JaxListener:
    """Receives JAX's events and messages, and makes lines of those that matter; it raises nothing."""

    def __init__(self, sink: "Callable[[Line], object]") -> None:
        self._write_line = sink
        self._cache = _cache_state()  # JAX announces it once per process, and a forked child inherits it
        self._directory = ""  # the directory of JAX's cache in the last line that has it
        self._platform_noted_by_pid = -1  # the process whose line has the platform
        self.keys: Any = None  # the module `jcache.runs.recorder.key_hooks`, if keys are recorded

    def start(self) -> "Line":
        """Return the first line of a process."""
        jax, jaxlib = (str(getattr(sys.modules.get(name), "__version__", "")) for name in _VERSIONS)
        line: Line = {"e": "start", "t": time(), "pid": os.getpid(), "jax": jax, "jaxlib": jaxlib, "cache": self._cache}
        line["directory"] = self._directory = _directory()
        return line

    def on_event(self, event: str, *_args: object, **_metadata: object) -> None:
        try:
            if event.startswith(_EVENTS):
                if event.endswith("/task_disabled_cache"):
                    self._cache = "disabled"
                elif event.endswith("/tasks_using_cache"):
                    self._cache = "used"
                elif event.endswith("/compile_requests_use_cache"):
                    self._note_directory()
                self._write_line({"e": "event", "t": time(), "th": get_ident(), "name": event})
        except Exception:
            pass

    def on_duration(self, event: str, duration: float, *_args: object, **metadata: object) -> None:
        try:
            if event.startswith(_DURATIONS):
                line: Line = {"e": "time", "t": time(), "th": get_ident(), "name": event, "s": duration}
                if event == END_OF_COMPILE:
                    line["fun"] = str(metadata.get("fun_name", ""))[:_MAX_CHARS]
                    self._add_platform(line)
                self._write_line(line)
        except Exception:
            pass

    def on_message(self, message: object, arguments: "tuple[object, ...]") -> None:
        try:
            text = str(message)
            if text.startswith(_MESSAGES):
                values = [_to_json_value(value) for value in arguments]
                line: Line = {"e": "log", "t": time(), "th": get_ident(), "m": text[:_MAX_CHARS], "a": values}
                if self.keys is not None:
                    self.keys.on_message(text, arguments)
                if text.startswith("Writing") and _is_present(str(arguments[-1])):
                    line["present"] = True
                    line["incomplete"] = _is_incomplete(str(arguments[-1]))
                self._write_line(line)
        except Exception:
            pass

    def _note_directory(self) -> None:
        directory = _directory()
        if directory != self._directory:
            self._directory = directory
            self._write_line({"e": "directory", "t": time(), "th": get_ident(), "name": directory})

    def _add_platform(self, line: "Line") -> None:
        """Add the default backend's platform, once per process; it exists by the end of the first compilation."""
        if self._platform_noted_by_pid != os.getpid():
            self._platform_noted_by_pid = os.getpid()
            backend = getattr(sys.modules.get("jax._src.xla_bridge"), "_default_backend", None)
            if backend is not None:
                line["platform"] = str(backend.platform)


def _to_json_value(value: object) -> "float | str":
    """Return an argument of a message as a number or text, so that no object of the program is kept alive."""
    return float(value) if isinstance(value, (int, float)) else str(value)[:_MAX_CHARS]


def _cache_state() -> str:
    """Return JAX's decision about its cache in this process: "used", "disabled", or "" before the decision."""
    caches = sys.modules.get("jax._src.compilation_cache")
    if not getattr(caches, "_cache_checked", False):
        return ""
    return "used" if getattr(caches, "_cache_used", False) else "disabled"


def _directory_in_use() -> str:
    """Return the directory of the cache that JAX has made; "" if there is none yet."""
    cache = getattr(sys.modules.get("jax._src.compilation_cache"), "_cache", None)
    return str(getattr(cache, "_path", None) or getattr(cache, "path", None) or "")


def _directory() -> str:
    """Return the directory of JAX's cache: of the one that JAX has made, if any, else the configured one."""
    config = getattr(sys.modules.get("jax._src.config"), "config", None)
    text = _directory_in_use() or str(getattr(config, "jax_compilation_cache_dir", None) or "")
    try:
        return text if "://" in text or not text else os.path.abspath(text)
    except OSError:
        return text  # relative to a working directory that is gone


def _is_present(key: str) -> bool:
    """Return whether the entry that JAX is about to write exists: then JAX's put silently writes nothing."""
    directory = _directory_in_use()
    return bool(directory) and os.path.exists(os.path.join(directory, key + "-cache"))


def _is_incomplete(key: str) -> bool:
    """Return whether the parent `jcache run` did not serve the entry that exists, since it is not whole."""
    own = sys.modules.get("_jcache_beside.runs.recorder.jax_cache")
    return key in getattr(own, "incomplete", ())
