"""The recorder of ``jcache run``: turns JAX's persistent cache on in this process, and logs what the cache does.

``jcache run`` puts this directory first on PYTHONPATH, so Python imports this file at start-up in place of any other
``sitecustomize``, which it then runs (`_start`). It is one file on purpose: it needs no jcache and no third-party
package, runs on any Python from 3.8 on, and imports no module that start-up has not imported, until JAX is imported.

JAX's cache is off under `jcache run` (`jcache.runs.environment`) until this file turns it on in the process
(`jcache.runs.recorder.jax_cache`).

The recorder waits until the program has imported JAX (`_Hook`). Then it registers listeners with ``jax.monitoring`` and
puts a tap in front of the ``logger`` and ``warnings`` of three JAX modules: only their messages have keys and reasons.
No logger's level, handler or filter changes, so the user's output stays the same.

Every event is one JSON line in ``$JCACHE_RUN_LOG/<pid>-<random>.jsonl``, written at once, so that SIGKILL,
``os._exit`` and fork lose nothing. ``jcache.runs.log`` reads the lines:

    {"e": "start", "t", "pid", "jax", "jaxlib", "cache", "directory"}    the first line of a process (again after a
                                                                   fork, and when JAX is imported after that line)
    {"e": "directory", "t", "th", "name"}                          JAX uses another directory from now on
    {"e": "event", "t", "th", "name"}                              a jax.monitoring event
    {"e": "time",  "t", "th", "name", "s", "fun", "platform"}      a jax.monitoring duration, at its end
    {"e": "log",   "t", "th", "m", "a", "present"}                 a message: its format, its arguments
    {"e": "path_key", "t", "th", "key", "instead"}                 JAX looks under a key that depends on a path

and the lines of `jcache.runs.recorder.key_recorder`, which say what each key was made of. jcache in this process adds
lines of its own (``jcache.runs.observers``), with or without JAX.
``jcache.runs.in_process`` imports this file as a module of jcache, and gets the lines as dicts (`JaxListener`, `tap`).

Every failure of the recorder is silent: a recorder that harms or even disturbs the program is worse than none. That is
why the broad ``except Exception`` clauses below pass.
"""

# ruff: noqa: ANN401, BLE001, S110, SIM105, B905
# ANN401: JAX's private objects have no types. BLE001, S110: see above. B905: Python 3.8 and 3.9 have no strict zip.

import os
import sys
from _thread import get_ident
from time import time

if False:  # for the type checker: typing and collections.abc are not needed to run
    from collections.abc import Callable
    from typing import Any

    Line = dict[str, Any]
    Notify = Callable[[object, tuple[object, ...]], None]

_HERE = os.path.dirname(os.path.abspath(__file__))
_XLA_CACHES = "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES"
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
TAPPED = ("jax._src.compiler", "jax._src.compilation_cache", "jax._src.lru_cache")
_MAX_CHARS = 2000  # characters of a message or argument: module names are shorter, exception texts need not be whole

_PACKAGE = "_jcache_beside"  # a package with the modules of jcache that need the standard library and JAX alone
_DIRECTORIES = list(filter(None, os.environ.get("JCACHE_RUN_DIRECTORIES", "").split("\n")))  # in keys

_cache_dir = os.environ.get("JCACHE_RUN_CACHE", "")  # of JAX; the program may set another one
_dir_before = os.environ.get("JCACHE_RUN_CACHE_GIVEN", "")  # what JAX_COMPILATION_CACHE_DIR was before the run
_log_dir = os.environ.get("JCACHE_RUN_LOG", "")
_record = os.environ.get("JCACHE_RUN_RECORD", "off")  # "off", "keys" or "modules"
_log_pid = -1  # the process of the three below; a forked child has another one
_log_path = ""
_log_file = -1
_log_identity = (-1, -1)


def _quote(text: str) -> str:
    """Return a JSON string, without importing json."""
    text = text[:_MAX_CHARS]
    if text.isprintable() and text.isascii() and '"' not in text and "\\" not in text:
        return '"' + text + '"'
    units = text.encode("utf-16-be", "surrogatepass")
    return '"' + "".join(f"\\u{high:02x}{low:02x}" for high, low in zip(units[::2], units[1::2])) + '"'


def _json(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ",".join([f'"{name}":{_json(item)}' for name, item in value.items()]) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_json, value)) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)) and value - value == 0:  # neither inf nor nan: JSON has none
        return repr(value)
    return _quote(str(value))


def _write(line: "Line") -> None:
    """Append one line to this process's file."""
    if os.getpid() != _log_pid:
        _begin()
    if not _log_path:
        return
    _open()
    os.write(_log_file, (_json(line) + "\n").encode("ascii"))


def _begin() -> None:
    """Start the file of this process: at its first event, and again in a forked child."""
    global _log_pid, _log_path, _log_file
    _log_pid, _log_file = os.getpid(), -1
    _log_path = os.path.join(_log_dir, f"{_log_pid}-{os.urandom(4).hex()}.jsonl")
    try:
        _write(_listener.start())
    except OSError:
        _log_path = ""  # the directory is gone or full: do not try again at every event


