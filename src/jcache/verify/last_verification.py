"""What the last `jcache verify` of a root has found, so that `jcache info` can tell.

    ROOT/.jcache/verified.json     when it ended, how many entries there were and were checked, and what was wrong:
                                   how many files, and of the first of them path, size, modification time and inode

It is input, as everything in a root: what cannot be read counts as if the root had never been verified.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from jcache.findings import Finding, Stamp
from jcache.layout import Root
from jcache.store import files
from jcache.store.directories import opened

_NAME: Final = "verified.json"
_SCHEMA_VERSION: Final = 1
_MOST: Final = 100  # files that are named
_LARGEST: Final = 1 << 20


class LastVerification(NamedTuple):
    """The last verification of a root.

    Attributes:
        ended_ns: when, nanoseconds since 1970.
        entries: how many entries there were.
        checked: how many of them were checked.
        damaged: how many findings are still what they were, as far as they are named.
    """

    ended_ns: int
    entries: int
    checked: int
    damaged: int


def write(
    root: Root, findings: Sequence[Finding], *, ended_ns: int, entries: int, checked: int, complete: bool = True
) -> None:
    """Writes down what a verification has found, softly.

    Args:
        root: which was verified.
        findings: what is wrong, and was not mended.
        ended_ns: when, nanoseconds since 1970.
        entries: how many entries there are.
        checked: how many of them were checked.
        complete: whether all were; else what was found before, and is still there, stays.
    """
    named = [{"path": str(one.path), "stamp": list(_stamp(one.path) or ())} for one in findings[:_MOST]]
    value = {"ended_ns": ended_ns, "entries": entries, "checked": checked, "findings": len(findings), "named": named}
    if not complete and (before := _read(root)) is not None:
        paths = {one["path"] for one in named}
        kept = [one for one in before["named"] if one["path"] not in paths and _is_still(one["path"], one["stamp"])]
        value = before | {"findings": len(findings) + len(kept), "named": (named + kept)[:_MOST]}
    elif not complete and not findings:
        return
    text = json.dumps({"schema_version": _SCHEMA_VERSION, **value}, indent=2)
    with suppress(OSError), opened(root, root.state, make=True) as state:
        files.publish(_NAME, text.encode(errors="surrogateescape"), directory=state)


def read(root: Root) -> LastVerification | None:
    """What the last verification has found; None if there was none."""
    told = _read(root)
    if told is None:
        return None
    still = sum(_is_still(one["path"], one["stamp"]) for one in told["named"])
    more = max(told["findings"] - _MOST, 0) if still else 0
    return LastVerification(told["ended_ns"], told["entries"], told["checked"], still + more)


def _read(root: Root) -> dict[str, Any] | None:
    try:
        with opened(root, root.state) as state:
            told = json.loads(files.read(_NAME, _LARGEST, directory=state))
        counts = [told[name] for name in ("ended_ns", "entries", "checked", "findings")]
        whole = told["schema_version"] == _SCHEMA_VERSION and all(
            isinstance(count, int) and 0 <= count < 2**63 for count in counts
        )
        named = all(isinstance(one["path"], str) and isinstance(one["stamp"], list) for one in told["named"])
        return told if whole and named else None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def _stamp(path: Path | str) -> Stamp | None:
    """What a file is; nothing of a directory, whose times change with what is in it."""
    with suppress(OSError, ValueError):
        status = os.lstat(path)
        return None if stat.S_ISDIR(status.st_mode) else Stamp.of(status)
    return None


def _is_still(path: str, stamp_then: list[int]) -> bool:
    found = _stamp(path)
    return found is not None and list(found) == stamp_then
