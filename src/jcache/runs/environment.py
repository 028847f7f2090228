"""Recorded runs: the environment that records one, and what the ledger learns from its report.

The recorder (``recorder/sitecustomize.py``, injected through PYTHONPATH) turns JAX's cache on in each process that runs
it, and writes one file of JSON lines per process, of which `jcache.runs.report` makes the report.
"""

from __future__ import annotations

import json
import os
import secrets
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
from jcache.jax_internals.presets import ENABLE_OPTION, OFF_BY_RUN, RUN_CACHE, STORE_EVERYTHING, is_off_by_run
from jcache.layout import ENTRY_SUFFIX, Kind, Root, storable
from jcache.package import own_file
from jcache.runs.calls import HIT, STORED
from jcache.runs.log import Program
from jcache.store import files
from jcache.store.ledger import Known
from jcache.store.roots import has_lock
from jcache.text import command, quoted

if TYPE_CHECKING:
    from jcache.runs.report import RunReport
    from jcache.store.store import Store

RECORDER: Final = own_file("runs", "recorder")

_DIRECTORY: Final = "JAX_COMPILATION_CACHE_DIR"
_ENABLE: Final = ENABLE_OPTION.upper()
_EVERYTHING: Final = {name.upper(): str(value).lower() for name, value in STORE_EVERYTHING.items()}
_XLA_CACHES: Final = "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES"
_LOG: Final = "JCACHE_RUN_LOG"
_GIVEN: Final = "JCACHE_RUN_CACHE_GIVEN"
_OUR_XLA_CACHES: Final = "JCACHE_RUN_XLA_CACHES"
_FALSE: Final = ("n", "no", "f", "false", "off", "0")  # as JAX reads a variable


def settings(cache_dir: Path, base: Mapping[str, str], *, whatever: bool = False) -> dict[str, str]:
    """What JAX is told by environment variables so that it caches in a directory everything that is worth it.

    What the user has set in ``base`` of thresholds and XLA caches stays as it is, and is not in the result.

    Args:
        cache_dir: the directory.
        base: the environment.
        whatever: whether the user's thresholds count for nothing.
    """
    wanted = {
        _DIRECTORY: str(cache_dir.absolute()),
        **_EVERYTHING,
        # For 0.4.36 <= jax <= 0.10.2 the directory's path is in every key otherwise.
        _XLA_CACHES: "none",
    }
    ours = set(_EVERYTHING) if whatever else {_ENABLE}
    given = wanted.keys() & base.keys() - {_DIRECTORY, *ours}
    return {name: value for name, value in wanted.items() if name not in given}


def environment(
    cache_dir: Path,
    log_dir: Path,
    base: Mapping[str, str],
    *,
    whatever: bool = False,
    spellings: Iterable[str] = (),
) -> dict[str, str]:
    """The environment in which a program caches in ``cache_dir``, as `settings` has it, and records in ``log_dir``.

    JAX's cache is off in it until the recorder turns it on: what does not run the recorder reads nothing from the cache
    that was not checked. JAX_COMPILATION_CACHE_DIR stays as it is; the recorder sets JAX's directory.

    ``log_dir`` should be on a local disk: every event of JAX is one small write to it.

    Args:
        cache_dir: as `settings` has it.
        log_dir: the directory.
        base: as `settings` has it.
        whatever: as `settings` has it, and whether the cache is on although the user has turned it off.
        spellings: the strings that may stand for ``cache_dir`` in keys of its entries, as
            `jcache.verify.path_keys.spellings` tells.
    """
    env = dict(base)
    if env.get(_OUR_XLA_CACHES) == env.get(_XLA_CACHES):  # a jcache run inside another one
        env.pop(_XLA_CACHES, None)
    if is_off_by_run(env):
        env.pop(_ENABLE)
    wanted = settings(cache_dir, env, whatever=whatever)
    directory = wanted.pop(_DIRECTORY)
    wanted[_ENABLE] = "false" if is_turned_off(env) and not whatever else OFF_BY_RUN
    env |= wanted
    if _XLA_CACHES in wanted:
        env[_OUR_XLA_CACHES] = wanted[_XLA_CACHES]  # by which the recorder knows to undo it from jax 0.11 on
    else:
        env.pop(_OUR_XLA_CACHES, None)
    env[RUN_CACHE] = directory
    env[_GIVEN] = env.get(_DIRECTORY, "")
    env[SPELLINGS] = "\n".join(spellings)
    env[_LOG] = str(log_dir.absolute())
    others = [entry for entry in env.get("PYTHONPATH", "").split(os.pathsep) if entry != RECORDER]
    env["PYTHONPATH"] = os.pathsep.join([RECORDER, *others]) if others != [""] else RECORDER
    return env


def is_turned_off(env: Mapping[str, str]) -> bool:
    """Whether the user has turned JAX's cache off in an environment."""
    return env.get(_ENABLE, "").lower() in _FALSE and not is_off_by_run(env)


