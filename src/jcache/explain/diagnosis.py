"""Diagnose a run: for each miss one cause, in the order of `jcache.vocabulary`, and the causes grouped by what changed.

The order is: bypassed, damaged, absent in another process, evicted since, could not be stored, seen for the first time,
key changed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from jcache.explain.baseline import History, Pairing, label, misses_of, seconds_of, seen_in
from jcache.explain.change import Change, Seen
from jcache.explain.churn import MAY_CHURN, Churn
from jcache.explain.compare import changes, process_changes
from jcache.explain.evidence import Evidence, NoEvidence
from jcache.explain.grouping import MissCause, first_of, group, is_operation, with_consequences
from jcache.explain.programs import Programs
from jcache.explain.result import Bypass, Cause, Diagnosis
from jcache.explain.trends import trend
from jcache.runs.calls import BYPASSED, HIT, NOT_STORED
from jcache.runs.log_messages import ABSENT_IN_ANOTHER
from jcache.runs.record import ProgramRecord, RunRecord
from jcache.text import quoted, shown
from jcache.vocabulary import KEEP_PINNED, VOCABULARY, CauseKind, bypass_resolution, not_stored_resolution

_DAMAGED: Final = "the entry was damaged"
_UNREADABLE: Final = "the cache could not be read"
_FOREVER_NS: Final = 1 << 63
_BY_HAND: Final = ("by jcache rm", "by jcache clear")
_BY_OTHERS: Final = (
    "only process 0 writes",
    "another process of the job",
    "an entry with this key was there already",
    ABSENT_IN_ANOTHER,
)


def diagnose(
    history: History,
    run: RunRecord,
    programs: Programs,
    evidence: Evidence | None = None,
    *,
    baseline: RunRecord | None = None,
    function: str | None = None,
    key: str | None = None,
    root: str | None = None,
) -> Diagnosis:
    """Return why the programs of a run missed.

    Args:
        history: the recorded runs.
        run: one of them.
        programs: the modules and compile options.
        evidence: what a root knows of entries that are gone.
        baseline: the run to compare with; None for the one that `History.previous` chooses.
        function: only programs of this function; None for all.
        key: only programs of this key; None for all.
        root: the value of ``--root`` for commands that are suggested; None for the default root.
    """
    is_strict = baseline is not None
    baseline = history.previous(run) if baseline is None else baseline
    pairing = Pairing(history, run, baseline, programs, is_strict=is_strict)
    examiner = _Examiner(history, run, pairing, programs, evidence or NoEvidence(), baseline)
    findings = [examiner.examine(miss, position) for position, miss in misses_of(run)]

    def is_wanted(program: ProgramRecord) -> bool:
        return (function is None or label(program) == function) and (key is None or program.key == key)

    wanted = [seen.program for seen in seen_in(run) if is_wanted(seen.program)]
    causes = [
        _cause(first_of(alike), some, history, run, root)
        for alike in with_consequences(group(findings))
        if (some := [found for found in alike if is_wanted(found.miss.program)])
    ]
    return Diagnosis(
        run=run,
        baseline=baseline,
        hits=sum(program.outcome == HIT for program in wanted),
        misses=sum(cause.misses for cause in causes),
        bypassed=sum(program.outcome == BYPASSED for program in wanted),
        causes=tuple(sorted(causes, key=lambda cause: (-cause.seconds, -cause.misses))),
        bypasses=_bypasses(wanted),
        seconds=sum(map(seconds_of, wanted)),
        notices=() if programs.notice is None else (programs.notice,),
    )


class _Examiner:
    """Finds the cause of each miss of a run."""

    def __init__(
        self,
        history: History,
        run: RunRecord,
        pairing: Pairing,
        programs: Programs,
        evidence: Evidence,
        baseline: RunRecord | None,
    ) -> None:
        self._history = history
        self._run = run
        self._baseline = baseline
        self._programs = programs
        self._evidence = evidence
        self._pairing = pairing
        self._before: dict[str, Seen] = {}  # the programs of this run that came before, by key
        self._churning = Churn(history, run, programs)
        later = (one.started_ns for one in history.runs if one.started_ns > run.started_ns)
        self._next_ns = min(later, default=_FOREVER_NS)  # when the next run began

    def examine(self, miss: Seen, position: int) -> MissCause:
        """Return the cause of a miss; the misses come in their order."""
        reason = miss.program.reason or ""
        if reason.startswith(_DAMAGED):
            found = MissCause(miss, Change(CauseKind.DAMAGED, "", "", ""), detail=reason)
        elif reason.startswith(_UNREADABLE):
            found = MissCause(miss, Change(CauseKind.UNREADABLE, "", "", ""), detail=reason)
        elif reason == ABSENT_IN_ANOTHER:
            found = MissCause(miss, Change(CauseKind.ABSENT, "", "", ""))
        else:
            found = self._known_key(miss) or self._new_key(miss, position)
        if miss.program.key is not None:
            self._before.setdefault(miss.program.key, miss)
        return found

    def _known_key(self, miss: Seen) -> MissCause | None:
        """Return the cause where the key has been seen before; None if it has not."""
        key = miss.program.key
        if key is None:
            return None
        first = self._before.get(key)
        if first is not None and first.process is miss.process:
            return _not_stored(miss, first) or MissCause(miss, Change(CauseKind.MEANWHILE, "", "", ""))
        if first is not None and (found := _not_stored(miss, first)):
            return found
        start = (self._run.started_ns, self._run.id)
        earlier = [seen for seen in self._history.with_key(key) if (seen.run.started_ns, seen.run.id) < start]
        last = next((seen for seen in reversed(earlier) if seen.program.outcome != BYPASSED), None)
        if last is not None and (found := _not_stored(miss, last)):
            return found
        after_ns = 0 if last is None else last.run.started_ns  # the entry was there then
        until_ns = self._run.started_ns if last is None else self._next_ns  # this run itself may have found the damage
        if what := self._evidence.damage(key, after_ns, until_ns):
            return MissCause(miss, Change(CauseKind.DAMAGED, "", "", ""), detail=what)
        removal = self._evidence.removal(key, after_ns, self._run.started_ns)
        if last is None and removal is None:
            return None
        return MissCause(miss, Change(CauseKind.EVICTED, "", "", ""), other=last, detail=removal or "")

    def _new_key(self, miss: Seen, position: int) -> MissCause:
        other = self._pairing.pair(miss, position)
        if other is None:
            change = self._evidence.nearest_entry(miss.program)
            return MissCause(miss, change or self._first_time(miss), other=None)
        found = changes(miss, other, self._programs)
        first = found[0]
        if first.item in MAY_CHURN and self._churning.churns(miss):
            first = first._replace(item=CauseKind.CHURN)
        return MissCause(miss, first, other=other)

    def _first_time(self, miss: Seen) -> Change:
        """Return the cause of a function that is new: an operation of JAX's own may follow from what changed."""
        if self._baseline is not None and is_operation(miss.program):
            others = [seen for seen in seen_in(self._baseline) if seen.process.rank == miss.process.rank]
            for seen in others[:1]:
                for change in process_changes(miss, seen):
                    return change
        return Change(CauseKind.FIRST_TIME, "", "", "")


