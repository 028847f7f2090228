"""Have all processes that run a program agree whether its executable is in the cache: a hit only if all have it.

A program whose devices belong to several processes hangs if some of these processes load an executable and others
compile it (xla#7716, xla#22164). Each process has its own cache, or sees a common one at another moment, so that they
tell one another through the key-value store of ``jax.distributed``, for the n-th look-up of a name by some processes:

    jcache/<name>/<processes>/<n>/has/<process>    a process has loaded the executable; the value says which
    jcache/<name>/<processes>/<n>/verdict          "hit" or "miss": created once, and then it holds for all

An executable is told by its program's text: keys differ from process to process on some backends. The text is no part
of the place, since processes with other texts would not hear each other, and wait.

A process without the executable creates the verdict "miss" at once. The first process creates "hit" when all have told
that they have it; the others wait for the verdict. Whoever has waited too long creates "miss", so that an answer that
does not come is a miss for all. Programs of a single process are not concerned.

This module needs the standard library and JAX alone: the recorder of `jcache run` loads it where the program's Python
has no jcache.
"""

# ruff: noqa: ANN401, BLE001, S110, SIM105 - as in the recorder

import hashlib
import itertools
import sys
import threading
import time

from .. import patching
from .module_text import text_digest

if False:  # for the type checker: typing and collections.abc are not needed to run
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    Tell = Callable[[str], object]

_PATIENCE_S = 30.0  # how long a process waits for the others at least: as long as compiling the program took
_MOST_PATIENCE_S = 600.0
_MOST_ON_CPU_S = 15.0  # where a process that does not wait gives up after 30 s, at the first exchange of data
_PATIENCE_AFTER_SILENCE_S = 2.0  # and how long once they have not answered
_STEP_S = 1.0  # of the wait for a verdict, so that Ctrl-C is heard meanwhile
_READ_S = 5.0  # for a verdict that is there
_POLL_S = (0.002, 0.1)  # the first and the longest pause of the process that collects the answers
_HIT, _MISS = "hit", "miss"


class _Thread(threading.local):
    """The program that a thread compiles, and its processes; none if there is but one, or no way to agree."""

    processes: "tuple[int, ...]" = ()
    computation: "Any" = None
    platform = ""


class _Others:
    """Whether another process has not answered in time, the last time that this one has waited."""

    are_silent = False


_thread = _Thread()
_counts: "dict[str, Iterator[int]]" = {}  # of look-ups, by program and processes


def install(tell: "Tell") -> "Callable[[], None]":
    """Have JAX agree on each look-up from now on, unless the recorder of `jcache run` has done it.

    Args:
        tell: receives the key of each executable that is not used since another process does not have it.

    Returns:
        A function that undoes it.
    """
    if any(getattr(finder, "jcache_agrees", False) for finder in sys.meta_path):
        return lambda: None
    compiler, cache = sys.modules["jax._src.compiler"], sys.modules["jax._src.compilation_cache"]
    traceback_util: Any = sys.modules["jax._src.traceback_util"]
    for path in (__file__, patching.__file__):
        traceback_util.register_exclusion(path)
    patches = [
        patching.Patch(compiler, "compile_or_get_cached", _note_processes),
        patching.Patch(cache, "get_executable_and_time", lambda plain: _agree_on_look_ups(plain, tell)),
    ]

    def undo() -> None:
        for patch in patches:
            patch.undo()

    return undo


def is_shared() -> bool:
    """Return whether the program that this thread compiles is one of several processes, which agree on it."""
    found = (getattr(finder, "jcache_agrees", None) for finder in sys.meta_path)
    module: Any = next(filter(None, found), None) or sys.modules[__name__]
    return bool(module._thread.processes)


