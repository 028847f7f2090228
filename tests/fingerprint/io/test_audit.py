"""Blocks hear what Python does, and nothing stays replaced after the last of them."""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from jcache.fingerprint.io.reads import Reads
from tests.helpers.jax_programs import run
from tests.helpers.reads import SAY, WATCH, reads_of


def test_the_last_of_many_blocks_hears_what_the_first_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.13 loses count of so many changes of a class."""
    monkeypatch.setenv("RATE", "0.5")
    for how in (lambda: os.environ["RATE"], lambda: os.getenv("RATE"), lambda: "RATE" in os.environ):
        assert all(reads_of(how).parts == {"environment RATE": "'0.5'"} for _ in range(200))


def test_nothing_stays_replaced() -> None:
    """After the last block, Python's own functions are in their places, in whatever order blocks of threads end."""
    places: list[tuple[type, str]] = [(type(os.environ), "__len__"), (threading.Thread, "start")]
    before = [getattr(*place) for place in places]
    first, second = Reads(), Reads()
    first.__enter__()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(second.__enter__).result()
        first.__exit__(None, None, None)
        assert getattr(*places[0]) is not before[0]
        pool.submit(second.__exit__, None, None, None).result()
    assert [getattr(*place) for place in places] == before


def test_what_cannot_be_watched_is_a_reason() -> None:
    """Where another audit hook refuses ours, or the environment is not Python's, nothing built may be stored."""
    refusing = (
        "def refuse(event, args):\n    if event == 'sys.addaudithook': raise RuntimeError\nsys.addaudithook(refuse)\n"
    )
    replaced = "os.environ = dict(os.environ)\n"
    for change in (refusing, replaced):
        said = run(WATCH + change + "with Reads() as reads: os.environ.get('X')" + SAY)
        assert "cannot be watched" in said.value[1]


def test_events_of_a_program_with_other_arguments_raise_nothing() -> None:
    """An audit event of the program's own that looks like one of Python's stops nothing, and is a reason."""
    assert "could not be watched" in str(reads_of(lambda: sys.audit("open", "only one")).reason)
