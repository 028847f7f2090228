"""Warnings of a library that goes on all the same: each is said once, of the line of the program that is concerned."""

import sys
import warnings
from collections.abc import Hashable
from contextlib import suppress
from typing import Final

from jcache.package import OWN_FILES

_warned_about: Final[set[Hashable]] = set()


def warn_once(about: Hashable, text: str) -> None:
    """Warns the program that called jcache, unless it was told about the same before."""
    if about in _warned_about:
        return
    _warned_about.add(about)
    warn_outside(f"{text} (The program goes on; this is said once.)", UserWarning)


def warn_outside(message: Warning | str, category: type[Warning]) -> None:
    """Warns of the line of the program that called jcache."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(OWN_FILES):
        frame, level = frame.f_back, level + 1
    warn(message, category, stacklevel=level)


def warn(message: Warning | str, category: type[Warning] = UserWarning, *, stacklevel: int) -> None:
    """`warnings.warn`, but where warnings are errors it prints: the cache may fail, the program goes on."""
    try:
        warnings.warn(message, category, stacklevel=stacklevel + 1)
    except Warning:
        with suppress(Exception):  # as `warnings` itself where stderr is gone
            sys.stderr.write(f"{category.__name__}: {message}\n")
