"""Turn JAX's cache on in a program under `jcache run`, with reads that the parent `jcache run` has checked.

`jcache run` gives its processes an environment in which JAX's cache is off. So a Python that does not run the recorder
(``-I``, ``-S``, ``-E``, another PYTHONPATH) has no cache, and reads no unchecked byte. In a Python that runs it, the
recorder makes JAX's cache return the entries that the parent `jcache run` has checked, and then turns the cache on.

This module imports the standard library only: the recorder loads it even if the program's Python has no jcache.
"""

# ruff: noqa: ANN401, BLE001, S110 - as in the recorder

import os
import sys
import time

from ...jax_internals.maker import maker

if False:  # for the type checker: typing is not needed to run
    from typing import Any

_DIRECTORY = "JAX_COMPILATION_CACHE_DIR"
_ENABLE = "JAX_ENABLE_COMPILATION_CACHE"
_OFF_BY_RUN = "n"  # the value that `jcache.runs.environment` sets
_READS = "reads"  # name of the socket of `jcache.runtime.checked_reads`
_HAS_REMOTE = "JCACHE_RUN_REMOTE"  # set if the parent has a store to ask for what the directory lacks
_ANSWER_TIMEOUT_S = 60

incomplete: "set[str]" = set()  # keys whose entries were there and not served: damaged, or not yet whole


def turn_on(module: "Any", log_dir: str, directory: str, before: str) -> bool:
    """Make JAX use the run's cache in this process from now on.

    Args:
        module: ``jax._src.lru_cache``, before JAX has made a cache.
        log_dir: the recorder's directory. It does not exist on another host than that of the `jcache run`, nor after
            the run's end: then nobody checks the reads, and the cache stays off.
        directory: the directory of the run's executables.
        before: the value of JAX_COMPILATION_CACHE_DIR before the run.

    Returns:
        Whether the cache was off and is on now.
    """
    cache = module.LRUCache
    cache.get = _wrap(cache.get, _checked_get(cache.get, log_dir, directory))
    cache.put = _wrap(cache.put, _put_with_sidecar(cache.put, directory))
    if not os.path.isdir(log_dir):
        return False
    config: Any = sys.modules["jax._src.config"].config
    theirs = os.environ.get(_DIRECTORY, "")
    if theirs == before and (config.jax_compilation_cache_dir or "") == theirs:  # else the program has set its own
        config.update("jax_compilation_cache_dir", directory)
    if os.environ.get(_ENABLE) != _OFF_BY_RUN:
        return False
    config.update("jax_enable_compilation_cache", True)  # noqa: FBT003 - JAX's own
    return True


def _wrap(plain: "Any", ours: "Any") -> "Any":
    ours.__doc__, ours.__qualname__, ours.__module__ = plain.__doc__, plain.__qualname__, plain.__module__
    ours.__wrapped__ = plain
    return ours


def _checked_get(plain: "Any", log_dir: str, own_directory: str) -> "Any":
    def get(self: "Any", key: str) -> object:
        value = plain(self, key)
        if value is None and not os.environ.get(_HAS_REMOTE):
            return None
        checked = _checked(str(self.path), key, value, log_dir, own_directory)
        if value is not None and checked is None:
            incomplete.add(key)
        return checked

    return get


def _put_with_sidecar(plain: "Any", own_directory: str) -> "Any":
    def put(self: "Any", key: str, *value: object, **named: object) -> object:
        directory = str(self.path)
        if not _is_same(directory, own_directory):
            return plain(self, key, *value, **named)
        if not getattr(self, "eviction_enabled", True):
            _write_sidecar(directory, key)
        is_new = not os.path.lexists(os.path.join(directory, key + "-cache"))
        try:
            return plain(self, key, *value, **named)
        except OSError:
            if is_new:
                _remove_incomplete(directory, key, value or tuple(named.values()))
            raise

    return put


def _write_sidecar(directory: str, key: str) -> None:
    """Write the sidecar of an entry that JAX is about to put without one, if a bounded JAX shares the directory.

    A bounded JAX up to 0.11.1 stores nothing while an entry has no sidecar.
    """
    try:
        entry = os.path.join(directory, key)
        has_lock = os.path.exists(os.path.join(directory, ".lockfile"))
        if has_lock and not os.path.lexists(entry + "-cache"):
            sidecar = os.open(entry + "-atime", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            try:
                os.write(sidecar, time.time_ns().to_bytes(8, "little"))
            finally:
                os.close(sidecar)
    except Exception:
        pass


def _remove_incomplete(directory: str, key: str, values: "tuple[object, ...]") -> None:
    """Remove the beginning of an entry that JAX could not write to its end, on a full disk for example.

    JAX writes in place, and stores nothing as long as a file of that name is there.
    """
    try:
        entry = os.path.join(directory, key)
        if os.lstat(entry + "-cache").st_size < max(len(value) for value in values if isinstance(value, bytes)):
            os.unlink(entry + "-cache")
            os.unlink(entry + "-atime")
    except Exception:
        pass


def _is_same(directory: str, other: str) -> bool:
    try:
        return os.path.samefile(directory, other)
    except (OSError, ValueError):
        return False


def _checked(directory: str, key: str, value: object, log_dir: str, own_directory: str) -> object:
    """Return an entry as the parent `jcache run` has checked it; None if it does not serve the entry, or is gone."""
    try:
        made_by = maker() if os.environ.get(_HAS_REMOTE) else ("", "", "")
        answer = _request(b"\0".join(map(os.fsencode, (directory, key, _platforms(), *made_by))) + b"\n", log_dir)
        if answer[:1] == b"+" and len(answer) == 17 + int(answer[1:17], 16):  # else it was cut off
            return answer[17:]
        is_ours = answer != b"?"
    except Exception:
        is_ours = _is_same(directory, own_directory)
    return None if is_ours else value


def _platforms() -> str:
    """Return the names of JAX's platforms in this process, with commas between them."""
    return ",".join(map(str, getattr(sys.modules.get("jax._src.xla_bridge"), "_backends", None) or ()))


def _request(request: bytes, log_dir: str) -> bytes:
    import socket

    address, descriptor = os.path.join(log_dir, _READS), -1
    if len(os.fsencode(address)) > 86 and os.path.isdir("/proc/self/fd"):  # a socket's address has a limit
        descriptor = os.open(log_dir, os.O_RDONLY)
        address = f"/proc/self/fd/{descriptor}/{_READS}"
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_ANSWER_TIMEOUT_S)
            connection.connect(address)
            connection.sendall(request)
            pieces: list[bytes] = []
            while True:
                piece = connection.recv(1 << 20)
                if not piece:
                    return b"".join(pieces)
                pieces.append(piece)
    finally:
        if descriptor >= 0:
            os.close(descriptor)
