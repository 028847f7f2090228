"""The checks of many entries, in this process or in several."""

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jcache.errors import JcacheError
from jcache.findings import Damage
from jcache.layout import Kind
from jcache.verify import pool
from jcache.verify.checks import Claim
from jcache.verify.pool import Batch, check_batches, ignoring_interrupts, usable_cores
from tests.helpers.entries import add, executable, key
from tests.helpers.waiting import until

LARGE = 1 << 30  # as if there were so many bytes, so that processes are started


def batches(directory: Path, number: int, size: int = 3) -> list[Batch]:
    """Batches of sound entries, each with a torn one as its last."""
    made = []
    for n in range(number):
        claims = [Claim(Kind.EXECUTABLES, key(n * size + i)) for i in range(size)]
        for claim in claims:
            add(directory, claim.key, executable()[: None if claim is not claims[-1] else -5])
        made.append(Batch(directory, claims, 100))
    return made


@pytest.mark.parametrize(("bytes_", "processes"), [(100, None), (LARGE, 1), (LARGE, 2)])
def test_every_batch_comes_out_once(tmp_path: Path, bytes_: int, processes: int | None) -> None:
    """In this process or in several, each batch yields the results of all its entries, in order."""
    given = batches(tmp_path, 7)
    results = list(check_batches(iter(given), bytes_=bytes_, quick=False, processes=processes))
    assert sorted(batch.claims[0].key for batch, _ in results) == sorted(batch.claims[0].key for batch in given)
    for batch, checked in results:
        assert [one.claim for one in checked] == batch.claims
        assert [one.finding and one.finding.damage for one in checked] == [None, None, Damage.TORN]


def test_quick_is_passed_on(tmp_path: Path) -> None:
    """A quick check finds nothing in entries that begin correctly."""
    for processes in (1, 2):
        for _, checked in check_batches(iter(batches(tmp_path, 1)), bytes_=LARGE, quick=True, processes=processes):
            assert all(one.finding is None and not one.passed for one in checked)


def test_nothing_is_nothing(tmp_path: Path) -> None:
    """No batches, or empty ones, start no process."""
    for processes in (1, 2):
        assert not list(check_batches(iter([]), bytes_=LARGE, quick=False, processes=processes))
        empty = iter([Batch(tmp_path, [], 0)])
        assert [checked for _, checked in check_batches(empty, bytes_=0, quick=False)] == [[]]
    assert not multiprocessing.active_children()


def test_few_bytes_are_checked_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No process is started if that takes longer than the work, or if there is only one core."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(pool, "_in_processes", refuse)
    assert list(check_batches(iter(batches(tmp_path, 2)), bytes_=1000, quick=False))
    monkeypatch.setattr(pool, "usable_cores", lambda: 1)
    assert list(check_batches(iter(batches(tmp_path, 2)), bytes_=LARGE, quick=False))


def test_batches_are_asked_for_as_they_are_wanted(tmp_path: Path) -> None:
    """Only a few batches are taken ahead, so that a time limit ends the work soon."""
    taken = 0

    def lazily() -> Iterator[Batch]:
        nonlocal taken
        for batch in batches(tmp_path, 12, 1):
            taken += 1
            yield batch

    for done, _ in enumerate(check_batches(lazily(), bytes_=LARGE, quick=False, processes=2), start=1):
        assert taken <= done - 1 + 2 * 2 + 1
    assert taken == 12


def test_a_killed_process_is_said(tmp_path: Path) -> None:
    """If the system kills a process, one sentence says what to do, and no process is left behind."""

    def murderous() -> Iterator[Batch]:
        for number, batch in enumerate(batches(tmp_path, 12, 1)):
            if number == 5:
                victim = multiprocessing.active_children()[0].pid
                assert victim is not None
                os.kill(victim, signal.SIGKILL)
                until(lambda: not multiprocessing.active_children())  # who sees one dead ends the others
            yield batch

    with pytest.raises(JcacheError, match=r"was killed.*The same command"):
        list(check_batches(murderous(), bytes_=LARGE, quick=False, processes=2))
    assert not multiprocessing.active_children()


def test_who_stops_listening_leaves_no_process(tmp_path: Path) -> None:
    """If the caller stops in the middle, the processes end."""
    results = check_batches(iter(batches(tmp_path, 12, 1)), bytes_=LARGE, quick=False, processes=2)
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert not multiprocessing.active_children()


def test_the_cores_are_those_we_may_use() -> None:
    """The number of cores is at least one, and at most that of the machine."""
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)


def interrupted() -> None:
    with ignoring_interrupts():
        os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_while_processes_are_started() -> None:
    """Processes that are started inside the block ignore Ctrl-C, and the caller receives it."""
    code = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    with ignoring_interrupts():
        assert subprocess.check_output([sys.executable, "-c", code], text=True) == "True\n"
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
