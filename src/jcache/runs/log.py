"""What one process did with JAX's cache, read from the lines of the recorder: a file's, or this process's own.

The grammar of the lines is in ``recorder/sitecustomize.py``. On each thread they come in the order of JAX's own
``compile_or_get_cached`` (jax 0.4.31 to 0.12):

    request, hit message, hit event, seconds saved, seconds of retrieval, end of compile
    request, miss message, one or more messages of why (not) written, written event, write, end of compile
    end of compile                                                     a bypass: nothing was looked up

jcache's own cache tells of an entry that it is damaged when JAX looks it up, and why it did not store one at the write;
`jcache.jit` tells of each call that JAX traces, or would have, what became of it, and `jcache.GraphCache` of each call
(`jcache.runs.observers`): lines whose fields are values. A compilation inside another one (a
custom partitioner's, say) nests, and so do the durations.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from jcache.runs.calls import BYPASSED, HIT, NOT_STORED, STORED, GraphCalls, TraceCalls

_CACHE: Final = "/jax/compilation_cache/"
_COMPILE: Final = "/jax/core/compile/"
_PHASES: Final = {
    f"{_COMPILE}jaxpr_trace_duration": "trace",
    f"{_COMPILE}jaxpr_to_mlir_module_duration": "lower",
    f"{_COMPILE}backend_compile_duration": "compile",
}
_NUMBER: Final = (int, float)
_NEEDED: Final[dict[object, dict[str, type | tuple[type, ...]]]] = {
    "start": {"jax": str, "jaxlib": str, "cache": str},
    "event": {"th": int, "name": str},
    "log": {"th": int, "m": str, "a": list, "t": _NUMBER},
    "time": {"th": int, "name": str, "s": _NUMBER, "t": _NUMBER},
    "directory": {"th": int, "name": str},
    "not_stored": {"th": int, "key": str, "reason": str},
    "damaged": {"th": int, "reason": str},
    "path_key": {"th": int, "key": str},
    "trace": {"th": int},
    "compared": {"th": int, "same": bool},
    "graph": {"th": int},
}
_MOST_SPANS: Final = 4096
_BYPASSES: Final = {
    "disabled": "the compilation cache is disabled",
    "used": "it was compiled without a look-up",
    "": "this backend cannot serialize executables",
}


class Program(NamedTuple):
    """One executable that a run asked for. ``seconds`` is its retrieval for a hit, its compilation otherwise.

    ``directory`` is that of the cache in which it was looked up, where that is known. ``has_path_key`` says whether it
    was looked up under a key that depends on the path of a directory, in place of the key that does not.
    """

    key: str | None
    name: str | None
    outcome: str
    reason: str | None
    seconds: float | None
    jax_build_seconds: float | None = None  # of a hit: the whole seconds that JAX stored in the entry
    directory: str | None = None
    has_path_key: bool = False


class Recording:
    """What one process did."""

    jax: str = ""
    jaxlib: str = ""
    platform: str = ""
    cache: str = ""  # "used" or "disabled" once JAX has decided

    def __init__(self) -> None:
        self.programs: list[Program] = []
        self.traces = TraceCalls()
        self.graphs = GraphCalls()
        self.path_keys: set[str] = set()
        self.seconds = dict.fromkeys((*_PHASES.values(), "retrieve"), 0.0)


class _Request:
    """An executable that is being looked up or compiled."""

    key: str | None = None
    name: str | None = None
    outcome: str | None = None
    reason: str | None = None
    missed_at: float | None = None
    seconds: float | None = None
    saved: float = 0.0
    unreadable: str | None = None  # why the look-up failed
    directory: str | None = None

    def settle(self, outcome: str, reason: str | None = None) -> None:
        """The first thing that JAX says about an outcome is the cause; what follows are consequences."""
        if self.outcome is None:
            self.outcome, self.reason = outcome, reason

    def fail(self, reason: str) -> None:
        """Not stored after all: the write was announced, then failed."""
        self.outcome, self.reason = NOT_STORED, reason


class _Thread:
    def __init__(self) -> None:
        self.requests: list[_Request] = []
        self.spans: list[tuple[float, float]] = []  # (end, seconds), none inside another


class Reader:
    """Makes a recording of a process's lines, given one by one in their order."""

    def __init__(self) -> None:
        self.recording = Recording()
        self._threads: dict[int, _Thread] = {}
        self._directory: str | None = None  # of JAX's cache

    def feed(self, line: dict[str, Any]) -> None:
        """Takes in one line; one that is not the recorder's is passed over."""
        if not _is_recorders(line):
            return
        if line["e"] == "start":
            recording = self.recording
            recording.jax, recording.jaxlib, recording.cache = line["jax"], line["jaxlib"], line["cache"]
            self._directory = str(line.get("directory") or "") or None
            return
        thread = self._threads.get(line["th"])
        if thread is None:
            thread = self._threads[line["th"]] = _Thread()
        if line["e"] == "event":
            _event(self.recording, thread, line["name"].removeprefix(_CACHE), self._directory)
        elif line["e"] == "log":
            _message(thread, line)
        elif line["e"] == "time":
            _duration(self.recording, thread, line)
        elif line["e"] == "directory":
            self._directory = line["name"] or None
        else:
            _told(self.recording, thread, line)

    def end(self) -> Recording:
        """The recording of a process that has ended, and whatever it was compiling with it."""
        for thread in self._threads.values():
            while thread.requests:
                _finish(self.recording, thread.requests.pop(), None)
        return self.recording


