"""JAX's lock, with real processes that hold it."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import filelock
import pytest

from jcache import clock
from jcache.errors import CannotWrite, Locked
from jcache.layout import Kind, Root
from jcache.store import locking
from jcache.store.locking import in_batches, locked, timeout_in
from tests.helpers.clocks import StoppedClock
from tests.helpers.entries import HOLD_LOCK, process
from tests.helpers.waiting import LIMIT_S

KIND = Kind.EXECUTABLES
TAKE_TURNS = """
import sys, filelock
print("ready", flush=True)
sys.stdin.readline()
with filelock.FileLock(sys.argv[1] + "/.lockfile"):
    print("had it", flush=True)
"""


def free(directory: Path) -> bool:
    """Return whether another process could take the lock now."""
    try:
        with filelock.FileLock(directory / ".lockfile", timeout=0):
            return True
    except filelock.Timeout:
        return False


def test_the_lock_is_jax_s(plain: Root) -> None:
    """While jcache holds the lock, JAX's lock cannot be taken; afterwards it can."""
    with locked(plain, KIND):
        assert not free(plain.path)
    assert free(plain.path)


def test_an_error_lets_go_of_the_lock(plain: Root) -> None:
    """The lock is free after the block, even after an error."""
    with pytest.raises(ZeroDivisionError), locked(plain, KIND):
        _ = 1 // 0
    assert free(plain.path)


@pytest.mark.parametrize("timeout", [0, 0.05])
def test_a_held_lock_is_given_up(plain: Root, timeout: float) -> None:
    """After the time-out, a held lock raises `Locked`, exit code 11, and the message names the holder."""
    with process(HOLD_LOCK, plain.path) as holder:
        with pytest.raises(Locked, match=r"try again later") as caught, locked(plain, KIND, timeout=timeout):
            pytest.fail("two held the lock at once")
        assert caught.value.exit_code == 11
        if sys.platform == "linux" and os.access("/proc/locks", os.R_OK):
            assert f"process {holder.pid} " in str(caught.value)


@pytest.mark.full
def test_who_waits_says_so_once(plain: Root) -> None:
    """After a second of waiting, one sentence names the holder; the lock is then taken as soon as it is free."""
    said: list[str] = []
    with process(HOLD_LOCK, plain.path) as holder:

        def waiting(sentence: str) -> None:
            said.append(sentence)
            assert holder.stdin
            holder.stdin.write("\n")
            holder.stdin.flush()

        with locked(plain, KIND, timeout=60, waiting=waiting):
            assert not free(plain.path)
        assert len(said) == 1
        assert said[0].startswith(f"Waiting for {plain.path / '.lockfile'}, held by ")
        if sys.platform == "linux" and os.access("/proc/locks", os.R_OK):
            assert f"process {holder.pid} " in said[0]


def test_a_lock_that_is_had_at_once_says_nothing(plain: Root) -> None:
    """A lock that is free causes no message."""
    with locked(plain, KIND, waiting=pytest.fail):
        pass


def test_a_killed_holder_holds_nothing(plain: Root) -> None:
    """The system frees the lock of a process that dies."""
    with process(HOLD_LOCK, plain.path) as holder:
        holder.kill()
        holder.wait()
        with locked(plain, KIND, timeout=LIMIT_S):
            pass


@pytest.mark.parametrize("what", ["link", "dangling link", "directory"])
def test_what_is_no_lock_is_refused(plain: Root, beyond: Path, what: str) -> None:
    """A link is not followed, whose file the lock would empty, and a directory is no lock."""
    path = plain.path / ".lockfile"
    path.mkdir() if what == "directory" else path.symlink_to(beyond / ("precious" if what == "link" else "nothing"))
    with pytest.raises(CannotWrite), locked(plain, KIND, timeout=0.1):
        pytest.fail("there is no lock to hold")


@pytest.fixture
def backed_up(plain: Root) -> Path:
    """The other name that a backup of hard links gives the lock file of a root."""
    (plain.path / ".lockfile").touch(mode=0o664)
    backup = plain.path.with_name("backup")
    os.link(plain.path / ".lockfile", backup)
    return backup


def test_a_lock_with_other_names_gets_a_file_of_its_own(plain: Root, backed_up: Path) -> None:
    """A backup of hard links stays as it is, and has no part in the lock any more."""
    before = backed_up.stat()
    with locked(plain, KIND, timeout=LIMIT_S):
        assert not free(plain.path) and not os.path.samefile(backed_up, plain.path / ".lockfile")
        assert (plain.path / ".lockfile").stat().st_mode == before.st_mode
    after = backed_up.stat()
    assert (after.st_mode, after.st_size, after.st_mtime_ns) == (before.st_mode, 0, before.st_mtime_ns)
    assert after.st_nlink == 1 and os.listdir(plain.path) in ([".lockfile"], [])  # some versions of filelock remove it


