"""The text of a program's module, which is the same in each process that traces the same.

This module needs the standard library alone: the recorder of `jcache run` loads it where the program's Python has no
jcache.
"""

# ruff: noqa: ANN401 - JAX's internals have no stable types

import hashlib
import re

if False:  # for the type checker: typing is not needed to run
    from typing import Any

_NAMED = re.compile(r"^module @\S+", re.MULTILINE)


def text_of(module: "Any") -> str:
    """Return a module as text, without source positions and its name: tracing the same again gives the same text."""
    return _NAMED.sub("module", str(module.operation.get_asm(enable_debug_info=False)), count=1)


def text_digest(module: "Any") -> str:
    """Return the SHA-256 of `text_of`."""
    return hashlib.sha256(text_of(module).encode()).hexdigest()
