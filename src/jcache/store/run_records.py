"""Keep the records of runs, and the modules of what they missed, in ``ROOT/.jcache``.

A record (`jcache.runs.record`) is a file of JSON, compressed by zstd, in ``records/``; a module is MLIR's bytecode as
JAX hashes it, compressed, in ``modules/`` under its hash. Both are somebody's code and environment: only their owner
can read them, and no archive takes them. The oldest files go when all of a directory take more than a bound.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from jcache.errors import DamagedEntry, InvalidValue
from jcache.layout import TEMPORARY_PREFIX, Root
from jcache.store import files
from jcache.store.directories import opened

VARIABLE: Final = "JCACHE_RECORD"
OFF: Final = "off"
KEYS: Final = "keys"
MODULES: Final = "modules"

_MODE: Final = 0o600
_MAX_RECORDS_BYTES: Final = 16 << 20
_MAX_MODULES_BYTES: Final = 32 << 20
_MAX_RECORD_BYTES: Final = 64 << 20  # of one, not compressed
_MAX_MODULE_BYTES: Final = 8 << 20
_SECRET_NAME: Final = "secret"  # noqa: S105 - of a file
_SECRET_BYTES: Final = 32
_SUFFIX: Final = ".zst"


def record_mode(root: Root, environment: Mapping[str, str]) -> str:
    """Return what is recorded of the keys in runs: `OFF`, `KEYS`, or `MODULES` as well.

    Without ``$JCACHE_RECORD`` it is `MODULES` on a local file system and `KEYS` on others.

    Raises:
        InvalidValue: the variable has another value.
    """
    wanted = environment.get(VARIABLE, "")
    if not wanted:
        return MODULES if _is_local(root) else KEYS
    if wanted not in (OFF, KEYS, MODULES):
        raise InvalidValue(f"{VARIABLE} is '{wanted}': set off, keys or modules, or unset it.")
    return wanted


def _is_local(root: Root) -> bool:
    from jcache.store.file_systems import is_local

    if sys.platform != "linux":
        return True  # other systems are not asked
    with suppress(OSError), opened(root, root.path) as directory:
        return is_local(directory)
    return False


def secret_of(root: Root) -> bytes:
    """Return the secret of the digests in records, made at the first time; empty bytes if it can be neither."""
    with suppress(OSError), opened(root, root.records, make=True) as directory:
        with suppress(FileNotFoundError):
            found = files.read(_SECRET_NAME, _SECRET_BYTES, directory=directory)
            if len(found) == _SECRET_BYTES:
                return found
        made = os.urandom(_SECRET_BYTES)
        files.publish(_SECRET_NAME, made, directory=directory, mode=_MODE)
        return made
    return b""


def add_record(root: Root, run_id: str, record: Mapping[str, object], modules: Mapping[str, bytes]) -> None:
    """Write the record of a run, or replace it, and keep its modules; remove the oldest of both above their bounds.

    Args:
        root: the root.
        run_id: the run's identifier.
        record: the record, as data for ``json.dumps``.
        modules: modules by their hashes.

    Raises:
        OSError: as the file system says.
    """
    with opened(root, root.records, make=True) as directory:
        text = json.dumps(record, separators=(",", ":")).encode()
        files.publish(run_id + _SUFFIX, _compressed(text), directory=directory, mode=_MODE)
        _bound(directory, _MAX_RECORDS_BYTES)
    if modules:
        with opened(root, root.modules, make=True) as directory:
            for name, data in modules.items():
                _keep_module(directory, name + _SUFFIX, data)
            _bound(directory, _MAX_MODULES_BYTES)


def _compressed(data: bytes) -> bytes:
    from jcache.formats.compression import Codec, compress

    return compress(data, Codec.ZSTD)


def _keep_module(directory: int, name: str, data: bytes) -> None:
    try:
        os.utime(name, dir_fd=directory, follow_symlinks=False)  # the newest runs' modules stay
    except FileNotFoundError:
        files.publish(name, _compressed(data), directory=directory, mode=_MODE)


def read_records(root: Root, *, latest: int | None = None) -> list[dict[str, Any]]:
    """Return the records of a root that this user can read; damaged ones are left out.

    The oldest come first, and those of one second in any order.

    Args:
        root: the root.
        latest: how many at most, the latest ones; None for all.
    """
    found = []
    with suppress(OSError), opened(root, root.records) as directory:
        names = [name for name in os.listdir(directory) if name.endswith(_SUFFIX)]
        for name in sorted(names)[-latest if latest else 0 :]:  # the names begin with the time
            if not name.startswith(TEMPORARY_PREFIX):
                with suppress(OSError, ValueError, RecursionError, DamagedEntry):
                    data = json.loads(_read(directory, name, _MAX_RECORD_BYTES))
                    if isinstance(data, dict):
                        found.append(data)
    return found


def read_module(root: Root, name: str) -> bytes | None:
    """Return a module by its hash; None if it is not kept, or is damaged."""
    if not name.isalnum():
        return None
    with suppress(OSError, DamagedEntry), opened(root, root.modules) as directory:
        return _read(directory, name + _SUFFIX, _MAX_MODULE_BYTES)
    return None


def forget_records(root: Root) -> None:
    """Remove all records and modules of a root; what cannot be removed stays."""
    for path in (root.records, root.modules):
        with suppress(OSError), opened(root, path) as directory:
            _bound(directory, -1)


def _read(directory: int, name: str, limit: int) -> bytes:
    """Return the content of a compressed file.

    Raises:
        OSError: it cannot be read.
        DamagedEntry: it is damaged or too large.
    """
    from jcache.formats.compression import decompress_zstd

    return decompress_zstd(files.read(name, limit, directory=directory), limit=limit)


def _bound(directory: int, max_bytes: int) -> None:
    """Remove the oldest files of a directory until the others take at most a number of bytes."""
    found = []
    for name in os.listdir(directory):
        with suppress(OSError):
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if name.endswith(_SUFFIX):
                found.append((status.st_mtime_ns, status.st_size, name))
    total = 0
    for _, size, name in sorted(found, reverse=True):
        total += size
        if total > max_bytes:
            with suppress(OSError):
                os.unlink(name, dir_fd=directory)
