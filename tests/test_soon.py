"""Tests for doing something a moment later."""

import gc
import threading
import time

from jcache.soon import Soon


class Owner:
    """Counts what is done."""

    def __init__(self, *, fails: bool = False) -> None:
        self.done: list[str] = []
        self.happened = threading.Event()
        self.fails = fails
        self.soon = Soon(self.act)

    def act(self) -> None:
        self.done.append(threading.current_thread().name)
        self.happened.set()
        if self.fails:
            raise ValueError("of no interest")


def test_it_is_done_once_in_a_thread_of_its_own() -> None:
    """However often it was asked for meanwhile; and again when it is asked for again, even after a failure."""
    owner = Owner(fails=True)
    for _ in range(3):
        owner.soon.ask(0.05)
    assert owner.done == []
    assert owner.happened.wait(10)
    time.sleep(0.2)
    assert len(owner.done) == 1 and owner.done[0] != threading.current_thread().name
    owner.happened.clear()
    owner.soon.ask(0)
    assert owner.happened.wait(10) and len(owner.done) == 2


def test_it_keeps_nothing_alive() -> None:
    """What is gone by then is not acted upon, and the thread is a daemon."""
    owner = Owner()
    done = owner.done
    owner.soon.ask(0.1)
    assert all(thread.daemon for thread in threading.enumerate() if isinstance(thread, threading.Timer))
    del owner
    gc.collect()
    time.sleep(0.3)
    assert done == []
