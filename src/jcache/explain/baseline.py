"""Choose what a miss is compared with: the earlier run of the same command, and the program in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from heapq import nsmallest
from pathlib import PurePath
from typing import Final

from jcache.explain import parts
from jcache.explain.change import Seen
from jcache.explain.options import differ_in_jax_options
from jcache.explain.programs import Programs
from jcache.layout import name_of
from jcache.runs.calls import BYPASSED, HIT
from jcache.runs.record import COMPUTATION, ProgramRecord, RunRecord
from jcache.vocabulary import CauseKind

_MAX_COMPARED: Final = 100  # programs of one name: the latest, or those at about the same place in the run before
_MAX_RENAMED: Final = 20  # programs of other names whose modules are compared
_PREFIXES: Final = ("jit_", "pmap_", "pjit_")


def identity(program: ProgramRecord) -> str:
    """Return the name by which a program is found again in another run."""
    name = program.name or (name_of(program.key) if program.key else "") or program.function
    return next((name.removeprefix(prefix) for prefix in _PREFIXES if name.startswith(prefix)), name)


def label(program: ProgramRecord) -> str:
    """Return the name of a program for people: the function's."""
    return program.function or identity(program) or "an unnamed function"


def seconds_of(program: ProgramRecord) -> float:
    """Return what a miss cost: seconds of tracing, lowering and compiling."""
    return program.trace_seconds + program.lower_seconds + (program.compile_seconds or 0.0)


def seen_in(run: RunRecord) -> Iterator[Seen]:
    """Yield the programs of a run, process by process."""
    return (Seen(run, process, program) for process in run.processes for program in process.programs)


class History:
    """The recorded runs of a root.

    Args:
        runs: the runs, the oldest first.
    """

    def __init__(self, runs: Iterable[RunRecord]) -> None:
        self.runs = sorted(runs, key=lambda run: (run.started_ns, run.id))

    @cached_property
    def _by_key(self) -> dict[str, list[Seen]]:
        found: dict[str, list[Seen]] = {}
        for seen in (one for run in self.runs for one in seen_in(run)):
            if seen.program.key is not None:
                found.setdefault(seen.program.key, []).append(seen)
        return found

    @cached_property
    def _by_name(self) -> dict[str, list[Seen]]:
        found: dict[str, list[Seen]] = {}
        for seen in (one for run in self.runs for one in seen_in(run)):
            found.setdefault(identity(seen.program), []).append(seen)
        return found

    @cached_property
    def keys(self) -> set[str]:
        """The keys of all recorded programs."""
        return set(self._by_key)

    def with_key(self, key: str) -> Sequence[Seen]:
        """Return the programs of a key, the oldest first."""
        return self._by_key.get(key, ())

    def with_name(self, name: str) -> Sequence[Seen]:
        """Return the programs of a name, the oldest first."""
        return self._by_name.get(name, ())

    def functions(self) -> set[str]:
        """Return the names of all functions."""
        return {label(seen.program) for programs in self._by_name.values() for seen in programs}

    def before(self, run: RunRecord) -> list[RunRecord]:
        """Return the runs that began before a run, the latest first."""
        earlier = [one for one in self.runs if (one.started_ns, one.id) < (run.started_ns, run.id)]
        return earlier[::-1]

    def previous(self, run: RunRecord) -> RunRecord | None:
        """Return the run that a run is compared with; None if its program has not run before.

        It is the latest with the same command, on the same host if there is one, else the latest of the same program.
        """
        earlier = [one for one in self.before(run) if any(process.programs for process in one.processes)]
        hosts = _hosts(run)
        wanted = (
            lambda one: one.command == run.command and _hosts(one) & hosts,
            lambda one: one.command == run.command,
            lambda one: program_of(one.command) == program_of(run.command) and _hosts(one) & hosts,
            lambda one: program_of(one.command) == program_of(run.command),
        )
        return next((one for fits in wanted for one in earlier if fits(one)), None)


def _hosts(run: RunRecord) -> set[str]:
    return {process.host for process in run.processes}


