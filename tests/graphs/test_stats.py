"""Counts of what a cache has done in this process."""

import pickle

import pytest

from jcache.graphs.stats import GraphStats, GraphTally
from jcache.store.economics import Economics

BUILT = Economics(builds=1, build_seconds=2.0)
LOADED = Economics(loads=1, load_seconds=0.5, spared_seconds=2.0)


def test_what_was_counted_is_shown() -> None:
    """Each outcome is one more of its kind, seconds are those of all functions, and what is slower is named."""
    tally = GraphTally()
    for economics in (BUILT, LOADED, LOADED):
        tally.spent("mesh", economics)
    tally.spent("tiny", BUILT._replace(build_seconds=0.125))
    tally.spent("tiny", Economics(loads=1, load_seconds=0.25, spared_seconds=0.125))
    tally.missed()
    tally.stored()
    for reason in ("no root", "no root", "no key"):
        tally.not_stored(reason)
    stats = tally.snapshot()
    assert (stats.hits, stats.misses, stats.builds, stats.stored) == (3, 1, 2, 1)
    assert (stats.build_seconds, stats.load_seconds, stats.saved_seconds) == (2.125, 1.25, 2.875)
    assert dict(stats.not_stored) == {"no root": 2, "no key": 1} and stats.slower == ("tiny",)
    assert stats.functions["mesh"] == Economics(1, 2.0, 2, 1.0, 4.0)


def test_a_snapshot_stays_as_it_was() -> None:
    """Later calls change no snapshot, nor can its holder, and it can be pickled."""
    tally = GraphTally()
    before = tally.snapshot()
    assert before == GraphStats()
    tally.spent("mesh", BUILT)
    tally.not_stored("no root")
    assert before == GraphStats() and pickle.loads(pickle.dumps(tally.snapshot())) == tally.snapshot()
    with pytest.raises(TypeError):
        tally.snapshot().functions["mesh"] = BUILT  # type: ignore[index]


def test_the_text_has_a_line_for_each_loss() -> None:
    """Counts come first, then what was not stored and why, then functions that are better off without a cache."""
    tally = GraphTally()
    tally.spent("mesh", BUILT)
    tally.not_stored("there is no root")
    tally.spent("tiny", Economics(loads=1, load_seconds=0.25, spared_seconds=0.125))
    first, second, third = str(tally.snapshot()).split("\n")
    assert first.startswith("1 hits, 0 misses; 1 built in ") and second == "1 not stored: there is no root"
    assert third == "loading `tiny` takes longer than building it: 250 ms against 125 ms"
