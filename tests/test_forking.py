"""Objects that are notified in a forked child."""

import os

from jcache.forking import TellInChild


class Counter:
    """Counts its notifications, and writes the number to a pipe."""

    def __init__(self) -> None:
        self.told = 0

    def tell(self) -> None:
        self.told += 1


def test_each_object_that_is_alive_is_told_once_in_the_child_alone() -> None:
    """The parent hears nothing, and an object that is gone is not called."""
    registry: TellInChild[Counter] = TellInChild(Counter.tell)
    kept, dropped = Counter(), Counter()
    registry.add(kept)
    registry.add(dropped)
    del dropped
    child = os.fork()
    if child == 0:
        os._exit(kept.told)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert kept.told == 0
