"""Which starts that a trace would serve are traced instead, and compared with it.

Such a start traces the function in the foreground, where `jax.jit` would, runs what it has traced, and compares that
with the stored trace once it is compiled. So no code of the program runs where or when it would not without jcache.
"""

from __future__ import annotations

import random
from enum import StrEnum
from typing import Final

from jcache.layout import Root
from jcache.traces.hints import Verdicts

_ONE_IN: Final = 20
_chance: Final = random.Random()  # noqa: S311  of our own: the program's is as the program left it


class Check(StrEnum):
    """How many starts that a trace would serve are traced and compared: every 20th of each trace, all, or none."""

    SAMPLE = "sample"
    ALWAYS = "always"
    NEVER = "never"


def is_due(check: Check, root: Root, key: str) -> bool:
    """Whether a start that a trace would serve is to be compared; counts it. At random where nothing can be counted."""
    if check is not Check.SAMPLE:
        return check is Check.ALWAYS
    number = Verdicts(root).count_start(key)
    return _chance.randrange(_ONE_IN) == 0 if number is None else number % _ONE_IN == 0
