"""Recorded runs: the environment of their processes, and the records that the ledger gets from their reports.

The recorder (``recorder/sitecustomize.py``, on PYTHONPATH) turns JAX's cache on in each process that runs it, and
writes one file of JSON lines per process. `jcache.runs.report` makes the report from these files.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jcache import clock
from jcache.errors import JcacheError
from jcache.formats.digest import digest
from jcache.jax_internals.path_keys import AUTOTUNE, KERNELS, SPELLINGS
from jcache.jax_internals.presets import (
    ENABLE_OPTION,
    FALSE_TEXTS,
    OFF_BY_RUN,
    RUN_CACHE,
    STORE_EVERYTHING,
    is_off_by_run,
)
from jcache.layout import ENTRY_SUFFIX, Kind, Root, storable
from jcache.package import own_file
from jcache.runs.calls import HIT, STORED
from jcache.runs.log import Program
from jcache.store import files
from jcache.store.ledger import Known
from jcache.store.roots import has_lock, root_path
from jcache.store.run_records import OFF
from jcache.text import command, quoted

if TYPE_CHECKING:
    from jcache.runs.report import RunReport
    from jcache.store.store import Store

RECORDER: Final = own_file("runs", "recorder")

_DIRECTORY: Final = "JAX_COMPILATION_CACHE_DIR"
_ENABLE: Final = ENABLE_OPTION.upper()
_THRESHOLDS: Final = {name.upper(): str(value).lower() for name, value in STORE_EVERYTHING.items()}
_XLA_CACHES: Final = "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES"
_LOG: Final = "JCACHE_RUN_LOG"
_RECORD: Final = "JCACHE_RUN_RECORD"
_DIRECTORY_BEFORE: Final = "JCACHE_RUN_CACHE_GIVEN"
_OUR_XLA_CACHES: Final = "JCACHE_RUN_XLA_CACHES"
HAS_REMOTE: Final = "JCACHE_RUN_REMOTE"  # set if `jcache run` asks a store for what the root lacks


def settings(cache_dir: Path, base: Mapping[str, str], *, override_user: bool = False) -> dict[str, str]:
    """Return the environment variables that make JAX cache every executable in a directory.

    Thresholds and XLA caches that the user has set in ``base`` stay as they are, and are not in the result.

    Args:
        cache_dir: the directory.
        base: the environment.
        override_user: whether to replace the user's thresholds.
    """
    wanted = {
        _DIRECTORY: str(cache_dir.absolute()),
        **_THRESHOLDS,
        # Otherwise, 0.4.36 <= jax <= 0.10.2 has the directory's path in every key.
        _XLA_CACHES: "none",
    }
    ours = set(_THRESHOLDS) if override_user else {_ENABLE}
    given = wanted.keys() & base.keys() - {_DIRECTORY, *ours}
    return {name: value for name, value in wanted.items() if name not in given}


def environment(
    cache_dir: Path,
    log_dir: Path,
    base: Mapping[str, str],
    *,
    override_user: bool = False,
    spellings: Iterable[str] = (),
    record: str = OFF,
) -> dict[str, str]:
    """Return the environment in which a program caches in ``cache_dir`` and logs to ``log_dir``.

    JAX's cache is off in it until the recorder turns it on, so a process without the recorder reads no unchecked byte.
    JAX_COMPILATION_CACHE_DIR stays as it is; the recorder sets JAX's directory.

    Args:
        cache_dir: as in `settings`.
        log_dir: the directory of the logs; a local disk is best, since every event of JAX is one small write.
        base: as in `settings`.
        override_user: whether to replace the user's thresholds, and to turn the cache on if the user has it off.
        spellings: the strings that may stand for ``cache_dir`` in keys of its entries, from
            `jcache.verify.path_keys.find_spellings`.
        record: what is recorded of keys, as `jcache.store.run_records.record_mode` returns it.
    """
    env = dict(base)
    if env.get(_OUR_XLA_CACHES) == env.get(_XLA_CACHES):  # a jcache run inside another one
        env.pop(_XLA_CACHES, None)
    if is_off_by_run(env):
        env.pop(_ENABLE)
    wanted = settings(cache_dir, env, override_user=override_user)
    directory = wanted.pop(_DIRECTORY)
    wanted[_ENABLE] = "false" if is_turned_off(env) and not override_user else OFF_BY_RUN
    env |= wanted
    if _XLA_CACHES in wanted:
        env[_OUR_XLA_CACHES] = wanted[_XLA_CACHES]  # tells the recorder to undo it from jax 0.11 on
    else:
        env.pop(_OUR_XLA_CACHES, None)
    env[RUN_CACHE] = directory
    env[_DIRECTORY_BEFORE] = env.get(_DIRECTORY, "")
    env[SPELLINGS] = "\n".join(spellings)
    env[_LOG] = str(log_dir.absolute())
    env[_RECORD] = record
    others = [entry for entry in env.get("PYTHONPATH", "").split(os.pathsep) if entry != RECORDER]
    env["PYTHONPATH"] = os.pathsep.join([RECORDER, *others]) if others != [""] else RECORDER
    return env


def is_turned_off(env: Mapping[str, str]) -> bool:
    """Return whether the user has turned JAX's cache off in an environment."""
    return env.get(_ENABLE, "").lower() in FALSE_TEXTS and not is_off_by_run(env)


