"""Compare two keys: by what runs have recorded of them, else by what their entries say."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from jcache.explain.baseline import History, seconds_of
from jcache.explain.change import Change, Seen
from jcache.explain.compare import changes
from jcache.explain.programs import Programs
from jcache.explain.root_evidence import RootEvidence
from jcache.layout import name_of
from jcache.runs.record import COMPUTATION
from jcache.vocabulary import VOCABULARY, CauseKind

_TWO_FUNCTIONS: Final = "these are keys of two different functions"
_UNKNOWN_RUN: Final = {"command": "CMD", "environment": "", "root": ""}


class Comparison(NamedTuple):
    """The differences of two keys.

    Attributes:
        current: the key that is explained.
        baseline: the key that it is compared with; None if there is nothing of its name.
        is_recorded: whether runs have recorded both, so that all parts of the keys were compared.
        changes: what differs, in the vocabulary's order.
        seconds: what compiling the first key took; 0 if that is not known.
        current_module, baseline_module: hashes of the modules; None if they are not known.
    """

    current: str
    baseline: str | None
    is_recorded: bool
    changes: tuple[Change, ...]
    seconds: float = 0.0
    current_module: str | None = None
    baseline_module: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as data for ``json.dumps``, with the fields that a diagnosis has."""
        return {
            "run": None,
            "key": self.current,
            "baseline": self.baseline,
            "recorded": self.is_recorded,
            "causes": [
                {
                    "item": str(change.item),
                    "name": change.name,
                    "current": change.current,
                    "baseline": change.baseline,
                    **words_of(change)._asdict(),
                }
                for change in self.changes
            ],
        }


class _ChangeWords(NamedTuple):
    reason: str
    resolution: str


def words_of(change: Change) -> _ChangeWords:
    """Return what the vocabulary says about a change."""
    words, about = VOCABULARY[change.item], {"name": change.name or "this", **_UNKNOWN_RUN}
    return _ChangeWords(change.note or words.reason.format_map(about), words.resolution.format_map(about))


def compare_keys(
    history: History, current: str, baseline: str | None, programs: Programs, evidence: RootEvidence
) -> Comparison:
    """Return what differs between two keys.

    Args:
        history: the recorded runs.
        current: the key that is explained.
        baseline: the key that it is compared with; None for the nearest entry of its name.
        programs: the modules and compile options.
        evidence: the entries.
    """
    if baseline is None:
        others = {key: evidence.compared(current, key) for key in evidence.others_of(current)[:8]}
        baseline = min(others, key=lambda key: len(others[key]), default=None)
    if baseline is None:
        return Comparison(current, None, is_recorded=False, changes=())
    if name_of(current) != name_of(baseline):
        other = Change(CauseKind.PROGRAM, "", name_of(current), name_of(baseline), note=_TWO_FUNCTIONS)
        return Comparison(current, baseline, is_recorded=False, changes=(other,))
    ours, theirs = (_with_parts(history, key) for key in (current, baseline))
    if ours is None or theirs is None or current == baseline:
        found = [] if current == baseline else evidence.compared(current, baseline)
        return Comparison(current, baseline, is_recorded=False, changes=tuple(found))
    return Comparison(
        current,
        baseline,
        is_recorded=True,
        changes=tuple(changes(ours, theirs, programs)),
        seconds=seconds_of(ours.program),
        current_module=ours.program.parts.get(COMPUTATION),
        baseline_module=theirs.program.parts.get(COMPUTATION),
    )


def _with_parts(history: History, key: str) -> Seen | None:
    """Return the latest record of a key that has the parts of it."""
    return next((seen for seen in reversed(history.with_key(key)) if seen.program.parts), None)
