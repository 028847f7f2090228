"""Read the recorder's lines of one process, from a file or in the process itself, into a `Recording`.

``recorder/sitecustomize.py`` has the grammar of the lines. On each thread they come in the order of JAX's own
``compile_or_get_cached`` (jax 0.4.31 to 0.12):

    request, hit message, hit event, seconds saved, seconds of retrieval, end of compile
    request, miss message, one or more messages of why (not) written, written event, write, end of compile
    end of compile                                                     a bypass: nothing was looked up

jcache adds lines of its own (`jcache.runs.observers`). Its cache logs that an entry is damaged when JAX looks it up,
and why it did not store an entry when JAX puts it. `jcache.jit` logs the outcome of each call that JAX traces or would
have traced, and `jcache.GraphCache` the outcome of each call. A compilation inside another one (of a custom
partitioner, for example) nests, and so do the durations.
"""

import json
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from jcache.runs.calls import BYPASSED, HIT, NOT_STORED, STORED, GraphCalls, TraceCalls
from jcache.runs.key_lines import KEY_EVENTS, KeyLines
from jcache.runs.log_messages import ABSENT_IN_ANOTHER, CompileRequest, Line, handler_of, no_key
from jcache.runs.remote_report import FetchedEntries
from jcache.runs.spans import Spans

_CACHE_EVENTS: Final = "/jax/compilation_cache/"
_COMPILE_EVENTS: Final = "/jax/core/compile/"
_PHASES: Final = {
    f"{_COMPILE_EVENTS}jaxpr_trace_duration": "trace",
    f"{_COMPILE_EVENTS}jaxpr_to_mlir_module_duration": "lower",
    f"{_COMPILE_EVENTS}backend_compile_duration": "compile",
}
_NUMBER: Final = (int, float)
_FIELD_TYPES: Final[dict[object, dict[str, type | tuple[type, ...]]]] = {
    "start": {"jax": str, "jaxlib": str, "cache": str},
    "event": {"th": int, "name": str},
    "log": {"th": int, "m": str, "a": list, "t": _NUMBER},
    "time": {"th": int, "name": str, "s": _NUMBER, "t": _NUMBER},
    "directory": {"th": int, "name": str},
    "not_stored": {"th": int, "key": str, "reason": str},
    "damaged": {"th": int, "reason": str},
    "absent": {"th": int, "key": str},
    "path_key": {"th": int, "key": str, "instead": str},
    "process": {"th": int, "host": str, "rank": int},
    "options": {"th": int, "id": str, "values": dict},
    "value": {"th": int, "part": str, "hash": str, "value": list},
    "parts": {"th": int, "id": str, "parts": dict},
    "key": {"th": int, "key": str, "computation": str, "parts": str, "options": str},
    "trace": {"th": int},
    "compared": {"th": int, "same": bool},
    "graph": {"th": int},
    "fetched": {"th": int, "kind": str, "bytes": int, "url": str},
}
_BYPASS_REASONS: Final = {
    "disabled": "the compilation cache is disabled",
    "used": "it was compiled without a look-up",
    "": "this backend cannot serialize executables",
}


class Program(NamedTuple):
    """An executable that a run requested.

    Attributes:
        key: key of the executable; None if it has none.
        name: name of the function; None if it is not known.
        outcome: ``hit``, ``stored``, ``not_stored`` or ``bypassed``, as in `jcache.runs.report`.
        reason: the reason of the outcome; None if there is none.
        seconds: the time of its retrieval for a hit, of its compilation otherwise; None if it is not known.
        jax_build_seconds: for a hit, the whole seconds of compilation that JAX stored in the entry.
        directory: the cache directory in which it was looked up; None if it is not known.
        has_path_key: whether it was looked up under a key that depends on the path of a directory, instead of the key
            that does not.
    """

    key: str | None
    name: str | None
    outcome: str
    reason: str | None
    seconds: float | None
    jax_build_seconds: float | None = None
    directory: str | None = None
    has_path_key: bool = False


