"""Compare what surrounds two recorded programs: versions, XLA's flags, devices, the machine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from jcache.explain import parts
from jcache.explain.change import Change, Seen
from jcache.runs.record import COMPUTATION, ProcessRecord
from jcache.vocabulary import CauseKind

_FLAG: Final = re.compile(r"--?[A-Za-z]\S*?(?=--|\s|$)")
_NO_FLAGS: Final = ("--xla_force_host_platform_device_count", "--xla_dump_", "--xla_gpu_cuda_data_dir")


def surroundings(current: Seen, baseline: Seen, differing: frozenset[str]) -> Iterator[Change]:
    """Yield what differs in the surroundings of two programs whose keys differ in these parts."""
    ours, theirs = current.process, baseline.process
    new, old = f"{ours.jax} {ours.jaxlib}", f"{theirs.jax} {theirs.jaxlib}"
    if new != old and differing & {parts.JAXLIB, parts.OPTIONS, COMPUTATION}:
        yield from version_changes(ours, theirs)
    elif parts.JAXLIB in differing:
        yield Change(CauseKind.VERSION, "jaxlib", *parts.values(current, baseline, parts.JAXLIB))
    moved = [*device_changes(ours, theirs)]
    if parts.PLATFORM in differing and not moved:
        yield Change(CauseKind.PLATFORM, "", *parts.values(current, baseline, parts.PLATFORM))
    added, removed = _flag_change(current, baseline) if differing & {parts.FLAGS, parts.OPTIONS} else ("", "")
    if added or removed:
        yield Change(CauseKind.XLA_FLAGS, "", added, removed)
    elif parts.FLAGS in differing:
        yield Change(CauseKind.XLA_FLAGS, "", *parts.hashes(current, baseline, parts.FLAGS))
    if differing & {parts.PLATFORM, parts.TOPOLOGY, parts.DEVICES, parts.OPTIONS, COMPUTATION}:
        yield from moved
    if differing & {parts.TOPOLOGY, parts.DEVICES} and not moved:
        yield _another_place(ours, theirs)


def _another_place(ours: ProcessRecord, theirs: ProcessRecord) -> Change:
    """Return the change of a topology where the devices are of the same kinds."""
    if ours.host == theirs.host and ours.rank != theirs.rank:  # each rank has devices of its own
        return Change(CauseKind.DEVICES, "", f"rank {ours.rank}", f"rank {theirs.rank}")
    return Change(CauseKind.CPU, "", *((ours.host, theirs.host) if ours.host != theirs.host else ("", "")))


def version_changes(ours: ProcessRecord, theirs: ProcessRecord) -> Iterator[Change]:
    """Yield the change of jax's and jaxlib's versions, if there is one."""
    names = [name for name in ("jax", "jaxlib") if getattr(ours, name) != getattr(theirs, name)]
    if names:
        new, old = (", ".join(getattr(process, name) for name in names) for process in (ours, theirs))
        yield Change(CauseKind.VERSION, " and ".join(names), new, old)


def device_changes(ours: ProcessRecord, theirs: ProcessRecord) -> Iterator[Change]:
    """Yield the change of the devices, if there is one."""
    if ours.devices != theirs.devices or ours.platform != theirs.platform:
        new, old = (", ".join(process.devices) or process.platform for process in (ours, theirs))
        yield Change(CauseKind.DEVICES, "", new, old)


def flags_in(text: str) -> list[str]:
    """Return the flags in a text that may separate them by blanks or by nothing, without those that are in no key."""
    return [flag for flag in _FLAG.findall(text) if not flag.startswith(_NO_FLAGS)]


def _flags(seen: Seen) -> list[str]:
    value = parts.value(seen, parts.FLAGS)
    return flags_in(seen.process.variables.get("XLA_FLAGS", "") if value is None else value)


def _flag_change(current: Seen, baseline: Seen) -> tuple[str, str]:
    """Return the flags that only the current program has, and those that only the baseline has."""
    ours, theirs = _flags(current), _flags(baseline)
    added, removed = ([flag for flag in a if flag not in b] for a, b in ((ours, theirs), (theirs, ours)))
    return " ".join(added), " ".join(removed)
