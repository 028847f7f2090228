"""Which code of the user's runs: told by ``sys.monitoring``, and on Python 3.11 by profiling.

A recorder hears of its own thread and of threads that have begun since, not of those that were there before.
"""

# ruff: noqa: ANN401 - sys.monitoring is new, and a profiler may be anything

import sys
import threading
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any, Final

from jcache.fingerprint import origins

Namespace = dict[str, Any]
_FREE_TOOLS: Final = (4, 3, 5, 2, 1, 0)


class Recorder:
    """Collects the code of the user's that starts between `begin` and `end`, with its globals."""

    def __init__(self) -> None:
        self.seen: dict[int, tuple[CodeType, Namespace]] = {}
        self._others = frozenset(threading.enumerate()) - {threading.current_thread()}  # numbers are used again
        self._before: Any = None

    def hears(self) -> bool:
        """Whether it hears of the thread in which this is asked."""
        return threading.current_thread() not in self._others

    def note(self, frame: FrameType) -> None:
        """Takes down code that has started, but for statements that a library has put together itself."""
        code = frame.f_code
        if id(code) not in self.seen and not _is_made_by_library(frame):
            self.seen[id(code)] = code, frame.f_globals

    def begin(self) -> str | None:
        """Starts recording; returns why not, where it cannot."""
        return _monitor.add(self) if sys.version_info >= (3, 12) else self._begin_profiling()

    def end(self) -> None:
        """Stops recording."""
        if sys.version_info >= (3, 12):
            _monitor.remove(self)
            return
        _new_threads.remove(self)
        if sys.getprofile() == self._profile:
            sys.setprofile(self._before)

    def _begin_profiling(self) -> str | None:
        before = sys.getprofile()
        if before is not None and not isinstance(before, FunctionType | MethodType):
            return "a profiler is running, and Python 3.11 has room for one"
        self._before = before
        _new_threads.add(self)
        sys.setprofile(self._profile)
        return None

    def _profile(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and _is_users(frame.f_code):
            self.note(frame)
        if self._before is not None:
            self._before(frame, event, argument)


def _is_users(code: CodeType) -> bool:
    return not origins.of_path(code.co_filename)  # nor is it where a file is not known


def _is_made_by_library(frame: FrameType) -> bool:
    """Whether it runs statements of no file for an installed library, whose version says what they are."""
    code, caller = frame.f_code, frame.f_back
    if code.co_name != "<module>" or origins.of_path(code.co_filename) is not None or caller is None:
        return False
    return origins.of_path(caller.f_code.co_filename) not in {None, origins.USER, origins.STDLIB, origins.OURS}


class _NewThreads:
    """What profiles threads that begin while anything is recorded."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._active: tuple[Recorder, ...] = ()
        self._before: Any = None

    def add(self, recorder: Recorder) -> None:
        with self._lock:
            if not self._active:
                self._before = threading.getprofile()
                threading.setprofile(self._profile)
            self._active = (*self._active, recorder)

    def remove(self, recorder: Recorder) -> None:
        with self._lock:
            self._active = tuple(each for each in self._active if each is not recorder)
            if not self._active and threading.getprofile() == self._profile:
                threading.setprofile(self._before)

    def _profile(self, frame: FrameType, event: str, argument: Any) -> None:
        active, before = self._active, self._before
        if not active and before is None:
            sys.setprofile(None)  # in a thread that has outlived the recording
            return
        if event == "call" and _is_users(frame.f_code):
            for recorder in active:
                if recorder.hears():
                    recorder.note(frame)
        if before is not None:
            before(frame, event, argument)


class _Monitor:
    """The one tool of ``sys.monitoring`` that all recorders share."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._active: tuple[Recorder, ...] = ()
        self._tool: int | None = None

    def add(self, recorder: Recorder) -> str | None:
        with self._lock:
            if self._tool is None and not self._take():
                return "all tools of sys.monitoring are in use"
            self._active = (*self._active, recorder)
            _monitoring().restart_events()  # what was heard of already is news to this one
        return None

    def remove(self, recorder: Recorder) -> None:
        with self._lock:
            self._active = tuple(each for each in self._active if each is not recorder)
            if not self._active and self._tool is not None:
                monitoring = _monitoring()
                monitoring.set_events(self._tool, 0)
                monitoring.register_callback(self._tool, monitoring.events.PY_START, None)
                monitoring.free_tool_id(self._tool)
                self._tool = None

    def _take(self) -> bool:
        monitoring = _monitoring()
        for tool in _FREE_TOOLS:
            try:
                monitoring.use_tool_id(tool, "jcache")
            except ValueError:
                continue
            self._tool = tool
            monitoring.register_callback(tool, monitoring.events.PY_START, self._started)
            monitoring.set_events(tool, monitoring.events.PY_START)
            return True
        return False

    def _started(self, code: CodeType, offset: int) -> Any:
        """Hears of code that starts; goes on hearing of it as long as some recorder has not."""
        disable = _monitoring().DISABLE
        if not _is_users(code):
            return disable
        active = self._active
        for recorder in active:
            if recorder.hears():
                recorder.note(sys._getframe(1))
        return disable if all(id(code) in recorder.seen for recorder in active) else None


def _monitoring() -> Any:
    return vars(sys)["monitoring"]


_monitor: Final = _Monitor()
_new_threads: Final = _NewThreads()
