"""Garbage collection waits for all threads that put it off, and is afterwards as it was before the first."""

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from jcache.jax_internals.gc_pause import collector


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
