"""Add the causes of misses up over runs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from jcache.explain.baseline import History
from jcache.explain.diagnosis import diagnose
from jcache.explain.evidence import Evidence
from jcache.explain.programs import Programs
from jcache.units import rfc3339
from jcache.vocabulary import CauseKind


class CauseUsage(NamedTuple):
    """What a cause has cost over some runs.

    Attributes:
        item: the cause.
        name: the name of what changed; empty if it has none.
        misses: the number of misses.
        seconds: what they took: tracing, lowering and compiling.
        runs: in how many runs.
        last_ns: when the last of the runs began, in nanoseconds since 1970.
    """

    item: CauseKind
    name: str
    misses: int
    seconds: float
    runs: int
    last_ns: int

    @property
    def title(self) -> str:
        """The cause in words, such as ``shape of batch``."""
        between = (
            " "
            if self.item in (CauseKind.STATIC, CauseKind.JAX_OPTION, CauseKind.COMPILE_OPTION, CauseKind.KEY_PART)
            else " of "
        )
        return f"{self.item}{between}{self.name}" if self.name else str(self.item)

    def to_json(self) -> dict[str, Any]:
        """Return the cause as data for ``json.dumps``."""
        fields = self._asdict()
        return {**fields, "item": str(self.item), "last": rfc3339(fields.pop("last_ns"))}


def causes_of(history: History, runs: Collection[str], programs: Programs, evidence: Evidence) -> list[CauseUsage]:
    """Return the causes of the misses of some runs, the dearest first.

    Args:
        history: the recorded runs.
        runs: identifiers of the runs that count.
        programs: the modules and compile options.
        evidence: what the root knows of entries that are gone.
    """
    found: dict[tuple[CauseKind, str], CauseUsage] = {}
    for run in history.runs:
        if run.id not in runs:
            continue
        of_run: dict[tuple[CauseKind, str], CauseUsage] = {}
        for cause in diagnose(history, run, programs, evidence).causes:
            one = CauseUsage(cause.item, cause.name, cause.misses, cause.seconds, 1, run.started_ns)
            _add(of_run, one, runs=0)
        for one in of_run.values():
            _add(found, one, runs=1)
    return sorted(found.values(), key=lambda one: (-one.seconds, one.item, one.name))


def _add(found: dict[tuple[CauseKind, str], CauseUsage], one: CauseUsage, *, runs: int) -> None:
    before = found.get((one.item, one.name))
    if before is not None:
        one = one._replace(
            misses=before.misses + one.misses, seconds=before.seconds + one.seconds, runs=before.runs + runs
        )
    found[one.item, one.name] = one
