"""One module reads the clock, so that tests can replace it."""

import ast
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest

import jcache
from jcache import clock

SOURCE = Path(jcache.__file__).parent
READS = {
    "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time",
    "process_time_ns", "thread_time", "thread_time_ns", "clock_gettime", "clock_gettime_ns", "sleep",
}  # fmt: skip
TICK_NS = 20_000_000  # the kernel counts in steps of 10 ms
ELSEWHERE = {
    "clock.py",
    "runs/recorder/sitecustomize.py",  # of the standard library only: it runs where jcache is not installed
    *(f"runs/recorder/{name}.py" for name in ("jax_cache", "key_recorder", "listener", "other_keys")),  # the same
    "jax_internals/rank_agreement.py",  # the recorder loads it, too
    "jax_internals/gc_pause.py",  # a thread that sleeps must call nothing of Python's, see `start_thread`
    "runtime/debounce.py",  # the same; tests give it a sleep of their own
}


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of jcache, by its path."""
    return {str(path.relative_to(SOURCE)): ast.parse(path.read_text()) for path in SOURCE.rglob("*.py")}


def reads(tree: ast.AST) -> set[str]:
    """Return the functions of ``time`` that a module uses to read the time or to wait."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "time":
            found.add(node.attr)
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            found.update(alias.name for alias in node.names)
    return found & READS


def test_no_other_module_reads_the_clock() -> None:
    """No other module reads the clock, except for a few listed ones with a reason."""
    assert len(modules()) > 100
    assert {name for name, tree in modules().items() if reads(tree)} == ELSEWHERE


@pytest.mark.full
def test_nobody_keeps_a_function_of_the_clock_under_another_name() -> None:
    """No module imports a function of the clock's module by name, since a test could not replace it."""
    importing = {
        name
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "jcache.clock"
    }
    assert importing == set()


def test_it_is_the_clock_of_the_system() -> None:
    """Nanoseconds since the epoch, as the system counts them."""
    before = time.time_ns()
    now = clock.now_ns()
    assert before <= now <= time.time_ns()


def test_the_other_clock_only_goes_forward() -> None:
    """The monotonic clock counts in seconds, like the system's."""
    before = time.monotonic_ns() / 1e9
    now = clock.monotonic()
    assert before <= now <= time.monotonic_ns() / 1e9


def test_no_number_meant_for_jax_is_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache asks for none of the numbers by which JAX's tests replace ``time.monotonic``."""
    monkeypatch.setattr(time, "monotonic", lambda: pytest.fail("asked for the time"))
    assert clock.monotonic() > 0


def test_the_beginning_of_a_process_is_the_systems() -> None:
    """A process knows to within a few ticks when it began, whatever it has done before it asks, and a fork its own."""
    program = """
import os, time
time.sleep(0.5)
from jcache import clock
print(clock.began_ns(), flush=True)
if os.fork() == 0:
    print(clock.began_ns(), flush=True)
    os._exit(0)
os.wait()
"""
    before = time.time_ns()
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    began, forked = map(int, told.split())
    if sys.platform == "linux":
        assert before - TICK_NS <= began <= time.time_ns() - 500_000_000
        assert began + 500_000_000 - TICK_NS <= forked <= time.time_ns() + TICK_NS


def test_a_process_of_an_unknown_beginning_is_as_old_as_its_cpu_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system does not tell when a process began, that is a time before jcache was imported."""
    monkeypatch.delattr(time, "clock_gettime_ns", raising=False)
    monkeypatch.setattr(clock, "_began", None)
    assert clock.began_ns() < time.time_ns() - time.process_time_ns() // 10


def test_waiting_is_the_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting takes the requested number of seconds."""
    asked: list[float] = []
    monkeypatch.setattr(time, "sleep", asked.append)
    clock.sleep(0.25)
    assert asked == [0.25]
