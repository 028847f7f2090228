"""Whether a cache pays: what building its entries costs, and what loading them costs and spares."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from jcache.layout import Kind, name_of


class Economics(NamedTuple):
    """What entries have cost and spared; a load whose entry does not know what building it took has no seconds.

    Attributes:
        builds: how often one was built.
        build_seconds: that these took.
        loads: how often one was loaded instead.
        load_seconds: that these took, from the call to the value.
        spared_seconds: that building what was loaded had taken.
    """

    builds: int = 0
    build_seconds: float = 0.0
    loads: int = 0
    load_seconds: float = 0.0
    spared_seconds: float = 0.0

    @property
    def saved_seconds(self) -> float:
        """Seconds that loading has saved; below 0 where building would have been faster."""
        return self.spared_seconds - self.load_seconds

    @property
    def is_slower(self) -> bool:
        """Whether loading takes longer than building."""
        return self.saved_seconds < 0

    def plus(self, other: "Economics") -> "Economics":
        return Economics(
            self.builds + other.builds,
            self.build_seconds + other.build_seconds,
            self.loads + other.loads,
            self.load_seconds + other.load_seconds,
            self.spared_seconds + other.spared_seconds,
        )

    def verdict(self, name: str) -> str | None:
        """Return a sentence where loading takes longer than building, None where it does not."""
        if not self.is_slower:
            return None
        each = (f"{seconds / self.loads * 1000:.3g} ms" for seconds in (self.load_seconds, self.spared_seconds))
        return f"loading `{name}` takes longer than building it: {' against '.join(each)}"


class Spent(NamedTuple):
    """What one build or one load of an entry has cost."""

    kind: Kind
    key: str
    economics: Economics


class Spending:
    """What many have cost, by kind and name; and how often each entry was loaded."""

    def __init__(self) -> None:
        self.by_name: dict[tuple[Kind, str], Economics] = {}
        self.loads: Counter[tuple[Kind, str]] = Counter()

    def __bool__(self) -> bool:
        return bool(self.by_name)

    def add(self, spent: Spent) -> None:
        name = (spent.kind, name_of(spent.key))
        self.by_name[name] = self.by_name.get(name, Economics()).plus(spent.economics)
        if spent.economics.loads:
            self.loads[spent.kind, spent.key] += spent.economics.loads


def in_all(economics: Mapping[str, Economics]) -> Economics:
    """Return the sum over all names."""
    total = Economics()
    for each in economics.values():
        total = total.plus(each)
    return total
