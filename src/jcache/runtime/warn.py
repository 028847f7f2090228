"""Emit each warning once, at the caller's line.

jcache warns and goes on where it cannot do something: the cache may fail, the program may not.
"""

import sys
import warnings
from collections.abc import Callable, Hashable
from contextlib import suppress
from types import FrameType
from typing import Final

from jcache.package import OWN_FILES

_OF_JAX: Final = frozenset({"jax", "jaxlib"})


def _is_between(frame: FrameType) -> bool:
    package = str(frame.f_globals.get("__name__")).partition(".")[0]
    return package in _OF_JAX or frame.f_code.co_filename.startswith(OWN_FILES)


class WarnOnce:
    """Emits one warning for each subject, as long as it lives.

    Args:
        emit: emits a text as a warning.
        known: subjects that the user knows of already.
    """

    def __init__(self, emit: Callable[[str], object], known: set[Hashable] | None = None) -> None:
        self._emit = emit
        self._known: set[Hashable] = set(known or ())

    def __call__(self, about: Hashable, text: str) -> None:
        """Emit a text, unless there was a warning about the same subject before."""
        if about not in self._known:
            self._known.add(about)
            self._emit(f"{text} (The program goes on; this warning is shown once.)")

    def forget(self) -> None:
        """Warn about every subject anew."""
        self._known.clear()


def warn_outside(message: Warning | str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the program that called jcache, or JAX where that calls jcache."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _is_between(frame):
        frame, level = frame.f_back, level + 1
    warn(message, category, stacklevel=level)


def warn(message: Warning | str, category: type[Warning] = UserWarning, *, stacklevel: int) -> None:
    """Call `warnings.warn`; where warnings are errors, print the message instead of raising."""
    try:
        warnings.warn(message, category, stacklevel=stacklevel + 1)
    except Warning:
        with suppress(Exception):  # as `warnings` itself where stderr is gone
            sys.stderr.write(f"{category.__name__}: {message}\n")


warn_once: Final = WarnOnce(warn_outside)
