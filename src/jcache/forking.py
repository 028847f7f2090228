"""Notify objects in a forked child, where the other threads are gone and their locks may stay held forever."""

import os
import weakref
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class TellInChild(Generic[T]):
    """Weak references to objects that are notified in the child after a fork."""

    def __init__(self, tell: Callable[[T], object]) -> None:
        """Have `tell` called with each object, in each forked child.

        Several instances act in the order in which they were made, that is, in which their modules were imported.
        """
        self._tell = tell
        self._objects: weakref.WeakSet[T] = weakref.WeakSet()
        os.register_at_fork(after_in_child=self._tell_all)

    def add(self, one: T) -> None:
        """Add an object, which is notified as long as it lives."""
        self._objects.add(one)

    def __iter__(self) -> Iterator[T]:
        """Iterate over the objects that live now."""
        return iter(list(self._objects))

    def _tell_all(self) -> None:
        for one in self:
            self._tell(one)
