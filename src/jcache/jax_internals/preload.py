"""Load the executable that a call will most likely need in a thread of its own, while the call is looked up.

Loading takes about as long as looking up the trace and lowering the marker, and XLA releases Python's lock meanwhile.
An earlier process has noted, with the call's arguments and code, which executable the call used. If this call needs
another one, the loaded one is dropped, and its loading leaves no event and no record.

Why preloading stays: it has to shorten the time to the first result by 10 % in at least one of five programs. Warm
processes were measured with and without it in turn (Torax: new ones; the others: new ones, and forks of a process that
had imported all but jcache), with jax 0.10.2, on two cores that were busy with other work all the time (load average 7
to 18). Runs that traced are left out. Seconds by the clock are the first quartile, median and third quartile; the 95 %
interval of the ratio of the medians is a bootstrap's. CPU is the ratio of the medians of CPU time:

    program   with                  without               ratio               CPU    pairs   estimate
    diffrax   0.31 / 0.42 / 0.52    0.22 / 0.41 / 0.47    1.02 (0.90..1.37)   1.00   32      0.72
    numpyro   0.31 / 0.34 / 0.46    0.28 / 0.39 / 0.47    0.88 (0.83..1.05)   1.03   52      0.77
    Torax     3.27 / 3.66 / 4.99    2.90 / 3.35 / 4.96    1.09 (0.89..1.38)   1.02   21      0.91
    linen     0.25 / 0.33 / 0.40    0.22 / 0.32 / 0.39    1.02 (0.86..1.27)   1.04   45      0.76
    equinox   0.18 / 0.23 / 0.29    0.19 / 0.26 / 0.34    0.88 (0.77..1.01)   1.01   50      0.85

Two medians are 12 % shorter, but all intervals include 1: on busy cores the clock does not decide. So the last column
estimates the ratio on idle cores from the CPU time of each thread, which other work hardly changes. XLA loads in one
thread of its own (15 ms of CPU time for equinox, 32 for linen, about 105 for diffrax and numpyro, 1.06 s for Torax),
and the main thread works for 40 to 50 ms meanwhile (Torax: 164); the shorter of the two is saved. The estimate assumes
that nothing else runs in parallel. It has not been confirmed by the clock on idle cores.

The functions import JAX, so that importing this module costs nothing.
"""

# ruff: noqa: ANN401 - JAX's internals have no stable types

from __future__ import annotations

import atexit
import base64
import hashlib
import inspect
import json
import os
import weakref
from _thread import allocate_lock
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import Any, Final

from jcache import clock
from jcache.jax_internals import stablehlo
from jcache.jax_internals.gc_pause import start_thread
from jcache.jax_internals.speculation import deferring
from jcache.patching import View


class Preload:
    """An executable that is loaded ahead.

    Args:
        note: note of the executable, from `note_of`; another text is ignored.

    Attributes:
        note: the note as given.
        seconds: how long it took to begin loading; this time is saved when the executable is needed.
    """

    def __init__(self, note: str) -> None:
        started = clock.monotonic()
        self.note = note
        self._key, _, self._load_context = note.partition("\n")
        self._loading: _Loading | None = None
        with suppress(Exception), deferring() as self._told:  # the call that needs it meets the same error
            self._loading = _start_loading(self._key, self._load_context)
        self.seconds = clock.monotonic() - started

    def take(self, key: str, load_context: str) -> tuple[Any, float] | None:
        """Return the executable and its build seconds; None if another one is needed or it could not be loaded.

        Further calls return None.
        """
        if self._loading is None or (key, load_context) != (self._key, self._load_context):
            return None
        loading, self._loading = self._loading, None
        executable = loading.result()
        if executable is None:
            return None
        for tell in self._told:
            tell()
        return executable, loading.build_seconds


class _Loading:
    """A call to XLA in a thread that does nothing else: any other work would wait for Python's lock."""

    def __init__(self, call: Callable[[], Any], build_seconds: float) -> None:
        self.build_seconds = build_seconds
        self._call = call
        self._executable: Any = None
        self._process = os.getpid()
        self._is_done = allocate_lock()
        self._is_done.acquire()
        _end_before_python()
        start_thread(self._run)
        _LOADING.add(self)

    def result(self) -> Any:
        """Wait for the executable and return it; None if it could not be loaded."""
        if self._process != os.getpid():  # the thread is not in a forked child
            return None
        with self._is_done:
            return self._executable

    def _run(self) -> None:
        try:
            self._executable = self._call()
        finally:
            self._is_done.release()


_LOADING: Final[weakref.WeakSet[_Loading]] = weakref.WeakSet()


@cache
def _end_before_python() -> None:
    """Have Python wait at its exit until loading has ended: XLA must not load while the process ends."""
    atexit.register(lambda: [loading.result() for loading in list(_LOADING)])


def note_of(key: str, load_context: str) -> str:
    """Return the note that tells a later process which executable to load ahead."""
    return f"{key}\n{load_context}"


def load_context_of(devices: Any, compile_options: Any, targets: frozenset[str]) -> str:
    """Return the surroundings for which an executable is loaded: devices, machine, compile options, custom calls.

    Args:
        devices: the array of JAX's devices.
        compile_options: XLA's options, before JAX changes them.
        targets: targets of the custom calls in the program.

    Returns:
        JSON, or an empty text if the executable cannot be loaded ahead.
    """
    if stablehlo.call_back(targets):
        return ""
    try:
        listed = list(devices.flat)
        with stablehlo.without_logging_option(compile_options):
            options = base64.b64encode(compile_options.SerializeAsString()).decode()
        told = {
            "devices": [device.id for device in listed],
            "machine": _machine(listed),
            "options": options,
            "targets": sorted(targets),
        }
    except Exception:  # noqa: BLE001 - where this JAX or backend lacks something, nothing is loaded ahead
        return ""
    return json.dumps(told)


def _start_loading(key: str, load_context: str) -> _Loading | None:
    """Read an executable from JAX's cache, and begin to load it."""
    import jax
    from jax._src import compilation_cache, lib

    told = json.loads(load_context)
    here = {device.id: device for device in jax.devices()}
    devices = [here[number] for number in told["devices"]]
    if _machine(devices) != told["machine"]:
        return None
    xla: Any = vars(lib)["xla_client"]
    options = xla.CompileOptions.ParseFromString(base64.b64decode(told["options"]))
    get: Any = compilation_cache.get_executable_and_time
    takes_devices = "executable_devices" in inspect.signature(get).parameters
    more = (xla.DeviceList(tuple(devices)),) if takes_devices else ()
    client = devices[0].client
    calls: list[Callable[[], Any]] = []

    def deserialize(*args: Any) -> Any:
        calls.append(partial(client.deserialize_executable, *args))

    stablehlo.prepare_targets(frozenset(told["targets"]))
    _, seconds = get(key, options, View(client, deserialize_executable=deserialize), *more)
    return _Loading(calls[0], seconds or 0) if calls else None


def _machine(devices: list[Any]) -> str:
    """Return a digest of the machine as in JAX's keys: the CPU's kind and features, or the accelerators' kinds."""
    from jax._src import lib

    topology = vars(lib)["xla_client"].get_topology_for_devices(devices)
    tell = getattr(topology, "fingerprint", None) or topology.serialize
    return hashlib.sha256(str(tell()).encode()).hexdigest()
