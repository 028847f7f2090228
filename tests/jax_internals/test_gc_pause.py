"""Garbage collection is off while any thread pauses it, and is as before when the last pause ends."""

import gc
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import jcache as package
from jcache.jax_internals.gc_pause import collector
from tests.helpers.waiting import until


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    until(gc.isenabled)  # a thread of another test may end
    yield
    until(gc.isenabled)


def test_it_waits_and_goes_on() -> None:
    """Pausing twice is the same as once, and resuming twice is no error."""
    for _ in range(2):
        collector.put_off()
        collector.put_off()
        assert not gc.isenabled()
        collector.go_on()
        assert gc.isenabled()
        collector.go_on()


AGING = """
import gc
from jcache.jax_internals.gc_pause import _MOST_AGES, collector

gc.collect()
told = []
for _ in range(_MOST_AGES + 1):
    collector.put_off()
    made = [[] for _ in range(2_000)]
    collector.go_on()
    told.append(any(each is made for each in gc.get_objects(generation=2)))
print(all(told[:-1]), told[-1], gc.get_freeze_count() < 1000)
"""


def test_what_a_look_up_makes_is_old() -> None:
    """So that no collection looks at it when the pause ends; only the first times, as garbage may be among it."""
    done = subprocess.run([sys.executable, "-c", AGING], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "True"]


def test_who_has_switched_it_off_finds_it_off() -> None:
    """A program that has switched the collector off finds it off afterwards."""
    gc.disable()
    try:
        collector.put_off()
        collector.go_on()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_it_waits_for_the_outermost() -> None:
    """A pause inside another one does not end the outer one."""
    with collector.waits():
        with collector.waits():
            assert not gc.isenabled()
        assert not gc.isenabled()
    with pytest.raises(ValueError, match="whatever"), collector.waits():
        raise ValueError("whatever")


def test_the_last_thread_lets_it_go_on() -> None:
    """The collector stays off while another thread pauses it."""
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


IMPORTING = """
import gc, json, sys
from jcache.jax_internals.gc_pause import collector

class Garbage:
    ended = 0
    def __init__(self): self.me = self
    def __del__(self): Garbage.ended += 1

def is_old(thing):
    return any(each is thing for each in gc.get_objects(generation=2))

gc.collect()
before = sys.argv[1]
if before == "frozen": gc.freeze()
if before == "off": gc.disable()
counts = gc.get_freeze_count()
with collector.waits_for_imports():
    kept = [[number] for number in range(int(sys.argv[2]))]
    Garbage()
told = [is_old(kept[0]), gc.get_freeze_count() == counts or counts < 1000]  # Python 3.12 freezes some at its start
gc.collect()
print(json.dumps([*told, Garbage.ended, gc.isenabled()]))
"""


@pytest.mark.parametrize(
    ("before", "count", "is_old"),
    [("on", 50_000, True), ("on", 5_000, False), ("frozen", 50_000, False), ("off", 50_000, False)],
)
def test_what_an_import_makes_is_old(before: str, count: int, is_old: bool) -> None:
    """Many objects that are made while modules are imported are in the oldest generation afterwards, garbage among them
    is freed by a full collection, and nothing moves where there are few, or the program has frozen objects itself or
    switched the collector off.
    """
    code = [sys.executable, "-c", IMPORTING, before, str(count)]
    done = subprocess.run(code, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [is_old, True, 1, before != "off"]


OF_JAX = """
import gc, json, sys
from jcache.jax_internals.gc_pause import collector

class Own:
    pass

before = sys.argv[1]
if before == "an object of the program": kept = Own()
if before == "many objects": kept = [[] for _ in range(70_000)]
if before == "JAX": sys.modules["jax"] = sys
if before == "off": gc.disable()
with collector.waits_for_imports(of_jax=True):
    made = [[] for _ in range(50_000)]
later = [[]]
later.append(later)
del later
print(json.dumps([gc.get_freeze_count() >= 50_000, any(each is made for each in gc.get_objects()), gc.collect() > 0]))
"""


@pytest.mark.parametrize("before", ["nothing", "numpy", "an object of the program", "many objects", "JAX", "off"])
def test_what_the_import_of_jax_makes_is_frozen(before: str) -> None:
    """If no object of the program exists before, what is made while JAX is imported is never looked at again; later
    garbage is freed. Else a program's garbage could stay for good, so nothing is frozen.
    """
    program = f"import numpy\n{OF_JAX}" if before == "numpy" else OF_JAX
    done = subprocess.run([sys.executable, "-c", program, before], capture_output=True, text=True, check=True)
    is_frozen = before in {"nothing", "numpy"}
    assert json.loads(done.stdout) == [is_frozen, not is_frozen, True]


FORKING = """
import gc, os, threading
from jcache.jax_internals.gc_pause import collector
from tests.helpers.waiting import until
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
    """In a forked child, the pauses of the parent's other threads do not count."""
    done = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["11", "False"]


FINALIZERS = """
import gc, json, sys, threading, time
from _thread import allocate_lock
from jcache.jax_internals.gc_pause import start_thread

class Garbage:  # in a cycle with itself; it records the thread in which it is finalized
    ended = []
    def __init__(self): self.me = self
    def __del__(self): self.ended.append(threading.get_ident())

fails = sys.argv[1] == "True"
begin, done, made = allocate_lock(), allocate_lock(), []
done.acquire()

def work():
    made.extend([[]] for _ in range(1000))
    done.release()
    if fails:
        raise ValueError("of no interest")

gc.collect()
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
print(json.dumps([len(Garbage.ended), set(Garbage.ended) == {threading.get_ident()}]))
"""


@pytest.mark.parametrize("fails", [False, True])
def test_no_finalizer_of_the_program_runs_in_a_thread_of_ours(fails: bool) -> None:
    """No finalizer of the program runs in a thread of jcache, even if every allocation would start a collection."""
    done = subprocess.run([sys.executable, "-c", FINALIZERS, str(fails)], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [20, True]


def test_every_thread_in_a_program_is_started_so() -> None:
    """Modules that a program uses start threads only with `start_thread`; others belong to commands and their
    processes.
    """
    src = Path(package.__file__).parent
    commands = {"cli", "shipping", "verify", "admin"}
    elsewhere = {
        "runs/launch.py",
        "runtime/checked_reads.py",
        "runtime/prefetch.py",
        "remote/transfer.py",
    }  # in processes of commands
    starting = re.compile(r"threading\.(Thread|Timer)\(|Executor\(|start_new_thread\(|import (Thread|Timer)\b")
    found = {str(path.relative_to(src)) for path in src.rglob("*.py") if starting.search(path.read_text())}
    assert {name for name in found if name.split("/")[0] not in commands} - elsewhere == {"jax_internals/gc_pause.py"}