def _is_recorders(line: dict[str, Any]) -> bool:
    """Whether a line has all that the recorder writes, of its types and finite: it may come from a file."""
    event = line.get("e")
    needed = _NEEDED.get(event) if isinstance(event, str) else None
    if needed is None:
        return False
    values = [line.get(name) for name in needed]
    are_typed = all(map(isinstance, values, needed.values()))
    return are_typed and all(value - value == 0 for value in values if isinstance(value, float))


def read(path: Path) -> Recording:
    """The recording in one file; lines that are torn or not the recorder's are passed over."""
    reader = Reader()
    with path.open("rb") as file:
        for text in file:
            try:
                line = json.loads(text)
            except ValueError:
                continue  # a process killed in the middle of a write, or a full disk
            if isinstance(line, dict):
                reader.feed(line)
    return reader.end()


def _told(recording: Recording, thread: _Thread, line: dict[str, Any]) -> None:
    """What jcache itself tells in the program."""
    if line["e"] == "trace":
        recording.traces.add(line)
    elif line["e"] == "compared":
        recording.traces.compare(same=line["same"])
    elif line["e"] == "graph":
        recording.graphs.add(line)
    elif line["e"] == "path_key":
        recording.path_keys.add(line["key"])
    elif thread.requests and line["e"] == "not_stored":
        _refused(thread.requests[-1], line["key"], line["reason"])
    elif thread.requests and line["e"] == "damaged":
        thread.requests[-1].unreadable = f"the entry was damaged: {line['reason']}"


def _event(recording: Recording, thread: _Thread, name: str, directory: str | None) -> None:
    if name == "compile_requests_use_cache":
        if thread.requests and thread.requests[-1].outcome is not None:
            _finish(recording, thread.requests.pop(), None)  # its end was not announced: not nested
        thread.requests.append(_Request())
        thread.requests[-1].directory = directory
    elif name in ("task_disabled_cache", "tasks_using_cache"):
        recording.cache = "disabled" if name == "task_disabled_cache" else "used"
    elif thread.requests and name == "cache_hits":
        thread.requests[-1].settle(HIT)
    elif thread.requests and name == "cache_misses":
        thread.requests[-1].settle(STORED)


def _duration(recording: Recording, thread: _Thread, line: dict[str, Any]) -> None:
    request = thread.requests[-1] if thread.requests else None
    seconds = line["s"]
    phase = _PHASES.get(line["name"])
    if phase is not None:
        own = _own_seconds(thread, line["t"], seconds)
        recording.seconds[phase] += own
        if phase == "compile":
            recording.platform = str(line.get("platform", recording.platform))
            _end_of_compile(recording, thread, str(line.get("fun") or "") or None, own)
    elif request is not None and line["name"] == f"{_CACHE}compile_time_saved_sec":
        request.saved = seconds
    elif request is not None and line["name"] == f"{_CACHE}cache_retrieval_time_sec":
        request.seconds = seconds
        recording.seconds["retrieve"] += seconds


def _own_seconds(thread: _Thread, end: float, seconds: float) -> float:
    """Seconds of a span without the spans inside it. Those ended before it did, on the same thread."""
    begin, own = end - seconds, seconds
    while thread.spans and thread.spans[-1][0] - thread.spans[-1][1] / 2 > begin:  # its middle: clocks are read late
        own -= thread.spans.pop()[1]
    thread.spans.append((end, seconds))
    if len(thread.spans) > _MOST_SPANS:
        _halve(thread.spans)
    return max(0.0, own)


def _halve(spans: list[tuple[float, float]]) -> None:
    """Makes one span of each two neighbours, so that a process may go on for ever; their sum stays."""
    if len(spans) % 2:
        spans.insert(0, (spans[0][0] - spans[0][1], 0.0))
    spans[:] = [(later[0], earlier[1] + later[1]) for earlier, later in zip(spans[::2], spans[1::2], strict=True)]


def _end_of_compile(recording: Recording, thread: _Thread, function: str | None, seconds: float) -> None:
    if thread.requests:
        _finish(recording, thread.requests.pop(), seconds)
    else:
        recording.programs.append(Program(None, function, BYPASSED, _BYPASSES.get(recording.cache), seconds))