def _open() -> None:
    """Open the log if its descriptor is not ours: a daemon closes all, and its next file gets the same number."""
    global _log_file, _log_identity
    if _log_file >= 0:
        try:
            status = os.fstat(_log_file)
            if (status.st_dev, status.st_ino) == _log_identity:
                return
        except OSError:
            pass  # closed by the program
    _log_file = os.open(_log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    status = os.fstat(_log_file)
    _log_identity = (status.st_dev, status.st_ino)


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
    own = sys.modules.get(f"{_PACKAGE}.runs.recorder.jax_cache")
    return key in getattr(own, "incomplete", ())


class _LoggerTap:
    """A logger that reports each message and passes it on with its caller's line."""

    def __init__(self, original: object, notify: "Notify") -> None:
        object.__setattr__(self, "_original", original)
        object.__setattr__(self, "_notify", notify)

    def __getattr__(self, name: str) -> object:
        return getattr(object.__getattribute__(self, "_original"), name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(object.__getattribute__(self, "_original"), name, value)

    def log(self, level: int, message: object, *arguments: object, **options: object) -> None:
        self._notify(message, arguments)  # type: ignore[operator]
        self._original.log(level, message, *arguments, **_with_callers_line(options))  # type: ignore[attr-defined]

    def debug(self, message: object, *arguments: object, **options: object) -> None:
        self._notify(message, arguments)  # type: ignore[operator]
        self._original.debug(message, *arguments, **_with_callers_line(options))  # type: ignore[attr-defined]

    def error(self, message: object, *arguments: object, **options: object) -> None:
        self._notify(message, arguments)  # type: ignore[operator]
        self._original.error(message, *arguments, **_with_callers_line(options))  # type: ignore[attr-defined]

    # isinstance(tap, logging.Logger) holds: unittest's assertLogs and others ask.
    __class__ = property(lambda self: object.__getattribute__(self, "_original").__class__)


class _WarningsTap:
    """The module ``warnings`` in a JAX module: only warnings report failed reads and writes of the cache."""

    def __init__(self, original: object, notify: "Notify") -> None:
        self._original = original
        self._notify = notify

    def __getattr__(self, name: str) -> object:
        return getattr(object.__getattribute__(self, "_original"), name)

    def warn(
        self, message: object, category: object = None, stacklevel: int = 1, *arguments: object, **options: object
    ) -> None:
        self._notify(message, ())
        self._original.warn(message, category, stacklevel + 1, *arguments, **options)  # type: ignore[attr-defined]


def _with_callers_line(options: "dict[str, object]") -> "dict[str, object]":
    """Return the options of a log call, changed so that the record names the line in JAX and not one in this file."""
    options["stacklevel"] = int(options.get("stacklevel", 1)) + 1  # type: ignore[call-overload]
    return options


TAPS: "tuple[tuple[str, Any], ...]" = (("logger", _LoggerTap), ("warnings", _WarningsTap))
_listener = JaxListener(_write)


def _listen(module: object) -> None:
    module.register_event_listener(_listener.on_event)  # type: ignore[attr-defined]
    module.register_event_duration_secs_listener(_listener.on_duration)  # type: ignore[attr-defined]


def _tap(module: object) -> None:
    for name, kind in TAPS:
        if hasattr(module, name):
            setattr(module, name, kind(getattr(module, name), _listener.on_message))


def _import_own(name: str) -> "Any":
    """Import a module of jcache that needs only the standard library and JAX, even if jcache is not installed."""
    import importlib

    if _PACKAGE not in sys.modules:
        package: Any = type(sys)(_PACKAGE)
        package.__path__ = [os.path.dirname(os.path.dirname(_HERE))]  # jcache's own
        sys.modules[_PACKAGE] = package
    return importlib.import_module(f"{_PACKAGE}.{name}")


def _jax_version() -> "tuple[int, ...]":
    """Return the numbers of JAX's version; none before JAX has set them."""
    return tuple(getattr(sys.modules.get("jax.version"), "__version_info__", ()))


def _tap_compiler(module: object) -> None:
    _tap(module)
    if os.getpid() != _log_pid:
        _begin()  # jaxlib is loaded by now: this process uses JAX, even if it never compiles
    else:
        _write(_listener.start())  # jcache logged something before JAX was imported
    if _import_own("jax_internals.versions").can_bind_callbacks(_jax_version()):
        _import_own("jax_internals.callbacks").cache_callbacks(on=True)


def _turn_cache_on(module: object) -> None:
    _tap(module)
    _Hook.jcache_turned_on = _import_own("runs.recorder.jax_cache").turn_on(module, _log_dir, _cache_dir, _dir_before)


def _restore_xla_caches(_module: object) -> None:
    """Set the variable again for the program's children, which may use another jax and decide for themselves."""
    if _XLA_CACHES not in os.environ:
        os.environ[_XLA_CACHES] = os.environ["JCACHE_RUN_XLA_CACHES"]


def _try_path_keys(module: "Any") -> None:
    """Make JAX also try the keys under which it alone, or `jcache.enable()`, has stored entries in this directory."""
    _tap(module)
    if _jax_version() < _import_own("jax_internals.versions").KEYS_WITH_PATHS:
        return
    path_keys = _import_own("jax_internals.path_keys")
    plain, version = module.get_cache_key, str(getattr(sys.modules.get("jax.version"), "__version__", ""))

    def configured() -> str:
        return str(module.config.compilation_cache_dir.value or "")

    def directories() -> "list[str]":
        if not path_keys.can_be_in_keys(version) or _tries_path_keys():
            return []
        theirs = configured()
        if "://" in theirs:
            return [theirs] if path_keys.in_keys(version) and _is_our_setting() else []
        known = _DIRECTORIES if theirs == _cache_dir else [theirs]
        return [*known, path_keys.NO_PATH] if path_keys.in_keys_now(version) and path_keys.xla_caches() else known

    ours = path_keys.with_path_keys(
        plain, directories, lambda key: path_keys.is_file(configured(), key), _note_path_key
    )
    ours.__doc__, ours.__qualname__, ours.__module__ = plain.__doc__, plain.__qualname__, plain.__module__
    ours.__wrapped__ = plain
    module.get_cache_key = ours


def _note_path_key(path_key: str, key: str) -> None:
    """Log that JAX looks under a key that depends on a path, instead of another key."""
    try:
        _write({"e": "path_key", "t": time(), "th": get_ident(), "key": path_key, "instead": key})
    except Exception:
        pass


def _record_keys(module: "Any") -> None:
    """Note what keys are made of, with a hook in this module of JAX."""
    if _record != "off":
        if _listener.keys is None:
            _listener.keys = _import_own("runs.recorder.key_recorder")
            _listener.keys.record_to_files(_write, _log_dir, with_modules=_record == "modules")
        _listener.keys.hook(module)
        if module.__name__ == "jax._src.pjit":
            _listener.keys.hide_from_tracebacks()


def _tries_path_keys() -> bool:
    """Return whether the program's own jcache already tries keys with a path."""
    keys: Any = sys.modules.get("jcache.jax_internals.cache_keys")
    return keys is not None and bool(keys.tries_path_keys())


def _is_our_setting() -> bool:
    """Return whether the parent ``jcache run`` has turned XLA's caches off, and not the user."""
    ours = os.environ.get("JCACHE_RUN_XLA_CACHES")
    return ours is not None and os.environ.get(_XLA_CACHES) == ours


def _hide_xla_caches() -> None:
    """Undo the parent's setting for jax >= 0.11: its keys leave out the path, and its autotune cache would be lost."""
    ours = os.environ.get("JCACHE_RUN_XLA_CACHES")
    if not ours or os.environ.get(_XLA_CACHES) != ours:
        return
    if _jax_version() >= _import_own("jax_internals.versions").KEYS_WITHOUT_PATHS:
        del os.environ[_XLA_CACHES]
        _waiting_for["jax._src.config"] = _restore_xla_caches


_waiting_for: "dict[str, Callable[[object], None]]" = {
    "jax._src.lru_cache": _turn_cache_on,
    "jax._src.monitoring": _listen,
    "jax._src.compilation_cache": _try_path_keys,
    "jax._src.compiler": _tap_compiler,
    "jax._src.cache_key": _record_keys,
    "jax._src.interpreters.mlir": _record_keys,
    "jax._src.pjit": _record_keys,
}


class _Hook:
    """The first finder in ``sys.meta_path``: it finds nothing, and follows JAX's import by the names of the modules.

    It wraps no loader, since a wrapper would be in the traceback of every failing import of JAX. A module is ready when
    it is in ``sys.modules`` and no longer initializing; JAX imports dozens of modules after the last of ours.
    """

    jcache_recorder = True
    jcache_told = staticmethod(_write)  # for the program's own jcache
    jcache_turned_on = False  # whether it has turned JAX's cache on

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if _waiting_for and name.startswith("jax"):
            try:
                if name == "jax._src.config":
                    _hide_xla_caches()
                else:
                    _attach()
            except Exception:
                pass


def _attach() -> None:
    for name in list(_waiting_for):
        module = sys.modules.get(name)
        if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
            act = _waiting_for.pop(name, None)  # None: another thread was faster
            if act is not None:
                act(module)


def _is_here(entry: str) -> bool:
    try:
        return os.path.abspath(entry) == _HERE
    except Exception:
        return False  # a relative entry where the working directory is gone: ours is absolute


def _start() -> None:
    """Record from now on, then run the sitecustomize that this one shadows.

    Its absence raises an ImportError that names it, and its own failures propagate: both reach Python's site module as
    they would without the recorder, and leave nothing of the recorder in ``sys.modules``.
    """
    try:
        sys.path[:] = [entry for entry in sys.path if not _is_here(entry)]
        sys.path_importer_cache.pop(_HERE, None)
        if _log_dir and not any(hasattr(finder, "jcache_recorder") for finder in sys.meta_path):
            _attach()  # a .pth file may have imported JAX already
            sys.meta_path.insert(0, _Hook)
    except Exception:
        pass
    del sys.modules["sitecustomize"]
    __import__("sitecustomize")


if __name__ == "sitecustomize":
    _start()
