"""The recorder of ``jcache run``: turns JAX's persistent cache on in this process, and logs what the cache does.

``jcache run`` puts this directory first on PYTHONPATH, so Python imports this file at start-up in place of any other
``sitecustomize``, which it then runs (`_start`). It needs no jcache and no third-party package, runs on any Python from
3.8 on, and imports no module that start-up has not imported, until JAX is imported. Then it loads the modules beside it
from the package `_PACKAGE`, so that the program's own jcache, if there is one, is not touched.

JAX's cache is off under `jcache run` (`jcache.runs.environment`) until this file turns it on in the process
(`jcache.runs.recorder.jax_cache`).

The recorder waits until the program has imported JAX (`_Hook`). Then it registers listeners with ``jax.monitoring``
(`jcache.runs.recorder.listener`) and puts taps in front of JAX's messages (`jcache.runs.recorder.taps`).

Every event is one JSON line in ``$JCACHE_RUN_LOG/<pid>-<random>.jsonl``, written at once, so that SIGKILL,
``os._exit`` and fork lose nothing. ``jcache.runs.log`` reads the lines:

    {"e": "start", "t", "pid", "jax", "jaxlib", "cache", "directory"}    the first line of a process (again after a
                                                                   fork, and when JAX is imported after that line)
    {"e": "directory", "t", "th", "name"}                          JAX uses another directory from now on
    {"e": "event", "t", "th", "name"}                              a jax.monitoring event
    {"e": "time",  "t", "th", "name", "s", "fun", "platform"}      a jax.monitoring duration, at its end
    {"e": "log",   "t", "th", "m", "a", "present"}                 a message: its format, its arguments
    {"e": "path_key", "t", "th", "key", "instead"}                 JAX looks under a key that depends on a path
    {"e": "absent", "t", "th", "key"}                              another process of the program does not have it

and the lines of `jcache.runs.recorder.key_recorder`, which say what each key was made of. jcache in this process adds
lines of its own (``jcache.runs.observers``), with or without JAX. ``jcache.runs.in_process`` uses the same listener and
taps, and gets the lines as dicts.

Every failure of the recorder is silent: a recorder that harms or even disturbs the program is worse than none. That is
why the broad ``except Exception`` clauses below pass.
"""

# ruff: noqa: ANN401, BLE001, S110, B905
# ANN401: JAX's private objects have no types. BLE001, S110: see above. B905: Python 3.8 and 3.9 have no strict zip.

import os
import sys
from _thread import get_ident
from time import time

if False:  # for the type checker: typing and collections.abc are not needed to run
    from collections.abc import Callable
    from typing import Any

    Line = dict[str, Any]

_HERE = os.path.dirname(os.path.abspath(__file__))
_XLA_CACHES = "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES"
_MAX_CHARS = 2000  # characters of a text in a line

_PACKAGE = "_jcache_beside"  # a package with the modules of jcache that need the standard library and JAX alone
_DIRECTORIES = list(filter(None, os.environ.get("JCACHE_RUN_DIRECTORIES", "").split("\n")))  # in keys

_cache_dir = os.environ.get("JCACHE_RUN_CACHE", "")  # of JAX; the program may set another one
_dir_before = os.environ.get("JCACHE_RUN_CACHE_GIVEN", "")  # what JAX_COMPILATION_CACHE_DIR was before the run
_log_dir = os.environ.get("JCACHE_RUN_LOG", "")
_record = os.environ.get("JCACHE_RUN_RECORD", "off")  # "off", "keys" or "modules"
_listener: "Any" = None  # of the module `jcache.runs.recorder.listener`, as soon as JAX is there
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
        _write(_first_line())
    except OSError:
        _log_path = ""  # the directory is gone or full: do not try again at every event


def _first_line() -> "Line":
    """Return the first line of a process, with or without JAX."""
    if _listener is not None:
        line: Line = _listener.start()
        return line
    unknown = dict.fromkeys(("jax", "jaxlib", "cache", "directory"), "")
    return {"e": "start", "t": time(), "pid": os.getpid(), **unknown}


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