def program_of(command: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a command that name its program: the interpreter and its options do not."""
    words = list(command)
    if words and PurePath(words[0]).name.startswith("python"):
        words.pop(0)
        while words and words[0].startswith("-") and words[0] not in ("-m", "-c"):
            words.pop(0)
        if words[:1] == ["-m"] or words[:1] == ["-c"]:
            return tuple(words[:2])
    return tuple(words[:1])


class Pairing:
    """Finds, for each miss of a run, the program of an earlier run that it is compared with.

    Args:
        history: the recorded runs.
        run: the run with the misses.
        baseline: the run that it is compared with; None if there is none.
        programs: the modules.
        is_strict: whether a miss is compared with the baseline alone where that has a program of its name; otherwise,
            a program of another of the latest runs is taken if it differs in less.
    """

    def __init__(
        self,
        history: History,
        run: RunRecord,
        baseline: RunRecord | None,
        programs: Programs,
        *,
        is_strict: bool = False,
    ) -> None:
        self._history = history
        self._run = run
        self._programs = programs
        self._is_strict = is_strict
        self._keys = {seen.program.key for seen in seen_in(run)}
        self._used: set[tuple[int, int]] = set()
        self._candidates: dict[str, list[tuple[tuple[int, int], Seen]]] = {}
        for number, process in enumerate(baseline.processes if baseline else ()):
            for position, program in enumerate(process.programs):
                if baseline and program.outcome != BYPASSED:
                    candidate = ((number, position), Seen(baseline, process, program))
                    self._candidates.setdefault(identity(program), []).append(candidate)

    def pair(self, miss: Seen, position: int) -> Seen | None:
        """Return the program that a miss is compared with; None if nothing of its name was compiled before.

        Args:
            miss: the miss.
            position: its position in its process.
        """
        named = self._candidates.get(identity(miss.program), [])
        free = [one for one in named if one[0] not in self._used and one[1].program.key not in self._keys]
        chosen = _nearest(miss, position, free or named)
        if chosen is None:
            return self._elsewhere(miss, position) or self._renamed(miss)
        self._used.add(chosen[0])
        if self._is_strict or (weight := _weight(miss, chosen[1])) == 1:
            return chosen[1]
        nearer = self._elsewhere(miss, position)
        return nearer if nearer and _weight(miss, nearer) < weight else chosen[1]

    def _elsewhere(self, miss: Seen, position: int) -> Seen | None:
        """Return the nearest program of the name in all earlier runs, the latest of those that are as near."""
        start = (self._run.started_ns, self._run.id)
        earlier = [
            seen
            for seen in self._history.with_name(identity(miss.program))
            if (seen.run.started_ns, seen.run.id) < start and seen.program.outcome != BYPASSED
        ][-_MAX_COMPARED:]
        found = _nearest(miss, position, [((-n, 0), seen) for n, seen in enumerate(earlier)])
        return found and found[1]

    def _renamed(self, miss: Seen) -> Seen | None:
        """Return a program of another name in the baseline whose module differs from that of a miss in names alone."""
        module = miss.program.parts.get(COMPUTATION)
        if module is None:
            return None
        types = [argument.type for argument in miss.program.arguments]
        alike = [
            (place, seen)
            for candidates in self._candidates.values()
            for place, seen in candidates
            if place not in self._used
            and seen.program.key not in self._keys
            and [argument.type for argument in seen.program.arguments] == types
        ]
        for place, seen in alike[:_MAX_RENAMED]:
            other = seen.program.parts.get(COMPUTATION)
            change = None if other is None or other == module else self._programs.compare(module, other)
            if change is not None and change.item is CauseKind.NAMES:
                self._used.add(place)
                return seen
        return None


def _nearest(
    miss: Seen, position: int, candidates: Sequence[tuple[tuple[int, int], Seen]]
) -> tuple[tuple[int, int], Seen] | None:
    """Return the candidate that differs least from a miss."""

    def distance(candidate: tuple[tuple[int, int], Seen]) -> tuple[object, ...]:
        (number, place), seen = candidate
        ours, theirs = miss.program, seen.program
        return (
            ours.source != theirs.source,
            _weight(miss, seen),
            sum(a != b for a, b in zip(ours.arguments, theirs.arguments, strict=False)),
            len(ours.arguments) != len(theirs.arguments),
            miss.process.rank != seen.process.rank,
            number if number < 0 else abs(position - place),
            number,
        )

    if len(candidates) > _MAX_COMPARED:
        candidates = nsmallest(_MAX_COMPARED, candidates, key=lambda one: abs(position - one[0][1]))
    return min(candidates, key=distance, default=None)


def _weight(current: Seen, baseline: Seen) -> int:
    """Return in how many ways two programs differ."""
    ours, theirs = current.program, baseline.program
    differing = parts.differing(ours, theirs)
    has_other_options = COMPUTATION in differing and differ_in_jax_options(current, baseline)
    if parts.FLAGS in differing:
        differing -= {parts.OPTIONS}  # they follow from the flags
    is_unknown = ours.parts.keys() != theirs.parts.keys()
    return (
        len(differing)
        + 9 * is_unknown
        + has_other_options
        + (ours.arguments != theirs.arguments)
        + (ours.static != theirs.static)
    )


def misses_of(run: RunRecord) -> list[tuple[int, Seen]]:
    """Return the misses of a run, each with its position in its process."""
    return [
        (position, Seen(run, process, program))
        for process in run.processes
        for position, program in enumerate(process.programs)
        if program.outcome not in (HIT, BYPASSED)
    ]
