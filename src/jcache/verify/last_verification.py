"""Keep the findings of the last `jcache verify` of a root, for `jcache info`.

``ROOT/.jcache/verified.json`` holds the times of its beginning and end, the numbers of entries, checked entries and
findings, and for the first findings the damage, the path relative to the root, and the file's size, modification time
and inode.

If the file of a finding has changed since, it is unknown whether it is still damaged. A file ``verified.json`` that
is malformed counts as missing, as if the root had never been verified.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jcache import clock
from jcache.findings import Damage, Finding, Stamp
from jcache.layout import ENTRY_SUFFIX, SIDECAR_SUFFIX, Root
from jcache.store import files
from jcache.store.directories import opened

if TYPE_CHECKING:
    from jcache.store.store import Store
    from jcache.verify.result import Verification

_FILE_NAME: Final = "verified.json"
_SCHEMA_VERSION: Final = 2
_MAX_NAMED: Final = 1000  # findings; of the others only the number is kept
_MAX_FILE_BYTES: Final = 1 << 20
_CLOCK_TICK_NS: Final = 10_000_000  # the times of files lag behind the clock by at most this
_NO_VERIFICATION: Final[dict[str, Any]] = {"ended_ns": 0, "entries": 0, "checked": 0, "findings": 0, "named": []}


class LastVerification(NamedTuple):
    """The last verification of a root.

    Attributes:
        ended_ns: end time in nanoseconds since 1970; 0 if nothing was verified, but a damaged entry was restored.
        entries: number of entries in the root.
        checked: number of entries that were checked.
        damaged: number of findings whose files have not changed since.
        changed: number of findings whose files have changed since, or are not named.
        began_ns: begin time in nanoseconds since 1970; files that changed later may not have been checked.
    """

    ended_ns: int
    entries: int
    checked: int
    damaged: int
    changed: int
    began_ns: int


class _State(Enum):
    """State of a finding since the verification."""

    STILL = "unchanged"
    CHANGED = "the file has changed"
    GONE = "gone"


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
    """Save the findings of a verification; ignore a failure to write.

    Args:
        root: root that was verified.
        findings: findings that were not repaired.
        began_ns: begin time in nanoseconds since 1970.
        ended_ns: end time.
        entries: number of entries in the root.
        checked: number of entries that were checked.
        complete: whether all entries were checked. If not, earlier findings stay unless they are gone or in ``sound``.
        sound: files that passed all checks; read only if ``complete`` is false.
    """
    named = [_to_json(root, one) for one in findings[:_MAX_NAMED]]
    times = {"began_ns": began_ns, "ended_ns": ended_ns}
    value = {**times, "entries": entries, "checked": checked, "findings": len(findings), "named": named}
    if not complete and (before := _read(root)) is not None:
        known = {one["path"] for one in named} | {_relative(root, path) for path in sound}
        kept = [one for one in before["named"] if one["path"] not in known and _state(root, one) is not _State.GONE]
        unnamed = before["findings"] - len(before["named"])
        value = before | {"findings": len(findings) + len(kept) + unnamed, "named": (named + kept)[:_MAX_NAMED]}
    elif not complete and not findings:
        return
    _write(root, value)


def add_finding(root: Root, finding: Finding) -> None:
    """Save that a damaged entry was restored from quarantine; ignore a failure to write."""
    before, named = _read(root) or _NO_VERIFICATION, _to_json(root, finding)
    others = [one for one in before["named"] if one["path"] != named["path"]]
    count = before["findings"] - len(before["named"]) + len(others) + 1
    _write(root, before | {"findings": count, "named": [named, *others][:_MAX_NAMED]})


def read(root: Root) -> LastVerification | None:
    """Return the last verification of a root; None if there was none."""
    saved = _read(root)
    if saved is None:
        return None
    states = [_state(root, one) for one in saved["named"]]
    unnamed = max(saved["findings"] - len(states), 0)
    still, changed = states.count(_State.STILL), states.count(_State.CHANGED) + unnamed
    ended_ns, entries, checked, began_ns = _counts(saved)
    return LastVerification(ended_ns, entries, checked, still, changed, began_ns)


def _write(root: Root, value: dict[str, Any]) -> None:
    text = json.dumps({**value, "schema_version": _SCHEMA_VERSION})
    with suppress(OSError), opened(root, root.state, make=True) as state:
        files.publish(_FILE_NAME, text.encode(), directory=state)


def _read(root: Root) -> dict[str, Any] | None:
    try:
        with opened(root, root.state) as state:
            saved = json.loads(files.read(_FILE_NAME, _MAX_FILE_BYTES, directory=state))
        counts = [*_counts(saved), saved["findings"]]
        whole = saved["schema_version"] == _SCHEMA_VERSION and all(
            isinstance(count, int) and 0 <= count < 2**63 for count in counts
        )
        named = all(
            isinstance(one["path"], str) and isinstance(one["stamp"], list | None) and isinstance(one["damage"], str)
            for one in saved["named"]
        )
        return saved if whole and named else None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def _counts(saved: dict[str, Any]) -> tuple[int, int, int, int]:
    """Return end, entries, checked entries and beginning; a file of an earlier jcache has no beginning."""
    ended_ns = saved["ended_ns"]
    return ended_ns, saved["entries"], saved["checked"], saved.get("began_ns", ended_ns)


def _to_json(root: Root, finding: Finding) -> dict[str, Any]:
    stamp = _stamp(finding.path) if finding.stamp is None else list(finding.stamp)
    return {"damage": finding.damage, "path": _relative(root, finding.path), "stamp": stamp}


def _relative(root: Root, path: Path) -> str:
    """Return a path relative to the root, or as it is if it lies outside: the ledger of a foreign root does."""
    return str(path.relative_to(root.path) if path.is_relative_to(root.path) else path)


def _stamp(path: Path) -> list[int] | None:
    """Return the stamp of a file, empty for a directory, whose times change with its contents; None if missing."""
    with suppress(OSError, ValueError):
        status = os.lstat(path)
        return [] if stat.S_ISDIR(status.st_mode) else list(Stamp.of(status))
    return None


def _state(root: Root, named: dict[str, Any]) -> _State:
    path = root.path / named["path"]
    found = _stamp(path)
    if found is None or named["stamp"] is None:  # the file is gone, or a missing file was made or lost its entry
        return _State.GONE
    if named["damage"] == Damage.ORPHANED_SIDECAR:
        entry = path.with_name(path.name.removesuffix(SIDECAR_SUFFIX) + ENTRY_SUFFIX)
        return _State.GONE if _stamp(entry) is not None else _State.STILL
    allowed = named["damage"] == Damage.UNREADABLE and os.access(path, os.R_OK)  # a new mode changes no stamp
    return _State.STILL if found == named["stamp"] and not allowed else _State.CHANGED


_SOUND_CONTENT: Final = frozenset({Damage.WRITABLE, Damage.OWNER, Damage.PINS})  # no entry has damaged bytes


def record_verification(store: Store, verification: Verification, findings: Sequence[Finding]) -> None:
    """Save findings that were not repaired, for `jcache info`."""
    root = store.root
    ended_ns = clock.now_ns()
    sound = () if verification.quick else verification.sound
    write(
        root,
        [one for one in findings if one.damage not in _SOUND_CONTENT],
        began_ns=max(ended_ns - round(verification.seconds * 10**9) - _CLOCK_TICK_NS, 0),
        ended_ns=ended_ns,
        entries=verification.entries,
        checked=verification.checked,
        complete=verification.complete,
        sound=(root.place(claim.kind, claim.key) for claim in sound),
    )
