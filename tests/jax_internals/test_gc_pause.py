"""Garbage collection waits for all threads that put it off, and is afterwards as it was before the first."""

import gc
import os
import re
import subprocess
import sys
import threading
import time
from _thread import allocate_lock
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

import jcache as package
from jcache.jax_internals.gc_pause import collector, start_thread


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    assert gc.isenabled()
    yield
    assert gc.isenabled()


def test_it_waits_and_goes_on() -> None:
    """Putting it off twice is putting it off once, and letting it go on twice is no error."""
    for _ in range(2):
        collector.put_off()
        collector.put_off()
        assert not gc.isenabled()
        collector.go_on()
        assert gc.isenabled()
        collector.go_on()


def test_who_has_switched_it_off_finds_it_off() -> None:
    """It is not switched on for a program that does without."""
    gc.disable()
    try:
        collector.put_off()
        collector.go_on()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_it_waits_for_the_outermost() -> None:
    """What is done meanwhile and has it wait, too, does not let it go on."""
    with collector.waits():
        with collector.waits():
            assert not gc.isenabled()
        assert not gc.isenabled()
    with pytest.raises(ValueError, match="whatever"), collector.waits():
        raise ValueError("whatever")


def test_the_last_thread_lets_it_go_on() -> None:
    """While another thread still puts it off, it waits."""
    begun, end = threading.Event(), threading.Event()

    def other() -> None:
        collector.put_off()
        begun.set()
        end.wait(120)
        collector.go_on()

    thread = threading.Thread(target=other)
    collector.put_off()
    thread.start()
    assert begun.wait(120)
    collector.go_on()
    assert not gc.isenabled()
    end.set()
    thread.join()
    assert gc.isenabled()


FORKING = """
import gc, os, threading
from jcache.jax_internals.gc_pause import collector
begun, end = threading.Event(), threading.Event()

def other():
    collector.put_off()
    begun.set()
    end.wait(120)

thread = threading.Thread(target=other, daemon=True)
thread.start()
begun.wait(120)
child = os.fork()
if not child:
    found = gc.isenabled()
    collector.put_off()
    collector.go_on()
    os._exit(10 * found + gc.isenabled())
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), gc.isenabled())
end.set()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="without fork")
def test_a_forked_child_has_its_own() -> None:
    """What other threads of the parent put off, nobody would let go on in the child."""
    done = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["11", "False"]


class Garbage:
    """In a cycle with itself; notes in which thread it ends."""

    ended: ClassVar[list[int]] = []

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        self.ended.append(threading.get_ident())


@pytest.mark.parametrize("fails", [False, True])
def test_no_finalizer_of_the_program_runs_in_a_thread_of_ours(fails: bool) -> None:
    """Although each object that is made anywhere would start a collection, and the program waits meanwhile."""
    begin, done, before = allocate_lock(), allocate_lock(), gc.get_threshold()
    made: list[object] = []
    done.acquire()

    def work() -> None:
        made.extend([[]] for _ in range(1000))
        done.release()
        if fails:
            raise ValueError("of no interest")

    Garbage.ended.clear()
    gc.collect()
    try:
        for _ in range(20):
            gc.disable()
            begin.acquire()
            Garbage()
            gc.set_threshold(1)
            start_thread(work, after=1, sleep=lambda _: begin.acquire())
            gc.enable()  # from here on this thread makes no object
            begin.release()
            done.acquire()
            while not gc.isenabled():
                time.sleep(0.001)
            begin.release()
            gc.collect()
    finally:
        gc.enable()
        gc.set_threshold(*before)
    assert len(Garbage.ended) == 20 and set(Garbage.ended) == {threading.get_ident()}


def test_every_thread_in_a_program_is_started_so() -> None:
    """No module that a program uses starts one otherwise; the others are commands of jcache's, and their processes."""
    src = Path(package.__file__).parent
    commands = {"cli", "shipping", "verify", "admin"}
    elsewhere = {"runs/launch.py", "runtime/checked_reads.py"}  # in the process of `jcache run`
    starting = re.compile(r"threading\.(Thread|Timer)\(|Executor\(|start_new_thread\(|import (Thread|Timer)\b")
    found = {str(path.relative_to(src)) for path in src.rglob("*.py") if starting.search(path.read_text())}
    assert {name for name in found if name.split("/")[0] not in commands} - elsewhere == {"jax_internals/gc_pause.py"}
