"""A diagnosis as a value: the causes of a run's misses."""

from __future__ import annotations

from typing import Any, NamedTuple

from jcache.explain.change import Seen
from jcache.runs.record import RunRecord
from jcache.vocabulary import CauseKind


class Cause(NamedTuple):
    """A cause of misses.

    Attributes:
        item: the cause, a word of `jcache.vocabulary`.
        name: the name of what changed; empty if it has none.
        function, source: the dearest function that missed, and its file and line.
        current, baseline: the values in this run and in the one that it is compared with.
        reason: why it led to misses.
        resolution: what to do.
        misses: the number of misses.
        seconds: what they took: tracing, lowering and compiling.
        functions: the functions that missed, the dearest first.
        programs: the misses, the dearest first.
        compared: what the dearest was compared with; None if nothing was.
    """

    item: CauseKind
    name: str
    function: str
    source: str
    current: str
    baseline: str
    reason: str
    resolution: str
    misses: int
    seconds: float
    functions: tuple[str, ...]
    programs: tuple[Seen, ...]
    compared: Seen | None

    def to_json(self) -> dict[str, Any]:
        """Return the cause as data for ``json.dumps``."""
        fields: dict[str, Any] = self._asdict() | {"functions": list(self.functions)}
        fields["item"] = str(self.item)
        fields["keys"] = [seen.program.key for seen in fields.pop("programs")]
        fields["compared_with"] = None if self.compared is None else self.compared.program.key
        del fields["compared"]
        return fields


class Bypass(NamedTuple):
    """A function that was compiled without a look-up.

    Attributes:
        function: its name.
        reason: why.
        resolution: what to do.
        times: how often.
        seconds: what it took.
    """

    function: str
    reason: str
    resolution: str
    times: int
    seconds: float


class Diagnosis(NamedTuple):
    """Why the programs of a run missed.

    Attributes:
        run: the run.
        baseline: the run that it was compared with; None if there was none.
        hits, misses, bypassed: numbers of executables.
        causes: the causes, the dearest first.
        bypasses: the functions that were bypassed, the dearest first.
        seconds: tracing, lowering and compiling in the run.
        notices: sentences on what could not be told.
    """

    run: RunRecord
    baseline: RunRecord | None
    hits: int
    misses: int
    bypassed: int
    causes: tuple[Cause, ...]
    bypasses: tuple[Bypass, ...]
    seconds: float
    notices: tuple[str, ...] = ()

    @property
    def repeated_seconds(self) -> float:
        """The seconds that went into what had been compiled before in some form."""
        return sum(cause.seconds for cause in self.causes if cause.item is not CauseKind.FIRST_TIME)

    def to_json(self) -> dict[str, Any]:
        """Return the diagnosis as data for ``json.dumps``."""
        return {
            "run": self.run.id,
            "baseline": None if self.baseline is None else self.baseline.id,
            "hits": self.hits,
            "misses": self.misses,
            "bypassed": self.bypassed,
            "seconds": self.seconds,
            "repeated_seconds": self.repeated_seconds,
            "causes": [cause.to_json() for cause in self.causes],
            "bypasses": [bypass._asdict() for bypass in self.bypasses],
            "notices": list(self.notices),
        }