class Recording:
    """The use of JAX's cache by one process.

    Attributes:
        jax, jaxlib: the versions; empty if the process does not use JAX.
        platform: JAX's default platform; empty if it is not known.
        cache: ``used`` or ``disabled``; empty until JAX has decided.
        programs: the executables that were requested.
        traces, graphs: the calls for traces and for graphs.
        fetched: the entries that came from a store.
        path_keys: keys that depend on a path and were tried, of executables that are being compiled.
        seconds: the total time of each phase.
        pid: number of the process; 0 if it is not known.
        keys: what the keys of the executables were made of.
        front_seconds: the time of tracing and of lowering, for each of the programs.
    """

    jax: str = ""
    jaxlib: str = ""
    platform: str = ""
    cache: str = ""
    pid: int = 0

    def __init__(self) -> None:
        self.programs: list[Program] = []
        self.front_seconds: list[tuple[float, float]] = []
        self.keys = KeyLines()
        self.traces = TraceCalls()
        self.graphs = GraphCalls()
        self.fetched = FetchedEntries()
        self.path_keys: set[str] = set()
        self.seconds = dict.fromkeys((*_PHASES.values(), "retrieve"), 0.0)


class _ThreadState:
    """The compilations and time spans of one thread."""

    def __init__(self) -> None:
        self.requests: list[CompileRequest] = []
        self.front = {"trace": 0.0, "lower": 0.0}  # seconds since the last program
        self.spans = Spans()


class LogReader:
    """Makes a recording from the lines of one process, which come one by one in their order."""

    def __init__(self) -> None:
        self.recording = Recording()
        self._threads: dict[int, _ThreadState] = {}
        self._directory: str | None = None  # of JAX's cache

    def feed(self, line: Line) -> None:
        """Read one line; ignore a malformed one."""
        if not _is_well_formed(line):
            return
        if line["e"] == "start":
            recording = self.recording
            recording.jax, recording.jaxlib, recording.cache = line["jax"], line["jaxlib"], line["cache"]
            recording.pid = line["pid"] if isinstance(line.get("pid"), int) else 0
            self._directory = str(line.get("directory") or "") or None
            return
        if line["e"] in KEY_EVENTS:
            self.recording.keys.add(line)
            return
        thread = self._threads.get(line["th"])
        if thread is None:
            thread = self._threads[line["th"]] = _ThreadState()
        if line["e"] == "event":
            _event(self.recording, thread, line["name"].removeprefix(_CACHE_EVENTS), self._directory)
        elif line["e"] == "log":
            _message(thread, line)
        elif line["e"] == "time":
            _duration(self.recording, thread, line)
        elif line["e"] == "directory":
            self._directory = line["name"] or None
        else:
            _jcache_line(self.recording, thread, line)

    def end(self) -> Recording:
        """Return the recording of a process that has ended; compilations in progress end with it."""
        for thread in self._threads.values():
            while thread.requests:
                _finish(self.recording, thread, None)
        return self.recording


def _is_well_formed(line: Line) -> bool:
    """Return whether a line has all fields of its event, of the right types and finite: it may come from a file."""
    event = line.get("e")
    needed = _FIELD_TYPES.get(event) if isinstance(event, str) else None
    if needed is None:
        return False
    values = [line.get(name) for name in needed]
    are_typed = all(map(isinstance, values, needed.values()))
    return are_typed and all(value - value == 0 for value in values if isinstance(value, float))


def read_all(directory: Path) -> list[Recording]:
    """Return the recordings of the processes of a run, from the directory of their logs, complete or torn."""
    return [read(path) for path in sorted(directory.glob("*.jsonl"))]


def read(path: Path) -> Recording:
    """Return the recording in one file; ignore torn and malformed lines."""
    reader = LogReader()
    with path.open("rb") as file:
        for text in file:
            try:
                line = json.loads(text)
            except ValueError:
                continue  # a process killed in the middle of a write, or a full disk
            if isinstance(line, dict):
                reader.feed(line)
    return reader.end()


def _jcache_line(recording: Recording, thread: _ThreadState, line: Line) -> None:
    """Read a line that jcache itself logged in the program."""
    if line["e"] == "trace":
        recording.traces.add(line)
    elif line["e"] == "compared":
        recording.traces.compare(same=line["same"], name=line.get("name"), why=line.get("why"))
    elif line["e"] == "graph":
        recording.graphs.add(line)
    elif line["e"] == "fetched":
        recording.fetched.add(line["kind"], line["bytes"], line["url"])
    elif line["e"] == "path_key":
        recording.path_keys.add(line["key"])
        recording.keys.take_over(line["key"], line["instead"])
    elif thread.requests and line["e"] == "not_stored":
        thread.requests[-1].refuse(line["key"], line["reason"])
    elif thread.requests and line["e"] == "damaged":
        thread.requests[-1].lookup_failure = f"the entry was damaged: {line['reason']}"
    elif thread.requests and line["e"] == "absent":
        thread.requests[-1].lookup_failure = ABSENT_IN_ANOTHER