def _finish(recording: Recording, request: _Request, seconds: float | None) -> None:
    if request.unreadable is not None:  # under jax_raise_persistent_cache_errors: else JAX says what comes after it
        request.settle(NOT_STORED, request.unreadable)
    if seconds is None:  # jax 0.4.31 announces no end of a compilation that raises
        request.settle(NOT_STORED, "its compilation failed, or the program ended meanwhile")
    request.settle(NOT_STORED, "its compilation failed, or JAX gave no reason")
    outcome = request.outcome or NOT_STORED
    if outcome == STORED and request.unreadable:
        request.reason = request.unreadable
    built = request.saved + request.seconds if outcome == HIT and request.seconds is not None else None
    own = request.seconds if request.seconds is not None else seconds
    where = None if outcome == BYPASSED else request.directory
    has_path_key = request.key in recording.path_keys
    recording.path_keys.discard(request.key or "")
    recording.programs.append(
        Program(request.key, request.name, outcome, request.reason, own, built, where, has_path_key)
    )


def _message(thread: _Thread, line: dict[str, Any]) -> None:
    """What a message of JAX says about the executable that this thread is at."""
    for beginning, act in _MESSAGES.items():
        if line["m"].startswith(beginning):
            if act is _no_key and (not thread.requests or thread.requests[-1].name is not None):
                thread.requests.append(_Request())  # jax >= 0.5 makes the key before it announces the request
            with suppress(IndexError, TypeError, ValueError):  # a future JAX that says the same with other arguments
                act(thread.requests[-1], line)  # an IndexError too: nothing is being compiled on this thread
            return


def _hit(request: _Request, line: dict[str, Any]) -> None:
    request.name, request.key = _text(line, 0), _text(line, 1)


def _miss(request: _Request, line: dict[str, Any]) -> None:
    request.name, request.key, request.missed_at = _text(line, 0), _text(line, 1), line["t"]


def _no_key(request: _Request, line: dict[str, Any]) -> None:
    request.settle(BYPASSED, f"no key could be made: {_text(line, 0)}")


def _no_directory(request: _Request, line: dict[str, Any]) -> None:
    del line
    request.settle(BYPASSED, request.unreadable or "there is no usable cache directory")


def _no_runtime(request: _Request, line: dict[str, Any]) -> None:
    request.settle(BYPASSED, f"the runtime {_text(line, 0)} cannot serialize executables")


def _compiled(request: _Request, line: dict[str, Any]) -> None:
    request.seconds = float(line["a"][2])


def _too_fast(request: _Request, line: dict[str, Any]) -> None:
    _compiled(request, line)
    request.settle(NOT_STORED, f"compiled in less than {line['a'][1]:g} s")


def _too_small(request: _Request, line: dict[str, Any]) -> None:
    request.settle(NOT_STORED, f"smaller than {line['a'][2]:.0f} bytes")


def _not_written(reason: str) -> Callable[[_Request, dict[str, Any]], None]:
    def act(request: _Request, line: dict[str, Any]) -> None:
        if request.missed_at is not None:
            request.seconds = line["t"] - request.missed_at  # JAX names no seconds here
        request.settle(NOT_STORED, reason)

    return act


def _writing(request: _Request, line: dict[str, Any]) -> None:
    if line.get("present"):
        request.settle(NOT_STORED, request.unreadable or "an entry with this key was there already")


def _unreadable(request: _Request, line: dict[str, Any]) -> None:
    request.unreadable = f"the cache could not be read: {_cause(line)}"


def _write_failed(request: _Request, line: dict[str, Any]) -> None:
    request.fail(f"the write failed: {_cause(line)}")


def _refused(request: _Request, key: str, reason: str) -> None:
    if request.outcome == STORED or request.key == key:  # else it is a copy of what is hit just now
        request.fail(reason)


def _too_large(request: _Request, line: dict[str, Any]) -> None:
    del line
    request.fail("larger than the cache may grow")


def _waiting(request: _Request, line: dict[str, Any]) -> None:
    del line
    request.settle(NOT_STORED, "another process of the job compiles it and shares it")


def _text(line: dict[str, Any], index: int) -> str:
    return str(line["a"][index]) if index < len(line["a"]) else ""


def _cause(line: dict[str, Any]) -> str:
    """The exception in ``Error reading … for 'name': Type: text: 'path'`` without the path, which differs each time."""
    return str(line["m"]).partition("': ")[2].partition(": '")[0]


_MESSAGES: Final[dict[str, Callable[[_Request, dict[str, Any]], None]]] = {
    "Persistent compilation cache hit": _hit,
    "PERSISTENT COMPILATION CACHE MISS": _miss,
    "compile_or_get_cached: unable to generate cache key": _no_key,
    "get_executable_and_time: cache is disabled": _no_directory,
    "_get_cache: Unsupported runtime": _no_runtime,
    "'%s' took at least": _compiled,
    "Not writing persistent cache entry for '%s' because it took": _too_fast,
    "Not writing persistent cache entry for '%s' because it uses host": _not_written("it calls back to the host"),
    "Not writing persistent cache entry since process_id": _not_written("only process 0 writes"),
    "Not writing persistent cache entry with key %r since its size": _too_small,
    "Not writing persistent cache entry with key %r since cache": _no_directory,
    "Writing": _writing,
    "Waiting for module": _waiting,
    "Error reading": _unreadable,
    "Error writing": _write_failed,
    "Cache value for key": _too_large,
}
