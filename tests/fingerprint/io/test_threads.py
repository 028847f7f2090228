"""Whose reading it is that other threads do."""

import _thread
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from pathlib import Path

import pytest

from jcache.fingerprint.io.reads import Reads


@pytest.fixture
def rates(tmp_path: Path) -> Path:
    path = tmp_path / "rates"
    path.write_text("2")
    return path


def test_a_thread_works_for_the_blocks_in_which_it_was_begun(rates: Path) -> None:
    """It tells all of them, and one that it opens itself; what it reads after they have ended is nobody's."""
    ask, go_on = threading.Event(), threading.Event()

    def work() -> None:
        with Reads() as own:
            rates.read_text()
        assert f"file {rates}" in own.parts
        ask.set()
        go_on.wait()
        rates.with_name("later").exists()

    with Reads() as outer, Reads() as inner:
        thread = threading.Thread(target=work)
        thread.start()
        ask.wait()
    go_on.set()
    thread.join()
    assert list(outer.parts) == list(inner.parts) == [f"file {rates}"] and outer.reason is None


def test_a_thread_without_an_object(rates: Path) -> None:
    """Python's lowest way to start a thread is heard as well."""
    done = threading.Event()
    with Reads() as block:
        _thread.start_new_thread(lambda: done.set() if rates.read_text() else None, ())
        done.wait()
    assert list(block.parts) == [f"file {rates}"] and block.reason is None


def submit(pool: ThreadPoolExecutor | ThreadPool, call: Callable[[], object]) -> Callable[[], object]:
    return pool.apply_async(call).get if isinstance(pool, ThreadPool) else pool.submit(call).result


@pytest.mark.parametrize("make", [ThreadPoolExecutor, ThreadPool])
def test_a_work_item_belongs_to_who_submits_it(make: type[ThreadPoolExecutor | ThreadPool], rates: Path) -> None:
    """Neither who has made the pool counts, nor who was the first to use it, but the block that hands the work over."""
    with make(1) as pool:
        submit(pool, rates.with_name("a").exists)()
        with Reads() as block:
            submit(pool, rates.read_text)()
            of_block = make(1)
            submit(of_block, rates.with_name("b").exists)()
        submit(of_block, rates.with_name("c").exists)()
        with of_block:
            pass
    assert set(block.parts) == {f"file {rates}", f"existence {rates.with_name('b')}"} and block.reason is None


def test_what_others_submit_to_a_pool_of_the_block_is_theirs(rates: Path) -> None:
    """A thread that was begun in a block works for no block while it runs an item from outside."""
    asked, handed = threading.Event(), threading.Event()

    def outsider() -> None:
        asked.wait()
        pools[0].submit(rates.read_text).result()
        handed.set()

    pools: list[ThreadPoolExecutor] = []
    thread = threading.Thread(target=outsider)
    thread.start()
    with Reads() as block, ThreadPoolExecutor(1) as pool:
        pool.submit(str).result()
        pools.append(pool)
        asked.set()
        handed.wait()
    thread.join()
    assert not block.parts and block.reason is None


def test_callbacks_of_a_pool_belong_to_who_submits(rates: Path) -> None:
    """Joblib hands out its next pieces of work in one."""
    with ThreadPool(1) as pool:
        done = threading.Event()

        def callback(_: object) -> None:
            rates.read_text()
            done.set()

        with Reads() as block:
            pool.apply_async(str, callback=callback)
            done.wait()
    assert list(block.parts) == [f"file {rates}"]