def _event(recording: Recording, thread: _ThreadState, name: str, directory: str | None) -> None:
    if name == "compile_requests_use_cache":
        if thread.requests and thread.requests[-1].outcome is not None:
            _finish(recording, thread, None)  # JAX did not announce its end: it is not nested
        thread.requests.append(CompileRequest())
        thread.requests[-1].directory = directory
    elif name in ("task_disabled_cache", "tasks_using_cache"):
        recording.cache = "disabled" if name == "task_disabled_cache" else "used"
    elif thread.requests and name == "cache_hits":
        thread.requests[-1].settle(HIT)
    elif thread.requests and name == "cache_misses":
        thread.requests[-1].settle(STORED)


def _duration(recording: Recording, thread: _ThreadState, line: Line) -> None:
    request = thread.requests[-1] if thread.requests else None
    seconds = line["s"]
    phase = _PHASES.get(line["name"])
    if phase is not None:
        own = thread.spans.own_seconds(line["t"], seconds)
        recording.seconds[phase] += own
        if phase in thread.front:
            thread.front[phase] += own
        if phase == "compile":
            recording.platform = str(line.get("platform", recording.platform))
            _end_of_compile(recording, thread, str(line.get("fun") or "") or None, own)
    elif request is not None and line["name"] == f"{_CACHE_EVENTS}compile_time_saved_sec":
        request.saved_seconds = seconds
    elif request is not None and line["name"] == f"{_CACHE_EVENTS}cache_retrieval_time_sec":
        request.seconds = seconds
        recording.seconds["retrieve"] += seconds


def _end_of_compile(recording: Recording, thread: _ThreadState, function: str | None, seconds: float) -> None:
    if thread.requests:
        _finish(recording, thread, seconds)
    else:
        _add(recording, thread, Program(None, function, BYPASSED, _BYPASS_REASONS.get(recording.cache), seconds))


def _add(recording: Recording, thread: _ThreadState, program: Program) -> None:
    recording.programs.append(program)
    recording.front_seconds.append((thread.front["trace"], thread.front["lower"]))
    thread.front = dict.fromkeys(thread.front, 0.0)


def _finish(recording: Recording, thread: _ThreadState, seconds: float | None) -> None:
    """End the last request of a thread."""
    request = thread.requests.pop()
    if request.lookup_failure is not None:  # under jax_raise_persistent_cache_errors: else JAX says what comes after it
        request.settle(NOT_STORED, request.lookup_failure)
    if seconds is None:  # jax 0.4.31 announces no end of a compilation that raises
        request.settle(NOT_STORED, "its compilation failed, or the program ended meanwhile")
    request.settle(NOT_STORED, "its compilation failed, or JAX gave no reason")
    outcome = request.outcome or NOT_STORED
    if outcome == STORED and request.lookup_failure:
        request.reason = request.lookup_failure
    built = request.saved_seconds + request.seconds if outcome == HIT and request.seconds is not None else None
    own = request.seconds if request.seconds is not None else seconds
    where = None if outcome == BYPASSED else request.directory
    has_path_key = request.key in recording.path_keys
    recording.path_keys.discard(request.key or "")
    program = Program(request.key, request.name, outcome, request.reason, own, built, where, has_path_key)
    _add(recording, thread, program)


def _message(thread: _ThreadState, line: Line) -> None:
    """Apply a message of JAX to the executable that this thread is compiling."""
    act = handler_of(line["m"])
    if act is None:
        return
    if act is no_key and (not thread.requests or thread.requests[-1].name is not None):
        thread.requests.append(CompileRequest())  # jax >= 0.5 makes the key before it announces the request
    with suppress(IndexError, TypeError, ValueError):  # a future JAX may give other arguments
        act(thread.requests[-1], line)  # IndexError also if this thread compiles nothing
