"""Spare Python garbage collections where most of what is young stays in use, as while JAX is imported.

This module needs the standard library alone: the recorder of `jcache run` loads it.
"""

import gc
import sys

FEW_FROZEN = 1_000  # objects; Python 3.12 freezes some hundred when it starts, and a program several thousand


def age_objects() -> None:
    """Move all objects to the oldest generation, which collections would do one generation after the other.

    That takes no time (CPython links lists), so it can be done for each module of JAX; where Python has no global lock
    it would take some, and is not done. Garbage among them is freed by the next full collection. What the program
    itself has frozen (``gc.freeze``) stays frozen.
    """
    if "t" not in sys.abiflags and gc.get_freeze_count() < FEW_FROZEN:
        gc.freeze()
        gc.unfreeze()
