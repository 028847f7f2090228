"""Small programs as users write them: how many of them start warm?

    python -m tests.proofs.ordinary                 every program, in a table
    python -m tests.proofs.ordinary NAME…           those with one of these words in their names, as `world/cwd_abspath`

They stand in `tests/data/ordinary/*.md`, in the form of `tests/proofs/changes.py`; `needs` names the modules without
which one is left out. A program is warm if all its calls are served at its third start: those that ask for a clock, or
the like, are compared at their second.
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from tests.proofs.changes import Case, Program, cases

DATA: Final = Path(__file__).parents[1] / "data" / "ordinary"
STARTS: Final = 3


class Warmth(NamedTuple):
    """How a program has started for the last time.

    Attributes:
        name: of the program.
        is_warm: whether all its calls were served.
        reason: why not, or how the program failed.
    """

    name: str
    is_warm: bool
    reason: str


def programs(words: Sequence[str] = ()) -> list[Case]:
    """Return the programs with one of some words in their names, all without words, if what they need is there."""
    return [case for case in cases(words, DATA) if all(map(find_spec, case.options.get("needs", ())))]


def started(case: Case, place: Path, starts: int = STARTS) -> Warmth:
    """Start a program several times, and tell how the last start was."""
    kind = case.options.get("kinds", ("jit",))[0]
    program = Program(case, kind, place / case.name)
    for _ in range(starts):
        last = program.start(0)
        if last.error:
            return Warmth(case.name, False, last.error)
    reasons = dict.fromkeys(reason or outcome for outcome, reason in last.calls if outcome != "hit")
    return Warmth(case.name, last.is_served, "; ".join(reasons) or "" if last.calls else "no call is told")


def main() -> None:
    found = []
    with tempfile.TemporaryDirectory(prefix="jcache-ordinary-") as place:
        for case in programs(sys.argv[1:]):
            each = started(case, Path(place))
            found.append(each)
            print(
                f"{'warm' if each.is_warm else 'cold'}  {case.category}/{each.name}  {each.reason[-400:]}", flush=True
            )
    cold = [each.name for each in found if not each.is_warm]
    print(f"{len(cold)} of {len(found)} are not warm at the third start:{os.linesep}{' '.join(cold)}")


if __name__ == "__main__":
    main()
