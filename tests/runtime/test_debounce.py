"""Delayed actions that run once."""

import gc
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from jcache.runtime.debounce import Debouncer
from tests.helpers.waiting import LIMIT_S


class Moments:
    """Delays that end when the test says so."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self._over = threading.Semaphore(0)

    def sleep(self, seconds: float) -> None:
        """Lets one pass."""
        self.asked.append(seconds)
        assert self._over.acquire(timeout=LIMIT_S)

    def were_asked(self, times: int) -> bool:
        """Return whether so many delays were requested."""
        return len(self.asked) == times

    def pass_(self) -> None:
        """Lets one be over."""
        self._over.release()


@pytest.fixture
def moments() -> Iterator[Moments]:
    made = Moments()
    yield made
    for _ in made.asked:
        made.pass_()


class Owner:
    """Counts the actions."""

    def __init__(self, sleep: Callable[[float], object], *, fails: bool = False) -> None:
        self.done: list[int] = []
        self.happened = threading.Semaphore(0)
        self.fails = fails
        self.debouncer = Debouncer(self.act, sleep=sleep)

    def act(self) -> None:
        self.done.append(threading.get_ident())
        self.happened.release()
        if self.fails:
            raise ValueError("of no interest")


def wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.001)


def test_it_is_done_once_in_a_thread_of_its_own(moments: Moments) -> None:
    """However often it is requested, the action runs once in a separate thread, and again after a later request."""
    owner = Owner(moments.sleep, fails=True)
    for number in (1, 2):
        for _ in range(3):
            owner.debouncer.schedule(0.05)
        wait_until(partial(moments.were_asked, number))
        assert len(owner.done) == number - 1
        moments.pass_()
        assert owner.happened.acquire(timeout=LIMIT_S)
    assert moments.asked == [0.05, 0.05] and threading.get_ident() not in owner.done


def test_it_keeps_nothing_alive(moments: Moments) -> None:
    """A pending action keeps no object alive, and does nothing once its object is gone."""
    owner = Owner(moments.sleep)
    done, debouncer = owner.done, owner.debouncer
    debouncer.schedule(0.1)
    del owner
    gc.collect()
    moments.pass_()
    wait_until(lambda: debouncer._scheduled_by_pid is None)
    assert done == []


def test_the_moment_passes_by_itself() -> None:
    """Without further requests, the delay ends and the action runs."""
    owner = Owner(time.sleep)
    owner.debouncer.schedule(0.01)
    assert owner.happened.acquire(timeout=LIMIT_S)
