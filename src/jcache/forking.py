"""Tell objects that they live in a forked child now, where no other thread goes on and locks may be held for good."""

import os
import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class TellInChild(Generic[T]):
    """Objects that are told of a fork, in the child; it does not keep them alive."""

    def __init__(self, tell: Callable[[T], object]) -> None:
        """Have `tell` called with each object, in the child.

        Registries are told in the order in which they were made, that is, in which their modules were imported.
        """
        self._tell = tell
        self._objects: weakref.WeakSet[T] = weakref.WeakSet()
        os.register_at_fork(after_in_child=self._tell_all)

    def add(self, one: T) -> None:
        """Tell this object, too, as long as it lives."""
        self._objects.add(one)

    def _tell_all(self) -> None:
        for one in list(self._objects):
            self._tell(one)
