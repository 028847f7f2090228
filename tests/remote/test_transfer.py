"""Transfers run at once, come back in order, and hold a bounded number of bytes."""

import threading
import time

import pytest

from jcache.remote.transfer import in_parallel


def test_order_and_bounds() -> None:
    """Results have the order of the jobs; no more bytes than allowed are under way, but for one job that is larger."""
    lock, now, most = threading.Lock(), [0], [0]

    def transfer(size: int) -> int:
        with lock:
            now[0] += size
            most[0] = max(most[0], now[0])
        time.sleep(0.001 * (size % 3))
        with lock:
            now[0] -= size
        return -size

    jobs = [3, 1, 2, 50, 1, 1, 4] * 20
    found = list(in_parallel(transfer, jobs, lambda size: size, connections=8, max_bytes=10))
    assert found == [(job, -job) for job in jobs] and most[0] <= 50


def test_the_first_failure_ends_all() -> None:
    """Jobs behind a failed one are not begun."""
    begun = list[int]()

    def transfer(number: int) -> None:
        begun.append(number)
        if number == 3:
            raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        list(in_parallel(transfer, range(10_000), connections=2))
    assert len(begun) < 1000