def with_cache(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment of `environment` with JAX's cache on without the recorder, unless the user has it off."""
    return {**env, _DIRECTORY: env[RUN_CACHE], **({_ENABLE: "true"} if is_off_by_run(env) else {})}


def has_portable_keys(env: Mapping[str, str]) -> bool:
    """Return whether new keys are independent of the cache directory's path in an environment of `environment`."""
    caches = env[_XLA_CACHES]
    return caches != "all" and not any(name in caches for name in (AUTOTUNE, KERNELS))


def without_cache(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment with JAX's cache off, with the recorder, too."""
    return {**env, _ENABLE: "false"}


def is_recorded_by_run(base: Mapping[str, str]) -> bool:
    """Return whether `jcache run` records a process of this environment."""
    return bool(base.get(_LOG))


def new_id(started_ns: int) -> str:
    """Return a new identifier for a run that began at a time, in nanoseconds since 1970."""
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(started_ns // 10**9))}-{os.urandom(3).hex()}"


def record_run(store: Store, report: RunReport, *, subcommand: str = "run", is_portable: bool = True) -> RunReport:
    """Write a run's hits and stored entries to the ledger, and mark the hits as used, as an unbounded JAX does not.

    Failures of the ledger are in the store's notices.

    Args:
        store: the store of the root.
        report: the report of the run.
        subcommand: the subcommand of jcache that ran the program.
        is_portable: whether the stored entries have keys that do not depend on a path, except where the report says so.

    Returns:
        The report, with notices on entries in cache directories of the program's own, and on failed records.
    """
    if not report.processes:
        return report
    directory = store.root.directory(Kind.EXECUTABLES)
    programs_here = stored_programs(directory, report.programs)
    others = other_directories(directory, report.programs).items()
    notices = [_other_directory_notice(directory, path, count, subcommand, report.command) for path, count in others]
    report = report._replace(notices=(*report.notices, *notices))
    store.touch(
        Kind.EXECUTABLES, {key: None for key, program in programs_here if program.outcome == HIT}, clock.now_ns()
    )
    news = ledger_news(
        programs_here, lambda key, program: _record_of(store.root, key, program, report, is_portable=is_portable)
    )
    store.queue.attempt(lambda: store.ledger.record(news))
    store.queue.attempt(lambda: store.ledger.add_run(report.id, report.started_ns, json.dumps(report.to_json())))
    if has_lock(store.root, Kind.EXECUTABLES):  # a bounded JAX shares the directory, and needs sidecars
        try:
            store.maintenance.adopt(Kind.EXECUTABLES)
        except JcacheError as error:
            report = report._replace(notices=(*report.notices, str(error)))
    return report


def other_directories(directory: Path, programs: Iterable[Program]) -> dict[str, int]:
    """Return the number of executables that JAX hit or stored in other directories than this one, by directory."""
    used = Counter(program.directory for program in programs if program.outcome in (HIT, STORED))
    return {path: number for path, number in used.items() if path is not None and not _is_same(directory, path)}


def _is_same(directory: Path, path: str) -> bool:
    """Return whether two paths lead to the same directory."""
    if path == str(directory):
        return True
    try:
        return os.path.samefile(path, directory)
    except (OSError, ValueError):
        return False


def _other_directory_notice(directory: Path, path: str, number: int, subcommand: str, words: Sequence[str]) -> str:
    """Return a notice that a program has its own cache directory, and what to do."""
    what = "1 executable is" if number == 1 else f"{number:,} executables are"
    root = path if "://" in path else root_path(Path(path))
    again = command(subcommand, root, f"-- {' '.join(map(quoted, words))}")
    there = "" if "://" in path else f" To work on that directory: `{again}`"
    return (
        f"The program has set its own cache directory: {what} in {path}, and not in {directory}. To have them here, "
        "remove jax_compilation_cache_dir from the program and its environment, and root from jcache.enable()."
        f"{there}"
    )


def stored_programs(directory: Path, programs: Iterable[Program]) -> list[tuple[str, Program]]:
    """Return the programs whose entries are in a directory, each with the key under which it is stored."""
    found: list[tuple[str, Program]] = []
    is_here = cache(lambda path: path is None or _is_same(directory, path))
    for program in programs:
        if program.key and is_here(program.directory):
            keys = (program.key, storable(program.key))
            found += [(key, program) for key in dict.fromkeys(keys) if _entry_path(directory, key)][:1]
    return found


def ledger_news(programs_here: Iterable[tuple[str, Program]], stored: Callable[[str, Program], Known]) -> list[Known]:
    """Return the records for the ledger: one for each hit, and one for each stored entry.

    Args:
        programs_here: the programs and their keys, from `stored_programs`.
        stored: returns the record of a stored entry.
    """
    news = []
    for key, program in programs_here:
        if program.outcome == HIT:
            news.append(Known(Kind.EXECUTABLES, key, hits=1))
        elif program.outcome == STORED:
            news.append(stored(key, program))
    return news


def _entry_path(directory: Path, key: str) -> Path | None:
    """Return the path of an entry's file, None if there is none."""
    path = directory / (key + ENTRY_SUFFIX)
    return path if os.path.lexists(path) else None


def _record_of(root: Root, key: str, program: Program, report: RunReport, *, is_portable: bool) -> Known:
    path = _entry_path(root.directory(Kind.EXECUTABLES), key)
    known = Known(Kind.EXECUTABLES, key, seconds=program.seconds)
    try:
        taken_ns = os.stat(path).st_ctime_ns if path else None
        data = files.read(path) if path else b""
    except OSError:
        return known
    if not data:  # evicted by the run itself, perhaps
        return known
    return known._replace(
        digest=digest(data),
        bytes=len(data),
        origin="run" if is_portable and not program.has_path_key else "seen",
        run=report.id,
        jaxlib=report.jaxlib_version,
        digest_ns=taken_ns,
    )