def _not_stored(miss: Seen, last: Seen) -> MissCause | None:
    """Return the cause where the program could not be stored when it was last compiled."""
    reason = last.program.reason or ""
    if last.program.outcome != NOT_STORED or reason.startswith((*_BY_OTHERS, _DAMAGED, _UNREADABLE)):
        return None
    return MissCause(miss, Change(CauseKind.NOT_STORED, "", "", ""), other=last, detail=reason)


def _cause(first: MissCause, alike: Sequence[MissCause], history: History, run: RunRecord, root: str | None) -> Cause:
    """Return the cause of findings that are alike, or of some of them; the first one, of all, names it."""
    dearest = sorted(alike, key=lambda found: -seconds_of(found.miss.program))
    change = first.change
    shown_first = first if any(found is first for found in alike) else dearest[0]
    detail = first.detail or change.note or trend(history, run, first.miss, change)
    words = VOCABULARY[change.item]
    resolution = not_stored_resolution(detail) if change.item is CauseKind.NOT_STORED else words.resolution
    if change.item is CauseKind.EVICTED and detail.endswith(_BY_HAND):
        resolution = KEEP_PINNED
    about = {
        "name": change.name or "this",
        "command": " ".join(map(quoted, _to_start(run.command))) or "CMD",
        "environment": _variables(shown_first),
        "root": "" if root is None else f" --root {quoted(root)}",
    }
    return Cause(
        item=change.item,
        name=change.name,
        function=label(shown_first.miss.program),
        source=shown_first.miss.program.source,
        current=change.current,
        baseline=change.baseline,
        reason=shown(detail or words.reason.format_map(about)),
        resolution=resolution.format_map(about),
        misses=len(alike),
        seconds=sum(seconds_of(found.miss.program) for found in alike),
        functions=tuple(dict.fromkeys(label(found.miss.program) for found in dearest)),
        programs=tuple(found.miss for found in dearest),
        compared=shown_first.other,
    )


def _to_start(command: Sequence[str]) -> Sequence[str]:
    """Return a command that can be started: a program that calls `jcache.enable()` does not know its interpreter."""
    is_code = command[:1] and (command[0] in ("-c", "-m") or command[0].endswith(".py"))
    return ["python", *command] if is_code and not os.access(command[0], os.X_OK) else command


def _variables(found: MissCause) -> str:
    """Return the variables of a miss that the program that it is compared with did not have, for a shell."""
    if found.other is None:
        return ""
    ours, theirs = found.miss.process.variables, found.other.process.variables
    changed = [f"{name}={quoted(value)} " for name, value in sorted(ours.items()) if theirs.get(name) != value]
    return "".join(changed)


def _bypasses(programs: Sequence[ProgramRecord]) -> tuple[Bypass, ...]:
    found: dict[tuple[str, str], Bypass] = {}
    for program in programs:
        if program.outcome == BYPASSED:
            reason = program.reason or VOCABULARY[CauseKind.BYPASSED].reason
            name = label(program)
            before = found.get((name, reason)) or Bypass(name, reason, bypass_resolution(reason), 0, 0.0)
            seconds = before.seconds + seconds_of(program)
            found[name, reason] = before._replace(times=before.times + 1, seconds=seconds)
    return tuple(sorted(found.values(), key=lambda bypass: -bypass.seconds))
