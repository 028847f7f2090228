"""Side effects of reading an entry ahead are deferred until the entry is used."""

from contextlib import suppress
from threading import Thread

from jcache.jax_internals.speculation import deferring, is_deferring, run_or_defer


def test_outside_of_the_block_it_happens_at_once() -> None:
    """Nothing is deferred unless the thread reads ahead."""
    done: list[int] = []
    run_or_defer(lambda: done.append(1))
    assert done == [1] and not is_deferring()


def test_within_it_waits_for_whoever_uses_the_entry() -> None:
    """The actions are in the list in their order, and happen when they are called; a block may lie within another."""
    done: list[int] = []
    with deferring() as outer:
        run_or_defer(lambda: done.append(1))
        with deferring() as inner:
            run_or_defer(lambda: done.append(2))
        run_or_defer(lambda: done.append(3))
    assert done == [] and (len(outer), len(inner)) == (2, 1) and not is_deferring()
    for action in (*outer, *inner):
        action()
    assert done == [1, 3, 2]


def test_it_ends_with_an_exception_and_is_of_one_thread() -> None:
    """A block that raises ends as any other, and another thread defers nothing meanwhile."""
    done: list[bool] = []
    with suppress(RuntimeError), deferring():
        thread = Thread(target=lambda: run_or_defer(lambda: done.append(is_deferring())))
        thread.start()
        thread.join()
        raise RuntimeError
    assert done == [False] and not is_deferring()
