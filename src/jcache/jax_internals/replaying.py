"""Get the executable that a marker stands for: from JAX's cache, or compiled from the stored StableHLO.

The functions import JAX, so that importing this module costs nothing.
"""

# ruff: noqa: ANN401 - JAX's internals have no stable types

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from jcache import clock
from jcache.jax_internals import callbacks, preload, rank_agreement, rank_votes, stablehlo
from jcache.jax_internals.compile_record import CannotReplay, Replay
from jcache.jax_internals.gc_pause import collector
from jcache.jax_internals.module_text import text_digest
from jcache.layout import name_of

_LOADING_S: Final = 30.0  # which executable is loaded may take others as long
_EVENTS: Final = "/jax/compilation_cache/"
_ANOTHER: Final = "another process lacks its StableHLO, or does not answer"
_UNTOLD: Final = "its devices belong to several processes, which have not voted on its trace"


def executable_of(
    replay: Replay,
    marker: Any,
    backend: Any,
    devices: Any,
    compile_options: Any,
    rest: Sequence[Any],
    compile_it: Callable[[Any], tuple[Any, str | None]],
) -> Any:
    """Return the executable of a replay.

    Args:
        replay: the replay; what happens is recorded there.
        marker: the module of the marker.
        backend: as JAX gives it to its compiler, and so are the next three.
        devices: the array of JAX's devices.
        compile_options: XLA's options.
        rest: the further arguments.
        compile_it: compiles a module as JAX would, and returns its executable with the executable's key.

    Raises:
        CannotReplay: there is no executable and no StableHLO, or not in all processes of the program.
    """
    stablehlo.prepare_targets(replay.targets)
    replay.signature = stablehlo.signature(marker)
    replay.device_key = stablehlo.device_key(replay.signature, backend, devices, compile_options)
    replay.load_context = preload.load_context_of(devices, compile_options, replay.targets)
    _check_vote(replay, devices)
    executable = _load(replay, compile_options, backend, rest)
    collector.go_on()  # compiling may take long
    if executable is None:
        artifact = replay.artifact(replay.signature)
        if artifact is None:
            _all_have(replay, rank_votes.PROGRAM, None)
            raise CannotReplay
        program = stablehlo.module_of(artifact)  # the marker's context may be another thread's, too
        if replay.vote is not None and not _all_have(replay, rank_votes.PROGRAM, text_digest(program)):
            raise CannotReplay(_ANOTHER)
        stablehlo.set_logging_option(program, compile_options)
        executable, replay.compiled = compile_it(program)
    return executable


def _check_vote(replay: Replay, devices: Any) -> None:
    """Have only those processes vote to which the devices belong: JAX may compile a trace for other devices again.

    Raises:
        CannotReplay: other processes than these have voted on the trace.
    """
    if not rank_votes.are_shared(devices.flat):
        replay.vote = None
    elif replay.vote is None or replay.vote.processes != rank_agreement.processes_of(devices.flat):
        raise CannotReplay(_UNTOLD)


def _all_have(replay: Replay, step: str, which: str | None, build_seconds: float = 0.0) -> bool:
    return replay.vote is None or replay.vote.all_have(step, which, build_seconds)


def _load(replay: Replay, compile_options: Any, backend: Any, rest: Sequence[Any]) -> Any:
    """Return the executable from JAX's cache, None if it is missing, cannot be loaded here, or is not in all ranks."""
    from jax._src import compilation_cache

    get = compilation_cache.get_executable_and_time
    parameters, host_callbacks = inspect.signature(get).parameters, rest[0] if rest else ()
    more = rest[1:2] if "executable_devices" in parameters else ()
    if "host_callbacks" in parameters:
        more = (*more, host_callbacks)
    executable, found, build_seconds, started = None, None, 0.0, clock.monotonic()
    for key in replay.executables(replay.signature, replay.device_key):
        started = clock.monotonic()
        with suppress(Exception), callbacks.loading(host_callbacks, backend.platform) as may_load:
            if not may_load:  # the program is compiled instead, as in JAX
                break
            loaded = None if replay.ahead is None else replay.ahead.take(key, replay.load_context)
            executable, seconds = loaded or get(key, compile_options, backend, *more)
            if executable is not None:
                found, build_seconds = key, seconds or 0.0
                break
    if not _all_have(replay, rank_votes.EXECUTABLE, found, max(build_seconds, _LOADING_S)) or found is None:
        return None
    replay.loaded = found
    _tell_of_hit(found, build_seconds, clock.monotonic() - started)
    return executable


def _tell_of_hit(key: str, build_seconds: float, seconds: float) -> None:
    """Record the events and the log message that JAX records for a hit."""
    from jax._src import compiler, monitoring

    with suppress(Exception):
        monitoring.record_event(f"{_EVENTS}compile_requests_use_cache")
        compiler.log_persistent_cache_hit(name_of(key), key)
        monitoring.record_event(f"{_EVENTS}cache_hits")
        monitoring.record_event_duration_secs(f"{_EVENTS}compile_time_saved_sec", build_seconds - seconds)
        monitoring.record_event_duration_secs(f"{_EVENTS}cache_retrieval_time_sec", seconds)
