"""Blocks of code and what they read."""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from jcache.fingerprint.io.reads import Reads

WATCH = """import json, os, sys
from jcache.fingerprint.io.digests import now
from jcache.fingerprint.io.reads import Reads
"""
SAY = "\nprint(json.dumps([dict(reads.parts), reads.reason]))"


def reads_of(block: Callable[[], object]) -> Reads:
    """What a call reads; what it raises is of no interest."""
    with Reads() as reads, suppress(OSError, KeyError):
        block()
    return reads


def opened(path: int | str | bytes | Path, mode: str = "rb") -> None:
    open(path, mode).close()


def of(content: bytes) -> str:
    """The text of a file with some content."""
    return f"{len(content)} bytes {hashlib.sha256(content).hexdigest()}"
