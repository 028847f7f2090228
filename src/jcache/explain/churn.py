"""Recognise functions that get another key in every process, as by an address or the order of a set in the program."""

from __future__ import annotations

from typing import Final

from jcache.explain.baseline import History, Pairing, identity, misses_of, seen_in
from jcache.explain.change import Seen
from jcache.explain.compare import changes
from jcache.explain.programs import Programs
from jcache.runs.calls import BYPASSED, HIT
from jcache.runs.record import RunRecord
from jcache.vocabulary import CauseKind

MAY_CHURN: Final = frozenset({CauseKind.CONSTANT, CauseKind.NAMES, CauseKind.ORDER, CauseKind.PROGRAM})
_EARLIER_RUNS: Final = 2


class Churn:
    """Tells whether a function has another key in every process: 3 runs gave 3 keys, and never a hit.

    Args:
        history: the recorded runs.
        run: the last of the three runs; the others are the two before it with the same command.
        programs: the modules.
    """

    def __init__(self, history: History, run: RunRecord, programs: Programs) -> None:
        earlier = (one for one in history.before(run) if one.command == run.command)
        self._runs = [one for one in earlier if any(process.programs for process in one.processes)][:_EARLIER_RUNS]
        self._programs = programs
        self._pairing = None
        if len(self._runs) == _EARLIER_RUNS:
            self._pairing = Pairing(history, self._runs[0], self._runs[1], programs, is_strict=True)

    def churns(self, miss: Seen) -> bool:
        """Return whether a miss, whose module differs from that of the run before, is one of such a function."""
        if self._pairing is None:
            return False
        name, keys = identity(miss.program), {miss.program.key}
        for run in self._runs:
            found = {seen.program.key for seen in seen_in(run) if identity(seen.program) == name}
            if not found or found & keys:
                return False
            keys |= found
        runs = (miss.run, *self._runs)
        outcomes = {seen.program.outcome for run in runs for seen in seen_in(run) if identity(seen.program) == name}
        return not outcomes & {HIT, BYPASSED} and self._differed_before(name)

    def _differed_before(self, name: str) -> bool:
        """Return whether the two runs before differ in the module as well, and not in a shape, say."""
        earlier = [(n, seen) for n, seen in misses_of(self._runs[0]) if identity(seen.program) == name]
        for position, seen in earlier[:1]:
            other = self._pairing.pair(seen, position) if self._pairing else None
            return other is not None and changes(seen, other, self._programs)[0].item in MAY_CHURN
        return False