def agree(
    client: "Any",
    processes: "tuple[int, ...]",
    process: int,
    place: str,
    *,
    has: bool,
    build_s: float = 0.0,
    which: str = "",
    patience_s: "float | None" = None,
) -> bool:
    """Return whether all processes have an executable, and the same one; wait for them, but not for long.

    Args:
        client: JAX's client of the key-value store.
        processes: the numbers of the processes, in ascending order.
        process: the number of this one.
        place: what identifies the look-up in the key-value store, the same in each process.
        has: whether this process has it.
        build_s: what compiling it took, for as long as which waiting is worth it.
        which: what identifies the executable, where processes may have different ones.
        patience_s: how long to wait at most; None for as long as compiling took, at least 30 s, and 2 s after a wait
            in vain. On the CPU it is 15 s at most.
    """
    if not has:
        _settle(client, place, _MISS)
        return False
    try:
        client.key_value_set(f"{place}/has/{process}", which)
    except Exception:
        return _settle(client, place, _MISS)
    patience = _PATIENCE_AFTER_SILENCE_S if _Others.are_silent else max(_PATIENCE_S, min(build_s, _MOST_PATIENCE_S))
    patience = patience if patience_s is None else patience_s
    end = time.monotonic() + (min(patience, _MOST_ON_CPU_S) if _thread.platform == "cpu" else patience)
    verdict = (
        _collected(client, place, len(processes), end) if process == processes[0] else _awaited(client, place, end)
    )
    if patience_s is None:
        _Others.are_silent = verdict is None
    return _settle(client, place, _MISS) if verdict is None else verdict == _HIT


def _collected(client: "Any", place: str, count: int, end: float) -> "str | None":
    """Collect the answers of all, and settle; return the verdict, None if an answer does not come."""
    pause, longest = _POLL_S
    while True:
        try:
            told = dict(client.key_value_dir_get(place + "/"))
        except Exception:
            return None
        verdict = told.pop(place + "/verdict", None)
        if verdict is not None:
            return str(verdict)
        if len(told) == count:
            return _HIT if _settle(client, place, _HIT if len(set(told.values())) == 1 else _MISS) else _MISS
        if time.monotonic() >= end:
            return None
        time.sleep(pause)
        pause = min(2 * pause, longest)


def _awaited(client: "Any", place: str, end: float) -> "str | None":
    """Wait for the verdict; return None if it does not come."""
    while (left := end - time.monotonic()) > 0:
        try:
            return str(client.blocking_key_value_get(place + "/verdict", max(int(min(left, _STEP_S) * 1000), 1)))
        except Exception as error:
            if "DEADLINE" not in str(error).upper():
                return None
    return None


def _settle(client: "Any", place: str, verdict: str) -> bool:
    """Create the verdict unless there is one; return whether the one that holds is a hit."""
    try:
        client.key_value_set(place + "/verdict", verdict)  # fails where the key is there
    except Exception:
        try:
            verdict = str(client.blocking_key_value_get(place + "/verdict", int(_READ_S * 1000)))
        except Exception:
            return False
    return verdict == _HIT


def _note_processes(plain: "Any") -> "Any":
    def compile_or_get_cached(
        backend: "Any", computation: "Any", devices: "Any", *rest: "Any", **named: "Any"
    ) -> "Any":
        before = _thread.processes, _thread.computation, _thread.platform
        platform = str(getattr(backend, "platform", ""))
        _thread.processes, _thread.computation, _thread.platform = processes_of(devices.flat), computation, platform
        try:
            return plain(backend, computation, devices, *rest, **named)
        finally:
            _thread.processes, _thread.computation, _thread.platform = before

    return compile_or_get_cached


def processes_of(devices: "Iterable[Any]") -> "tuple[int, ...]":
    """Return the processes of a program's devices, if there are several, among them this one, and they can agree."""
    try:
        state: Any = sys.modules["jax._src.distributed"].global_state
        if state.client is None:
            return ()
        found = tuple(sorted({int(device.process_index) for device in devices}))
        return found if len(found) > 1 and state.process_id in found else ()
    except Exception:
        return ()


def _next_place(key: str, processes: "tuple[int, ...]") -> str:
    """Return what identifies this look-up in the key-value store."""
    name = f"jcache/{key.rpartition('-')[0]}/{hashlib.sha256(str(processes).encode()).hexdigest()}"
    return f"{name}/{next(_counts.setdefault(name, itertools.count()))}"


def _agree_on_look_ups(plain: "Any", tell: "Tell") -> "Any":
    def get_executable_and_time(*args: "Any", **named: "Any") -> "Any":
        processes = _thread.processes
        if not processes:
            return plain(*args, **named)
        state: Any = sys.modules["jax._src.distributed"].global_state
        key = str(args[0] if args else named["cache_key"])
        place, has, build_s = _next_place(key, processes), False, 0.0
        try:
            found = plain(*args, **named)
            has, build_s = found[0] is not None, float(found[1] or 0)
        finally:
            which = text_digest(_thread.computation) if has else ""
            all_have = agree(state.client, processes, state.process_id, place, has=has, build_s=build_s, which=which)
        if has and not all_have:
            try:
                tell(key)
            except Exception:
                pass
        return found if all_have else (None, None)

    return get_executable_and_time
