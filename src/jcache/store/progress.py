"""The type of what shows progress: it is given items, and passes them on one by one."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")
Progress = Callable[[Sequence[T]], Iterable[T]]
