"""Keep the findings of the last `jcache verify` of a root, for `jcache info`.

    ROOT/.jcache/verified.json     when it began and ended, how many entries there were and were checked, and what was
                                   wrong: how many files, and of the first of them damage, path from the root on, size,
                                   modification time and inode

A file that is another one by now, or was changed, may be damaged or not: that is not known any more.
It is input, as everything in a root: what cannot be read counts as if the root had never been verified.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple

from jcache import clock
from jcache.findings import Damage, Finding, Stamp
from jcache.layout import ENTRY_SUFFIX, SIDECAR_SUFFIX, Root
from jcache.store import files
from jcache.store.directories import opened
from jcache.store.store import Store
from jcache.verify.result import Verification

_NAME: Final = "verified.json"
_SCHEMA_VERSION: Final = 2
_MOST: Final = 1000  # files that are named
_LARGEST: Final = 1 << 20
_TICK_NS: Final = 10_000_000  # the times of files lag behind the clock by as much
_NEVER: Final[dict[str, Any]] = {"ended_ns": 0, "entries": 0, "checked": 0, "findings": 0, "named": []}


class LastVerification(NamedTuple):
    """The last verification of a root.

    Attributes:
        ended_ns: when, nanoseconds since 1970; 0 if there was none, and yet it is known that something is damaged.
        entries: how many entries there were.
        checked: how many of them were checked.
        damaged: how many findings are still what they were.
        changed: how many more there were, whose files have changed since, or are not named.
        began_ns: when it began, nanoseconds since 1970: what was written later may not have been checked.
    """

    ended_ns: int
    entries: int
    checked: int
    damaged: int
    changed: int
    began_ns: int


class _State(Enum):
    """What has become of a finding."""

    STILL = "still there"
    CHANGED = "the file has changed"
    GONE = "mended"


def write(
    root: Root,
    findings: Sequence[Finding],
    *,
    began_ns: int,
    ended_ns: int,
    entries: int,
    checked: int,
    complete: bool = True,
    sound: Iterable[Path] = (),
) -> None:
    """Write down the findings of a verification; a failure is passed over.

    Args:
        root: which was verified.
        findings: what is wrong, and was not mended.
        began_ns: when it began, nanoseconds since 1970.
        ended_ns: when it ended.
        entries: how many entries there are.
        checked: how many of them were checked.
        complete: whether all were; else what was found before, and may still be there, stays.
        sound: files that were checked in full and passed; asked for only if not all were checked.
    """
    named = [_named(root, one) for one in findings[:_MOST]]
    times = {"began_ns": began_ns, "ended_ns": ended_ns}
    value = {**times, "entries": entries, "checked": checked, "findings": len(findings), "named": named}
    if not complete and (before := _read(root)) is not None:
        known = {one["path"] for one in named} | {_relative(root, path) for path in sound}
        kept = [one for one in before["named"] if one["path"] not in known and _state(root, one) is not _State.GONE]
        unnamed = before["findings"] - len(before["named"])
        value = before | {"findings": len(findings) + len(kept) + unnamed, "named": (named + kept)[:_MOST]}
    elif not complete and not findings:
        return
    _write(root, value)


def add(root: Root, finding: Finding) -> None:
    """Write down that something damaged was put back; a failure is passed over."""
    before, named = _read(root) or _NEVER, _named(root, finding)
    others = [one for one in before["named"] if one["path"] != named["path"]]
    count = before["findings"] - len(before["named"]) + len(others) + 1
    _write(root, before | {"findings": count, "named": [named, *others][:_MOST]})


def read(root: Root) -> LastVerification | None:
    """Return the findings of the last verification; None if there was none."""
    told = _read(root)
    if told is None:
        return None
    states = [_state(root, one) for one in told["named"]]
    unnamed = max(told["findings"] - len(states), 0)
    still, changed = states.count(_State.STILL), states.count(_State.CHANGED) + unnamed
    ended_ns, entries, checked, began_ns = _counts(told)
    return LastVerification(ended_ns, entries, checked, still, changed, began_ns)


def _write(root: Root, value: dict[str, Any]) -> None:
    text = json.dumps({**value, "schema_version": _SCHEMA_VERSION})
    with suppress(OSError), opened(root, root.state, make=True) as state:
        files.publish(_NAME, text.encode(), directory=state)


def _read(root: Root) -> dict[str, Any] | None:
    try:
        with opened(root, root.state) as state:
            told = json.loads(files.read(_NAME, _LARGEST, directory=state))
        counts = [*_counts(told), told["findings"]]
        whole = told["schema_version"] == _SCHEMA_VERSION and all(
            isinstance(count, int) and 0 <= count < 2**63 for count in counts
        )
        named = all(
            isinstance(one["path"], str) and isinstance(one["stamp"], list | None) and isinstance(one["damage"], str)
            for one in told["named"]
        )
        return told if whole and named else None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def _counts(told: dict[str, Any]) -> tuple[int, int, int, int]:
    """Return end, entries, checked entries and beginning; a file of an earlier jcache has no beginning."""
    ended_ns = told["ended_ns"]
    return ended_ns, told["entries"], told["checked"], told.get("began_ns", ended_ns)


def _named(root: Root, finding: Finding) -> dict[str, Any]:
    stamp = _stamp(finding.path) if finding.stamp is None else list(finding.stamp)
    return {"damage": finding.damage, "path": _relative(root, finding.path), "stamp": stamp}


def _relative(root: Root, path: Path) -> str:
    """Return a path from the root on; another program's root has its ledger elsewhere."""
    return str(path.relative_to(root.path) if path.is_relative_to(root.path) else path)


def _stamp(path: Path) -> list[int] | None:
    """Return the stamp of a file; an empty list for a directory, whose times change with its contents; else None."""
    with suppress(OSError, ValueError):
        status = os.lstat(path)
        return [] if stat.S_ISDIR(status.st_mode) else list(Stamp.of(status))
    return None


def _state(root: Root, named: dict[str, Any]) -> _State:
    path = root.path / named["path"]
    found = _stamp(path)
    if found is None or named["stamp"] is None:  # what was missing is there, or its entry has gone, too
        return _State.GONE
    if named["damage"] == Damage.ORPHANED_SIDECAR:
        entry = path.with_name(path.name.removesuffix(SIDECAR_SUFFIX) + ENTRY_SUFFIX)
        return _State.GONE if _stamp(entry) is not None else _State.STILL
    allowed = named["damage"] == Damage.UNREADABLE and os.access(path, os.R_OK)  # by now; that changes no stamp
    return _State.STILL if found == named["stamp"] and not allowed else _State.CHANGED


_OF_NO_FILE: Final = frozenset({Damage.WRITABLE, Damage.OWNER, Damage.PINS})  # what a file holds is sound


def write_down(store: Store, verification: Verification, findings: Sequence[Finding]) -> None:
    """Keep what was found, and not mended, for `jcache info`."""
    root = store.root
    ended_ns = clock.now_ns()
    sound = () if verification.quick else verification.sound
    write(
        root,
        [one for one in findings if one.damage not in _OF_NO_FILE],
        began_ns=max(ended_ns - round(verification.seconds * 10**9) - _TICK_NS, 0),
        ended_ns=ended_ns,
        entries=verification.entries,
        checked=verification.checked,
        complete=verification.complete,
        sound=(root.place(claim.kind, claim.key) for claim in sound),
    )