def test_a_lock_with_other_names_that_is_held_stays(plain: Root, backed_up: Path) -> None:
    """Whoever holds it goes on holding the only lock: nobody else has it, by another file, in the meantime."""
    with process(HOLD_LOCK, plain.path):
        with pytest.raises(Locked, match="other names"), locked(plain, KIND, timeout=0.05):
            pytest.fail("two held the lock at once")
        assert os.path.samefile(backed_up, plain.path / ".lockfile")


def test_one_alone_holds_a_lock_that_is_replaced(plain: Root, backed_up: Path) -> None:
    """Several who find the shared file at once have one lock in the end, and hold it in turn."""
    holders: list[int] = []
    most: list[int] = []

    def hold() -> None:
        with locked(plain, KIND, timeout=LIMIT_S):
            holders.append(1)
            most.append(len(holders))
            time.sleep(0.01)
            holders.pop()

    threads = [threading.Thread(target=hold) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 8 and backed_up.stat().st_nlink == 1


def test_a_file_with_other_names_is_no_lock(plain: Root, beyond: Path) -> None:
    """What holds bytes is somebody's, and is left alone."""
    os.link(beyond / "precious", plain.path / ".lockfile")
    with pytest.raises(CannotWrite, match="something else"), locked(plain, KIND, timeout=0.1):
        pytest.fail("there is no lock to hold")


def test_a_directory_that_is_gone(tmp_path: Path) -> None:
    """A missing directory cannot be locked, and is not made."""
    with (
        pytest.raises(CannotWrite, match="Cannot lock"),
        locked(Root(tmp_path / "gone", plain=True), KIND, timeout=0.1),
    ):
        pytest.fail("there is nothing to lock")
    assert not (tmp_path / "gone").exists()


def test_batches_do_every_step_once_under_the_lock(plain: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """All steps are done in order, each with the lock held."""
    done: list[int] = []

    def steps() -> Iterator[None]:
        for i in range(50):
            assert not free(plain.path)
            done.append(i)
            yield

    monkeypatch.setattr(locking, "HOLD_S", 0)
    monkeypatch.setattr(clock, "sleep", lambda _: None)
    in_batches(plain, KIND, steps())
    assert done == list(range(50))
    assert free(plain.path)


def test_the_lock_is_let_go_every_so_often(plain: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock is held for 0.1 s or one step, and then free for twice filelock's polling interval of 50 ms."""
    hands = StoppedClock(monkeypatch)
    held: list[list[float]] = [[]]
    steps_of = [0.002] * 60 + [0.25, 0.25] + [0.04] * 4

    def steps() -> Iterator[None]:
        for seconds in steps_of:
            assert not free(plain.path)
            held[-1].append(seconds)
            hands.go_on(seconds)
            yield

    def sleep(seconds: float) -> None:
        assert seconds >= 0.1 and free(plain.path)
        held.append([])

    monkeypatch.setattr(clock, "sleep", sleep)
    in_batches(plain, KIND, steps())
    assert [second for hold in held for second in hold] == steps_of
    assert [len(hold) for hold in held] == [50, 11, 1, 3, 1]
    assert all(sum(hold[:-1]) < 0.1 for hold in held)


def test_others_get_a_turn_between_batches(plain: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that waits for the lock gets it before a long removal ends."""
    had_it = threading.Event()
    monkeypatch.setattr(clock, "sleep", lambda _: had_it.wait(LIMIT_S))  # between two batches
    with process(TAKE_TURNS, plain.path) as other:
        assert other.stdin and other.stdout
        other.stdin.write("\n")
        other.stdin.flush()
        output = other.stdout

        def wait() -> None:
            output.readline()
            had_it.set()

        line = threading.Thread(target=wait)
        line.start()

        monkeypatch.setattr(locking, "HOLD_S", 0)
        in_batches(plain, KIND, iter([None] * 3))
        assert had_it.is_set()
        line.join()


def test_a_step_that_fails_ends_the_batches(plain: Root) -> None:
    """The error comes out, and the lock is free."""

    def steps() -> Iterator[None]:
        yield
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        in_batches(plain, KIND, steps())
    assert free(plain.path)


def test_no_steps_take_the_lock_once(plain: Root) -> None:
    """Without steps, the function returns at once."""
    in_batches(plain, KIND, iter(()))
    assert free(plain.path)


@pytest.mark.parametrize(("text", "seconds"), [(None, 10.0), ("30s", 30.0), ("1.5", 1.5), ("2min", 120.0)])
def test_the_time_to_wait_for_a_lock(text: str | None, seconds: float) -> None:
    """The time limit is 10 s, or `$JCACHE_LOCK_TIMEOUT` as an age or a number of seconds."""
    assert timeout_in({} if text is None else {"JCACHE_LOCK_TIMEOUT": text}) == seconds
