"""Whether anything else holds what a call has set: then a served call would make another object than the one there."""

from __future__ import annotations

import gc
import sys
import weakref


def are_held_once(kept: list[object]) -> bool:
    """Return whether one holder alone refers to each of some values, and nothing refers to it weakly.

    Args:
        kept: objects and containers, each of which has a holder beside this list.
    """
    probe: list[object] = []
    holder = {"a": probe}
    kept.append(probe)
    del probe
    if _is_each_as_the_last(kept):
        return True
    gc.collect()  # what refers to it may be garbage
    return _is_each_as_the_last(kept) and len(holder) == 1


def _is_each_as_the_last(kept: list[object]) -> bool:
    counts = [sys.getrefcount(each) for each in kept]
    return counts == [counts[-1]] * len(kept) and not any(map(weakref.getweakrefcount, kept))