def with_cache(env: Mapping[str, str]) -> dict[str, str]:
    """An environment of `environment` in which JAX's cache is on without the recorder, if the user has it on."""
    return {**env, _DIRECTORY: env[RUN_CACHE], **({_ENABLE: "true"} if is_off_by_run(env) else {})}


def has_portable_keys(env: Mapping[str, str]) -> bool:
    """Whether, in an environment of `environment`, new keys do not depend on the path of the cache directory."""
    caches = env[_XLA_CACHES]
    return caches != "all" and not any(name in caches for name in (AUTOTUNE, KERNELS))


def without_cache(env: Mapping[str, str]) -> dict[str, str]:
    """An environment with JAX's cache turned off, with the recorder, too."""
    return {**env, _ENABLE: "false"}


def recorded(base: Mapping[str, str]) -> bool:
    """Whether a process of this environment is being recorded by `jcache run`."""
    return bool(base.get(_LOG))


def new_id(started_ns: int) -> str:
    """The identity of a run that began at a time."""
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(started_ns // 10**9))}-{secrets.token_hex(3)}"


def learn(store: Store, report: RunReport, *, doing: str = "run", portable: bool = True) -> RunReport:
    """Tells the ledger what a run stored and hit, and marks the hits as used: an unbounded JAX does not.

    What goes wrong with the ledger is told by the store's notices.

    Args:
        store: of the root.
        report: of the run.
        doing: the command.
        portable: whether what the run stored has keys that do not depend on a path, but where the report says so.

    Returns:
        The report, with notices of what the program has put into cache directories of its own, and of what could not be
        recorded.
    """
    if not report.processes:
        return report
    directory = store.root.directory(Kind.EXECUTABLES)
    here = present(directory, report.programs)
    own = own_directories(directory, report.programs).items()
    notices = [_own_directory(directory, path, number, doing, report.command) for path, number in own]
    report = report._replace(notices=(*report.notices, *notices))
    store.touch(Kind.EXECUTABLES, {key: None for key, program in here if program.outcome == HIT}, clock.now_ns())
    news = news_of(here, lambda key, program: _stored(store.root, key, program, report, portable=portable))
    store.softly(lambda: store.ledger.record(news))
    store.softly(lambda: store.ledger.add_run(report.id, report.started_ns, json.dumps(report.to_json())))
    if has_lock(store.root, Kind.EXECUTABLES):  # and wants sidecars
        try:
            store.adopt(Kind.EXECUTABLES)
        except JcacheError as error:
            report = report._replace(notices=(*report.notices, str(error)))
    return report


def own_directories(directory: Path, programs: Iterable[Program]) -> dict[str, int]:
    """How many executables JAX hit or stored in other directories than this one, as JAX was set, by directory."""
    used = Counter(program.directory for program in programs if program.outcome in (HIT, STORED))
    return {path: number for path, number in used.items() if path is not None and not _is_same(directory, path)}


def _is_same(directory: Path, path: str) -> bool:
    """Whether two paths lead to one directory."""
    if path == str(directory):
        return True
    try:
        return os.path.samefile(path, directory)
    except (OSError, ValueError):
        return False


def _own_directory(directory: Path, path: str, number: int, doing: str, words: Sequence[str]) -> str:
    """What a program has put into a cache directory of its own, and what to do."""
    what = "1 executable is" if number == 1 else f"{number:,} executables are"
    again = command(doing, path, f"-- {' '.join(map(quoted, words))}")
    there = "" if "://" in path else f"; to look after those: `{again}`"
    return (
        f"The program has set a cache directory of its own: {what} in {path}, and not in {directory}. To have them "
        "here, set none in the program, neither as jax_compilation_cache_dir, in code or in the environment, nor as "
        f"the root of jcache.enable(){there}."
    )


def present(directory: Path, programs: Iterable[Program]) -> list[tuple[str, Program]]:
    """The programs whose entries are in a directory, each with the key under which it is stored."""
    found: list[tuple[str, Program]] = []
    is_here = cache(lambda path: path is None or _is_same(directory, path))
    for program in programs:
        if program.key and is_here(program.directory):
            keys = (program.key, storable(program.key))
            found += [(key, program) for key in dict.fromkeys(keys) if _file(directory, key)][:1]
    return found


def news_of(here: Iterable[tuple[str, Program]], stored: Callable[[str, Program], Known]) -> list[Known]:
    """What the ledger is to learn of entries: each hit, and what there is to tell of those that were stored."""
    news = []
    for key, program in here:
        if program.outcome == HIT:
            news.append(Known(Kind.EXECUTABLES, key, hits=1))
        elif program.outcome == STORED:
            news.append(stored(key, program))
    return news


def _file(directory: Path, key: str) -> Path | None:
    """The file of an entry, None if there is none."""
    path = directory / (key + ENTRY_SUFFIX)
    return path if os.path.lexists(path) else None


def _stored(root: Root, key: str, program: Program, report: RunReport, *, portable: bool) -> Known:
    path = _file(root.directory(Kind.EXECUTABLES), key)
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
        origin="run" if portable and not program.has_path_key else "seen",
        run=report.id,
        jaxlib=report.jaxlib_version,
        digest_ns=taken_ns,
    )
