"""Pause garbage collection while modules are imported, while a trace is made or looked up, and in jcache's threads.

The objects that the first two allocate stay in use, so collecting would free almost none of them, and with the heap of
a large program each collection takes a tenth of a second. So afterwards they go to the oldest generation at once: the
next two collections would look at each of JAX's 160,000 objects only to move them there. Where nothing of the program
exists yet, they are frozen (``gc.freeze``): no later collection looks at them, nor those at the end of the process,
which take a tenth of a second. About a thousand of them are garbage, which is then never freed.

Python collects in any thread that allocates, and runs there the finalizers (``__del__``) of the garbage. A program's
finalizers may rely on running in a thread of the program. So jcache starts its threads in a program by `start_thread`,
which pauses collection while they work: in the whole process, since Python has no setting for one thread.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from _thread import start_new_thread
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from jcache.jax_internals.garbage import FEW_FROZEN, age_objects

_MANY: Final = 10_000  # objects; JAX's modules have far more
_MOST_BEFORE: Final = 60_000  # objects that exist before; jcache and numpy make 40,000
_WITHOUT_GARBAGE: Final = sys.stdlib_module_names | {
    "_distutils_hack", "filelock", "jcache", "ml_dtypes", "numpy", "platformdirs", "zstandard",
}  # fmt: skip
_MOST_AGES: Final = 32  # times that young objects are moved at the end of a pause: each may keep some garbage


class _ThreadState(threading.local):
    is_pausing: bool = False


class _Collector:
    """Python's collector, which is off while any thread pauses it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread = _ThreadState()
        self._count = 0  # threads that put it off
        self._ages = _MOST_AGES
        self._was_enabled = False

    def put_off(self) -> None:
        """Pause it for this thread, unless it is paused."""
        if not self._thread.is_pausing:
            with self._lock:
                self._one_more()
                self._thread.is_pausing = True

    def go_on(self) -> None:
        """End this thread's pause; the first times, what is young counts as old from now on."""
        if self._thread.is_pausing:
            self._end()
            if self._ages and gc.isenabled():
                self._ages -= 1
                age_objects()

    def _end(self) -> None:
        with self._lock:
            self._thread.is_pausing = False
            self._one_less()

    def waits_for(self, work: Callable[[], object]) -> None:
        """Do a thread's work while it is paused; exceptions of the work are lost.

        This method itself allocates nothing that can start a collection, as a ``with`` statement would.
        """
        self._lock.acquire()  # no signal interrupts a thread that is not the main one
        self._one_more()
        self._lock.release()
        try:  # noqa: SIM105
            work()
        except BaseException:  # noqa: BLE001, S110
            pass
        self._lock.acquire()
        self._one_less()
        self._lock.release()

    def _one_more(self) -> None:
        if not self._count:
            self._was_enabled = gc.isenabled()
            gc.disable()
        self._count += 1

    def _one_less(self) -> None:
        self._count -= 1
        if not self._count and self._was_enabled:
            gc.enable()

    @contextmanager
    def waits(self) -> Iterator[None]:
        """Pause it within the ``with`` block."""
        did_wait = self._thread.is_pausing
        self.put_off()
        try:
            yield
        finally:
            if not did_wait and self._thread.is_pausing:
                self._end()

    @contextmanager
    def waits_for_imports(self, *, of_jax: bool = False) -> Iterator[None]:
        """Pause it within the block, in which modules are imported; what is young then counts as old afterwards.

        A full collection frees it, if it is garbage. A program that has frozen objects itself (``gc.freeze``) keeps
        them frozen, and its generations as they are.

        Args:
            of_jax: whether the block imports JAX, unless that is imported already. If no object of the program exists
                before, all objects stay frozen.
        """
        stays_frozen = of_jax and "jax" not in sys.modules and not _has_objects_of_the_program()
        with self.waits():
            yield
            if not self._was_enabled or gc.get_count()[0] < _MANY or gc.get_freeze_count() >= FEW_FROZEN:
                return
            gc.freeze()  # all go to a generation of their own, none is looked at
            if not stays_frozen:
                gc.unfreeze()  # and from there to the oldest one

    @contextmanager
    def resumes(self) -> Iterator[None]:
        """Allow collection within the block, in a thread of `start_thread` that only waits there."""
        with self._lock:
            self._one_less()
        try:
            yield
        finally:
            with self._lock:
                self._one_more()

    def begin_in_child(self) -> None:
        """End the pauses of other threads, which do not exist in a forked child."""
        is_off, was_enabled = self._count > 0, self._was_enabled
        self.__init__()  # type: ignore[misc]  # the lock may be held for good
        if is_off and was_enabled:
            gc.enable()


def _has_objects_of_the_program() -> bool:
    """Return whether an object may exist that only a collection frees, and for which that matters.

    That is an instance of a class that is not Python's or of a package that has no such objects; or anything, if so
    many objects exist that larger libraries must have been imported.
    """
    objects = gc.get_objects()
    return len(objects) > _MOST_BEFORE or any(map(_is_of_the_program, set(map(type, objects))))


def _is_of_the_program(cls: type) -> bool:
    package = str(cls.__module__).partition(".")[0]
    return package not in _WITHOUT_GARBAGE and not package.startswith("__editable__")


collector: Final = _Collector()


def start_thread(
    work: Callable[[], object], *, after: float = 0.0, sleep: Callable[[float], object] = time.sleep
) -> None:
    """Start a thread of jcache in a program; like a daemon thread, it does not keep the process from ending.

    `threading.Thread` does not fit: it allocates before and after it calls its target.

    Args:
        work: the thread's work; its exceptions are lost.
        after: seconds that the thread waits first, without a pause of collection.
        sleep: waits for some seconds.

    Raises:
        RuntimeError: there can be no more threads.
    """
    start_new_thread(_run, (work, after, sleep))


def _run(work: Callable[[], object], after: float, sleep: Callable[[float], object]) -> None:
    if after > 0:
        sleep(after)
    collector.waits_for(work)


os.register_at_fork(after_in_child=collector.begin_in_child)
