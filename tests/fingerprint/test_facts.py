"""What a host or process tells of itself is a part of the key of code that asks for it, with its present value."""

import locale
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jcache.fingerprint import facts
from tests.helpers.fingerprints import of

HEAD = "import datetime, locale, multiprocessing as mp, os, resource, threading, time\n"
ASKED = {
    "a CPU mask": "len(os.sched_getaffinity(0))",
    "a process's name": "mp.current_process().name",
    "a process's parent": "mp.parent_process()",
    "a thread": "threading.current_thread() is threading.main_thread()",
    "a limit": "resource.getrlimit(resource.RLIMIT_NOFILE)",
    "a locale": "locale.getpreferredencoding()",
    "a fact of the system": "os.sysconf('SC_PAGE_SIZE')",
    "an hour": "datetime.datetime.fromtimestamp(1e9).hour",
    "seconds of a local time": "datetime.datetime(2020, 1, 1).timestamp()",
    "a priority": "os.getpriority(os.PRIO_PROCESS, 0)",
    "an hour of another module": "time.localtime(1e9).tm_hour",
}


def key(expression: str, directory: Path) -> str:
    return of(directory, f"{HEAD}def build(x=1): return {expression}\n").hash


def in_thread(make: Callable[[], str]) -> str:
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(make()), name="another")
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.parametrize("case", ASKED)
def test_what_code_asks_for_is_an_input(case: str, tmp_path: Path) -> None:
    """It is a part of the key, and nothing that is left to chance but where the function also tells the time."""
    made = of(tmp_path, f"{HEAD}def build(x=1): return {ASKED[case]}\n")
    assert [label for label in made.parts if label.startswith(("host ", "time zone", "day and time zone"))]
    assert not made.chance or "localtime" in ASKED[case]


def test_another_thread_has_another_key(tmp_path: Path) -> None:
    """A function that asks for its thread has a key for each name."""
    expression = ASKED["a thread"]
    keys = [key(expression, tmp_path / "a"), key(expression, tmp_path / "b")]
    keys.append(in_thread(lambda: key(expression, tmp_path / "c")))
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize("case", ["an hour", "seconds of a local time", "an hour of another module"])
def test_another_time_zone_is_another_key(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For code that asks for the local time of a moment."""
    keys: list[str] = []
    for zone in ("UTC", "UTC", "Asia/Tokyo"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        keys.append(key(ASKED[case], tmp_path / str(len(keys))))
    monkeypatch.undo()
    time.tzset()
    assert keys[0] == keys[1] != keys[2]


def test_a_smaller_cpu_mask_is_another_key(tmp_path: Path) -> None:
    """As where a job gets fewer CPUs of the same host."""
    before = os.sched_getaffinity(0)
    keys = [key(ASKED["a CPU mask"], tmp_path / "a")]
    try:
        os.sched_setaffinity(0, {min(before)})
        keys.append(key(ASKED["a CPU mask"], tmp_path / "b"))
    finally:
        os.sched_setaffinity(0, before)
    assert (len(before) == 1) == (keys[0] == keys[1])


def test_the_locale_is_told_as_it_is_set() -> None:
    """All of it, without a change."""
    assert facts.fact("locale.getlocale") == locale.setlocale(locale.LC_ALL)


def test_a_fact_that_is_not_known_is_told_as_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a host that does not know its user."""

    def fail() -> str:
        raise OSError("no user")

    monkeypatch.setattr(os, "getlogin", fail)
    assert facts.fact("os.getlogin") == "OSError('no user')"
