"""Compare the processes of a distributed program, and hosts that share a root: which request the same executables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from jcache.explain.baseline import History, identity, label, seen_in
from jcache.explain.change import Change, Seen
from jcache.explain.compare import changes
from jcache.explain.programs import Programs
from jcache.runs.calls import BYPASSED
from jcache.runs.record import RunRecord
from jcache.text import shown
from jcache.vocabulary import CauseKind

_MAX_HOSTS: Final = 1000

Member = tuple[str, int]  # host and rank


class Agreement(NamedTuple):
    """Processes that requested the same executables.

    Attributes:
        members: host and rank of each.
        function: the first function in which they differ from the largest group; empty for that group.
        source: its file and line.
        change: what differs there; None for the largest group, and for a function that it does not have.
    """

    members: tuple[Member, ...]
    function: str = ""
    source: str = ""
    change: Change | None = None


def agreements(history: History, run: RunRecord, programs: Programs) -> list[Agreement]:
    """Return the groups of processes of a run, and of the same command on other hosts, that request the same keys.

    The largest group comes first. The list is empty if there is only one rank on one host.
    """
    members = _members(history, run)
    if len(members) == 1 or not members:
        return []
    groups: dict[frozenset[str], list[Member]] = {}
    for member, programs_seen in members.items():
        groups.setdefault(_keys(programs_seen), []).append(member)
    sizes = Counter({keys: len(alike) for keys, alike in groups.items()})
    ordered = sorted(groups, key=lambda keys: (-sizes[keys], min(groups[keys])))
    reference = members[min(groups[ordered[0]])]
    first = Agreement(tuple(sorted(groups[ordered[0]])))
    return [first, *(_difference(members, sorted(groups[keys]), reference, programs) for keys in ordered[1:])]


def _members(history: History, run: RunRecord) -> dict[Member, list[Seen]]:
    """Return what each rank on each host requested: in this run, and on others in the last run of the same command."""
    found: dict[Member, list[Seen]] = {}
    runs = [run, *(one for one in history.runs[::-1] if one.command == run.command and one.id != run.id)]
    for one in runs:
        here: dict[Member, list[Seen]] = {}
        for seen in seen_in(one):
            if seen.program.key is not None and seen.program.outcome != BYPASSED:
                here.setdefault((shown(seen.process.host), seen.process.rank), []).append(seen)
        for member, programs in here.items():
            if len(found) < _MAX_HOSTS:
                found.setdefault(member, programs)
    return found


def _keys(programs: Sequence[Seen]) -> frozenset[str]:
    return frozenset(seen.program.key for seen in programs if seen.program.key is not None)


def _difference(
    members: dict[Member, list[Seen]], alike: Sequence[Member], reference: Sequence[Seen], programs: Programs
) -> Agreement:
    """Return a group of processes with the first function in which it differs from the largest group."""
    ours, theirs = members[alike[0]], reference
    keys, others = _keys(ours), _keys(theirs)
    for seen in ours:
        if seen.program.key not in others:
            name = identity(seen.program)
            named = [o for o in theirs if identity(o.program) == name and o.program.key not in keys]
            change = _change(seen, named[0], programs) if named else None
            return Agreement(tuple(alike), label(seen.program), seen.program.source, change)
    missing = next(seen for seen in theirs if seen.program.key not in keys)
    return Agreement(tuple(alike), label(missing.program), missing.program.source)


def _change(ours: Seen, theirs: Seen, programs: Programs) -> Change:
    """Return what differs between two ranks, besides the devices that each has of its own, if there is more."""
    found = changes(ours, theirs, programs)
    return next((change for change in found if change.item is not CauseKind.DEVICES), found[0])
