"""Tests for single flight: who builds, who waits, and that nothing is left in the way."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jcache.layout import Root
from jcache.store.build_lock import single_flight, sweep
from tests.helpers.clocks import StoppedClock
from tests.helpers.entries import SECOND, key, mounted_read_only, process

BUILD = """
import sys, time
from pathlib import Path
from jcache.layout import Root
from jcache.store.build_lock import single_flight

with single_flight(Root(Path(sys.argv[1]), False), sys.argv[2], done=lambda: False):
    print("building", flush=True)
    sys.stdin.readline()
"""
KEY = key(1)


def never() -> bool:
    return False


def lock_files(root: Root) -> list[str]:
    return sorted(os.listdir(root.building)) if root.building.is_dir() else []


def test_nobody_is_there(native: Root) -> None:
    """The first builder begins at once, and leaves no lock file."""
    with single_flight(native, KEY, done=never) as waited:
        assert not waited and lock_files(native) == [f"{KEY}.lock"]
    assert lock_files(native) == []


def test_another_process_is_waited_for(native: Root) -> None:
    """While a process builds, others wait for the same key, and not for other keys."""
    with process(BUILD, native.path, KEY) as child:
        with single_flight(native, key(2), done=never) as waited:
            assert not waited

        def go_on() -> bool:
            """Return a wait function that lets the other process continue."""
            assert child.stdin
            if child.poll() is None and not child.stdin.closed:
                child.communicate("\n")
            return False

        with single_flight(native, KEY, done=go_on) as waited:
            assert waited and child.poll() == 0
    assert lock_files(native) == []


def test_what_is_there_is_not_waited_for(native: Root) -> None:
    """Waiting ends when the entry exists, even if its builder still holds the lock."""
    with process(BUILD, native.path, KEY):
        with single_flight(native, KEY, done=lambda: True) as waited:
            assert waited
        assert lock_files(native) == [f"{KEY}.lock"]


def test_waiting_can_be_bounded(native: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting ends without the lock after a time limit; the first looks are more frequent."""
    hands = StoppedClock(monkeypatch)
    with process(BUILD, native.path, KEY):
        with single_flight(native, KEY, done=never, at_most=10) as waited:
            assert waited and 10 < sum(hands.slept) < 10.1
        assert hands.slept == sorted(hands.slept) and hands.slept[0] < 0.01
        assert lock_files(native) == [f"{KEY}.lock"]


def test_a_killed_builder_is_taken_over(native: Root) -> None:
    """SIGKILL leaves the file and no lock: the next one builds, and removes the file."""
    with process(BUILD, native.path, KEY) as child:
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert lock_files(native) == [f"{KEY}.lock"]
    with single_flight(native, KEY, done=never) as waited:
        assert not waited
    assert lock_files(native) == []


def test_what_the_dead_have_left_is_swept(native: Root) -> None:
    """Old lock files that no process holds are removed; held and new ones stay."""
    with process(BUILD, native.path, KEY), process(BUILD, native.path, key(2)) as dead:
        dead.kill()
        dead.wait()
        assert sweep(native, 0) == 0
        assert sweep(native, time.time_ns() + SECOND) == 1
        assert lock_files(native) == [f"{KEY}.lock"]


def test_a_failing_builder_lets_go(native: Root) -> None:
    """An exception passes, and the next one builds."""
    with pytest.raises(ZeroDivisionError), single_flight(native, KEY, done=never):
        raise ZeroDivisionError
    with single_flight(native, KEY, done=never) as waited:
        assert not waited


def test_threads_and_processes_take_turns(native: Root) -> None:
    """Of 4 processes with 8 threads each, never two are in the block at once, and no lock file stays."""
    program = """
import sys, threading
from pathlib import Path
from jcache.layout import Root
from jcache.store.build_lock import single_flight

root, key, counter = Root(Path(sys.argv[1]), False), sys.argv[2], Path(sys.argv[3])

def work():
    for _ in range(5):
        with single_flight(root, key, done=lambda: False):
            number = int(counter.read_text())
            counter.write_text(str(number + 1))

threads = [threading.Thread(target=work) for _ in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
"""
    counter = native.path / "counter"
    counter.write_text("0")
    command = [sys.executable, "-c", program, str(native.path), KEY, str(counter)]
    children = [subprocess.Popen(command) for _ in range(4)]
    assert [child.wait(120) for child in children] == [0] * 4
    assert counter.read_text() == str(4 * 8 * 5)
    assert lock_files(native) == []


def test_a_forked_child_holds_nothing(native: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child forked by a builder that is then killed blocks nobody, and releases no lock while it lives."""
    program = """
import os, signal, sys
from pathlib import Path
from jcache.layout import Root
from jcache.store.build_lock import single_flight

stays = sys.argv[3] == "stays"
with single_flight(Root(Path(sys.argv[1]), False), sys.argv[2], done=lambda: False):
    child = os.fork()
    if child == 0 and stays:
        print("here", flush=True)
        sys.stdin.readline()
    elif child:
        if not stays:
            os.waitpid(child, 0)
            print("gone", flush=True)
        signal.pause()
"""
    hands = StoppedClock(monkeypatch)
    with process(program, native.path, KEY, "leaves the block at once"):
        with single_flight(native, KEY, done=never, at_most=10) as waited:
            assert waited and sum(hands.slept) > 10
        assert lock_files(native) == [f"{KEY}.lock"]
    with process(program, native.path, KEY, "stays") as builder:
        builder.kill()
        builder.wait()
        with single_flight(native, KEY, done=never) as waited:
            assert not waited


def test_a_root_that_cannot_be_locked(native: Root) -> None:
    """If no lock can be written, every process builds at once."""
    with mounted_read_only(native.path), single_flight(native, KEY, done=never) as waited:
        assert not waited


def test_a_root_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    """A root that was removed is not made again."""
    with single_flight(Root(tmp_path / "gone", plain=False), KEY, done=never) as waited:
        assert not waited
    assert not (tmp_path / "gone").exists()


def test_nothing_is_written_through_a_link(native: Root, beyond: Path) -> None:
    """A link in the place of our directory is not followed."""
    native.state.symlink_to(beyond)
    with single_flight(native, KEY, done=never) as waited:
        assert not waited
