"""Tests for doing something a moment later."""

import gc
import threading
from collections.abc import Iterator
from typing import ClassVar

import pytest

from jcache.runtime.debounce import Soon
from tests.helpers.waiting import LIMIT_S


class Moment(threading.Timer):
    """A moment that is over when the test says so."""

    moments: ClassVar[list["Moment"]] = []

    def start(self) -> None:
        self.over = threading.Event()
        self.moments.append(self)
        super().start()

    def run(self) -> None:
        assert self.over.wait(LIMIT_S)
        self.function()

    def pass_(self) -> None:
        """Lets the moment be over, and waits until what was to be done then is done."""
        self.over.set()
        self.join(LIMIT_S)
        assert not self.is_alive()


@pytest.fixture(autouse=True)
def _moments() -> Iterator[None]:
    Moment.moments.clear()
    yield
    for moment in Moment.moments:
        moment.pass_()


class Owner:
    """Counts what is done."""

    def __init__(self, *, fails: bool = False, timer: type[threading.Timer] = Moment) -> None:
        self.done: list[str] = []
        self.happened = threading.Event()
        self.fails = fails
        self.soon = Soon(self.act, timer=timer)

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
    (first,) = Moment.moments
    assert owner.done == [] and first.interval == 0.05
    first.pass_()
    assert owner.done == [first.name] and first is not threading.current_thread()
    owner.soon.ask(0)
    _, second = Moment.moments
    second.pass_()
    assert owner.done == [first.name, second.name]


def test_it_keeps_nothing_alive() -> None:
    """What is gone by then is not acted upon, and the thread is a daemon."""
    owner = Owner()
    done = owner.done
    owner.soon.ask(0.1)
    (moment,) = Moment.moments
    assert moment.daemon
    del owner
    gc.collect()
    moment.pass_()
    assert done == []


def test_the_moment_passes_by_itself() -> None:
    """Where nobody says otherwise."""
    owner = Owner(timer=threading.Timer)
    owner.soon.ask(0.01)
    assert owner.happened.wait(LIMIT_S)
