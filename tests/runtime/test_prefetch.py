"""Keys are fetched ahead once each, in their order, and whoever needs one waits for it or fetches it."""

import threading
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given, strategies as st

from jcache.runtime.prefetch import Prefetch
from tests.helpers.waiting import until


def test_what_has_begun_is_waited_for() -> None:
    """A key that is being fetched is waited for, a key whose turn has not come is the caller's, and so is any other."""
    may_end, begun = threading.Event(), threading.Semaphore(0)
    fetched = []

    def fetch(key: str) -> None:
        begun.release()
        may_end.wait()
        fetched.append(key)

    keys = [f"key {number}" for number in range(20)]
    prefetch = Prefetch(fetch, keys)
    for _ in range(8):
        begun.acquire()
    assert not prefetch.has_fetched("key 19") and not prefetch.has_fetched("another")
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(prefetch.has_fetched, "key 0")
        may_end.set()
        assert waiting.result() and "key 0" in fetched
    assert until(lambda: len(fetched) == 19) and sorted(fetched) == sorted(keys[:19])
    assert all(map(prefetch.has_fetched, keys[:19]))


def test_stopped() -> None:
    """After `stop` no other key is begun, and what has begun ends."""
    may_end, begun = threading.Event(), []

    def fetch(key: str) -> None:
        begun.append(key)
        may_end.wait()

    prefetch = Prefetch(fetch, map(str, range(50)))
    until(lambda: len(begun) == 8)
    prefetch.stop()
    may_end.set()
    assert all(map(prefetch.has_fetched, begun)) and len(begun) == 8
    assert not prefetch.has_fetched("40")


@given(count=st.integers(0, 30), asked=st.lists(st.integers(0, 35), max_size=40))
def test_each_key_is_fetched_once(count: int, asked: list[int]) -> None:
    """However threads ask meanwhile, each key is fetched by one of them, ahead or by whoever asks first."""
    fetched: list[str] = []
    lock, kept = threading.Lock(), set[str]()
    prefetch = Prefetch(fetched.append, map(str, range(count)))

    def ask(number: int) -> None:
        with lock:  # as a program asks, one key after the other
            if not prefetch.has_fetched(str(number)) and str(number) not in kept:
                kept.add(str(number))
                fetched.append(str(number))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(ask, asked))
    prefetch.stop()
    assert len(fetched) == len(set(fetched))
    assert set(map(str, asked)) <= set(fetched)