def _jax_listener() -> "Any":
    global _listener
    if _listener is None:
        _listener = _import_own("runs.recorder.listener").JaxListener(_write)
    return _listener


def _listen(module: "Any") -> None:
    module.register_event_listener(_jax_listener().on_event)
    module.register_event_duration_secs_listener(_jax_listener().on_duration)


def _tap(module: object) -> None:
    for name, kind in _import_own("runs.recorder.taps").TAPS:
        if hasattr(module, name):
            setattr(module, name, kind(getattr(module, name), _jax_listener().on_message))


def _import_own(name: str) -> "Any":
    """Import a module of jcache that needs only the standard library and JAX, even if jcache is not installed."""
    import importlib

    if _PACKAGE not in sys.modules:
        package: Any = type(sys)(_PACKAGE)
        package.__path__ = [os.path.dirname(os.path.dirname(_HERE))]  # jcache's own
        sys.modules[_PACKAGE] = package
    return importlib.import_module(f"{_PACKAGE}.{name}")


def _jax_version() -> "tuple[int, ...]":  # empty before JAX has set it
    return tuple(getattr(sys.modules.get("jax.version"), "__version_info__", ()))


def _tap_compiler(module: object) -> None:
    _tap(module)
    if os.getpid() != _log_pid:
        _begin()  # jaxlib is loaded by now: this process uses JAX, even if it never compiles
    else:
        _write(_jax_listener().start())  # jcache logged something before JAX was imported
    if _import_own("jax_internals.versions").can_bind_callbacks(_jax_version()):
        _import_own("jax_internals.callbacks").cache_callbacks(on=True)
    agreement = _import_own("jax_internals.rank_agreement")
    agreement.install(lambda key: _write({"e": "absent", "t": time(), "th": get_ident(), "key": key}))
    _Hook.jcache_agrees = agreement


def _turn_cache_on(module: object) -> None:
    _tap(module)
    _Hook.jcache_turned_on = _import_own("runs.recorder.jax_cache").turn_on(module, _log_dir, _cache_dir, _dir_before)


def _restore_xla_caches(_module: object) -> None:
    """Set the variable again for the program's children, which may use another jax and decide for themselves."""
    if _XLA_CACHES not in os.environ:
        os.environ[_XLA_CACHES] = os.environ["JCACHE_RUN_XLA_CACHES"]


def _try_path_keys(module: "Any") -> None:
    _tap(module)
    if _jax_version() >= _import_own("jax_internals.versions").KEYS_WITH_PATHS:
        own = _import_own("runs.recorder.other_keys")
        own.try_others(module, _DIRECTORIES, _cache_dir, _write, _is_our_setting)


def _record_keys(module: "Any") -> None:
    """Note what keys are made of, with a hook in this module of JAX."""
    if _record != "off":
        listener = _jax_listener()
        if listener.keys is None:
            listener.keys = _import_own("runs.recorder.key_recorder")
            listener.keys.record_to_files(_write, _log_dir, with_modules=_record == "modules")
        listener.keys.hook(module)
        if module.__name__ == "jax._src.pjit":
            listener.keys.hide_from_tracebacks()


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
    jcache_agrees: "Any" = None  # the module `jcache.jax_internals.rank_agreement`, once it is installed

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name.startswith("jax"):
            try:
                if name == "jax._src.config":
                    _hide_xla_caches()
                elif _waiting_for:
                    _attach()
                if _is_initializing(sys.modules.get("jax")):
                    _import_own("jax_internals.garbage").age_objects()
            except Exception:
                pass


def _is_initializing(module: object) -> bool:
    return getattr(getattr(module, "__spec__", None), "_initializing", False) is True


def _attach() -> None:
    for name in list(_waiting_for):
        module = sys.modules.get(name)
        if module is not None and not _is_initializing(module):
            act = _waiting_for.pop(name, None)
            if act is not None:  # else another thread was faster
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
