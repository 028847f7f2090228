"""Know whether this thread gets a program's executable for JAX, and when it has got it.

The functions import JAX, so that importing this module costs nothing.
"""

# ruff: noqa: ANN401 - JAX's internals have no stable types

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from jcache.patching import Patch


class _Thread(threading.local):
    """How many programs within one another this thread gets."""

    depth = 0


_thread = _Thread()


def is_compiling() -> bool:
    """Return whether this thread gets a program's executable now, for somebody who has called `call_after`."""
    return _thread.depth > 0


def call_after(callback: Callable[[], object]) -> Callable[[], None]:
    """Have a function called whenever a thread has got an executable, or failed to; its exceptions are ignored.

    Where getting a program means getting others, it is called after the outermost one.

    Returns:
        A function that ends that.
    """
    from jax._src import compiler

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        def compile_or_get_cached(*args: Any, **named: Any) -> Any:
            _thread.depth += 1
            try:
                return original(*args, **named)
            finally:
                _thread.depth -= 1
                if not _thread.depth:
                    with suppress(Exception):
                        callback()

        return compile_or_get_cached

    return Patch(compiler, "compile_or_get_cached", replace).undo
