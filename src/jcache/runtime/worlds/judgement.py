"""Whether an entry may be served in a world: it was compared there, or in a world that differs without effect."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from jcache.fingerprint.attributes import HANDED_ON
from jcache.fingerprint.chance import STATE_OF
from jcache.fingerprint.loose import FUNCTIONS
from jcache.formats.envelope import EnvelopeHeader
from jcache.runs.calls import COMPARING
from jcache.runtime import side_effects
from jcache.runtime.worlds import inputs
from jcache.runtime.worlds.comparisons import Compared, Comparisons
from jcache.runtime.worlds.world import LOOSE, World
from jcache.store.lineage import version_of

_ONE_IN: Final = 50
_BY_CHANCE: Final = "it may be another in each process"
_NOT_COMPARED: Final = "it was not compared in this world"
_PROVISIONAL: Final = 2  # starts that compare a result which may be by chance
_chance: Final = random.Random()  # noqa: S311  of our own: the program's is as the program left it
_LEARNT_AFTER: Final = {
    **dict.fromkeys(
        ("argument", "arguments", "directory", "environment", "resolution", "further", "input", "inputs"), 3
    ),
    "loose": 1,
}
_RANKS: Final = {
    kind: rank
    for rank, kind in enumerate(
        "source edited code interpreter distribution environment input inputs argument arguments directory".split()  # noqa: SIM905
    )
}  # the order in which kinds of components are told
_FURTHER: Final = (f"{LOOSE}globals of ", LOOSE + HANDED_ON)  # values that code may read in ways that are not known
_SHOWN: Final = 3
_STATE: Final = LOOSE + STATE_OF
_MOST_DRAWN: Final = 4  # results that differ by the state of a shared random generator alone
_DRAWN: Final = "the random generator that it draws from had another state at each start: seed it, or pass one in"
SEEDED: Final = "it draws from a random generator that the program has seeded, which a hit would leave as it is"
OTHER_FILES: Final = "it reads other files at each start"
_MOST: Final = 16  # comparisons of a key that are looked at


_Row = tuple[Compared, Mapping[str, str]]  # a comparison, and the components of its world


class Check(StrEnum):
    """Which starts that a stored result would serve make it again and compare: first ones in a world, all, or none."""

    FIRST = "first"
    SAMPLE = "sample"  # another word for it
    ALWAYS = "always"
    NEVER = "never"


class Judgement(NamedTuple):
    """What is known about a call in a world.

    Attributes:
        compared: the comparison whose entry serves, or is to be compared; None if there is none.
        may_serve: whether the entry may be served without a comparison.
        is_exact: whether the entry was compared in this very world.
        new: what is new in this world, such as ``train.py changed``; empty if nothing is.
        refused: why nothing may be served or stored in this world, None if it may.
        has_same_state: whether a random generator of the process that the code names had this same state then.
    """

    compared: Compared | None = None
    may_serve: bool = False
    is_exact: bool = False
    new: str = ""
    refused: str | None = None
    has_same_state: bool = False

    def is_of(self, entry: EnvelopeHeader) -> bool:
        """Return whether an entry is the one that was compared, and not a later one of its key."""
        known = self.compared
        return known is not None and (known.text, known.version) == (entry.key, version_of(entry))

    def reason(self) -> str:
        """Return why the entry is made again and compared."""
        if self.new:
            return f"{self.new}: it is made again and compared at the next start"
        if self.compared is not None and self.compared.left:
            return f"{_BY_CHANCE}: {self.compared.left} more starts compare it"
        return f"{_NOT_COMPARED}: it is made again and compared at the next start"

    def reason_now(self) -> str:
        """Return why the entry is made again and compared by this start."""
        if not self.new and self.compared is not None and (more := self.compared.left):
            return f"{_BY_CHANCE}: this start compares it" + (f", and {more - 1} more" if more > 1 else "")
        return self.new or (COMPARING if self.compared is not None else _NOT_COMPARED)

    def left_after(self, *, by_chance: bool, same: bool) -> int:
        """Return how many starts have still to compare after this one.

        Args:
            by_chance: whether something was asked for that is another thing in each process.
            same: whether this start has found the entry to be the same.
        """
        if same and self.compared is not None:
            return max(0, self.compared.left - 1)
        return _PROVISIONAL if by_chance else 0


def judge(comparisons: Comparisons, key: str, world: World, check: Check, *, samples: bool = True) -> Judgement:
    """Return what is known about a call in a world.

    Args:
        comparisons: what was compared.
        key: the key of the call.
        world: the world.
        check: which starts compare.
        samples: whether this process is one that compares at one start in 50 what has made no difference so far.
    """
    known = comparisons.of(key)
    same = [each for each in known if each.world == world.digest]
    if same and same[-1].is_refusal:
        return Judgement(refused=same[-1].text)
    if shared := _refused_alike(comparisons, known, world, side_effects.REASON):
        return Judgement(refused=shared)
    served = [each for each in known if not each.is_refusal]
    if check is Check.NEVER or not served:
        return Judgement(served[-1] if served else None, may_serve=check is Check.NEVER)
    if same:
        last = same[-1]
        may_serve, has_same_state = last.left == 0 and check is not Check.ALWAYS, any(_states(world.components))
        return Judgement(last, may_serve, is_exact=True, has_same_state=has_same_state)
    if shared := _refused_alike(comparisons, known, world, OTHER_FILES):
        return Judgement(refused=shared)
    rows = [(each, row) for each in served[-_MOST:] if (row := comparisons.components(each.world)) is not None]
    now = world.components
    between = [differing(row, now) for _, row in rows]
    alike = [each for each, labels in zip(rows, between, strict=True) if all(map(_learnt_after, labels))]
    learnt = {text: _learnt(alike, text, now) for text in {each.text for each, _ in rows}}
    left = [labels - learnt[each.text] for (each, _), labels in zip(rows, between, strict=True)]
    for (each, _), labels in zip(reversed(rows), reversed(left), strict=True):
        if each.left == 0 and not labels:
            is_sample = samples and _chance.randrange(_ONE_IN) == 0
            return Judgement(each, check is not Check.ALWAYS and not is_sample)
    if not rows:
        return Judgement(served[-1])
    if len(_drawn(rows, left)) >= _MOST_DRAWN:
        return Judgement(refused=_DRAWN)
    at = min(reversed(range(len(rows))), key=lambda at: len(between[at]))
    nearest, its = rows[at]
    new = in_words(between[at] - _learnt(rows, nearest.text, now) or left[at], its, now)
    return Judgement(nearest, new=new, has_same_state=any(now.get(label) == its[label] for label in _states(its)))


def _refused_alike(comparisons: Comparisons, known: Sequence[Compared], world: World, reason: str) -> str | None:
    """Return why nothing is served in worlds with the same sources, if the text of that begins with a reason."""
    for each in known:
        if each.is_refusal and each.text.startswith(reason):
            row = comparisons.components(each.world)
            if row is not None and all(map(_learnt_after, differing(row, world.components))):
                return each.text
    return None


def _states(components: Mapping[str, str]) -> list[str]:
    """Return the labels of the states of random generators."""
    return [label for label in components if label.startswith(_STATE)]


def _drawn(rows: Sequence[_Row], left: Sequence[set[str]]) -> set[str]:
    """Return the results in worlds that differ from the present one by no more than the state of a random generator.

    Args:
        rows: comparisons with the components of their worlds.
        left: the labels by which each of these worlds differs, without those that are learnt.
    """
    pairs = zip(rows, left, strict=True)
    return {each.text for (each, _), labels in pairs if all(label.startswith(_STATE) for label in labels)}


def differing(one: Mapping[str, str], other: Mapping[str, str]) -> set[str]:
    """Return the labels of the components in which two worlds differ."""
    labels = {label for label, _ in one.items() ^ other.items()}
    files = {label for label in labels if label.startswith(inputs.INPUT)}
    return labels - inputs.told_otherwise(files, one, other) if files else labels


def in_words(labels: Collection[str], then: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return what is new in a world, in a few words such as ``train.py changed``."""
    wholes = {label[:end] for label in labels if label.startswith(LOOSE) for end in _ends(label)}
    wholes |= {label for label in labels if label.startswith("argument ")} if "arguments" in labels else set()
    shown = sorted(set(labels) - wholes, key=_rank)
    shown = [label for label in shown if not label.endswith(FUNCTIONS)] or shown
    told = [_told(label, then.get(label), now.get(label)) for label in shown]
    rest = len(told) - _SHOWN
    return ", ".join(told[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _ends(label: str) -> list[int]:
    """Return where the labels of a module and of the globals end that a part of a global is in."""
    start = label.find(": ")
    return [] if start < 0 else [start, *(at for at in range(start, len(label)) if label[at] == ".")]


def _told(label: str, then: str | None, now: str | None) -> str:
    kind, _, name = label.partition(" ")
    what = name if kind in {"source", "edited", "distribution", "loose", "input"} else label
    if kind == inputs.ALL:
        return "other files were read before"
    if kind == "distribution" and then and now:
        versions = then.partition(" ")[0], now.partition(" ")[0]
        return f"{name} {versions[0]} → {versions[1]}" if versions[0] != versions[1] else f"{name} was edited"
    if kind == "interpreter":
        return f"{then} → {now}"
    return f"{what} {'is new' if then is None else 'is gone' if now is None else 'changed'}"


def _rank(label: str) -> tuple[int, str]:
    return _RANKS.get(label.partition(" ")[0], len(_RANKS)), label


def _learnt_after(label: str) -> int | None:
    """Return in how many worlds a component must have differed without effect; None if it always counts."""
    return _LEARNT_AFTER.get("further" if label.startswith(_FURTHER) else label.partition(" ")[0])


def _is_learnt(seen: Sequence[str | None], now: str | None, after: int) -> bool:
    """Return whether a component's values in worlds with one result let its present value be served."""
    several = len({*seen})
    return several > after or (several > 1 and len(seen) > after and now in seen)


def _learnt(rows: Sequence[_Row], text: str, now: Mapping[str, str]) -> set[str]:
    """Return the labels of the components that differed in several compared worlds of one result, without effect on it.

    Of a component with few values, the present one must have been there. A world with another result must still differ
    in one that is not learnt.

    Args:
        rows: comparisons with the components of their worlds. To serve without a comparison, these worlds must have the
            same sources and others that always count: a changed source may give an effect to what had none.
        text: the key of the result.
        now: the components of the present world.
    """
    own = [row for each, row in rows if each.text == text]
    found = set()
    for label in {label for row in own for label in row}:
        after = _learnt_after(label)
        if after is not None and _is_learnt([row.get(label) for row in own], now.get(label), after):
            found.add(label)
    if not found:
        return found
    for its in (row for each, row in rows if each.text != text):
        for row in own:
            if (between := differing(row, its)) <= found:
                found -= between
    return found
