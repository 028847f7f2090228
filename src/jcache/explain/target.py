"""Find what somebody means who writes a run, a key or a function."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from jcache.errors import UnknownKey
from jcache.explain.baseline import History, label, misses_of, seen_in
from jcache.explain.change import Seen
from jcache.runs.record import RunRecord
from jcache.runs.report import short_id
from jcache.store.lookup import KeyFinder
from jcache.text import command, did_you_mean, nearest

LAST: Final = "last"


class Target(NamedTuple):
    """What is to be explained: a run, and of it all programs, those of a function, or those of a key.

    Attributes:
        run: the run; None for an entry that no run has recorded.
        function: the function; None for all.
        key: the key; None for all.
    """

    run: RunRecord | None
    function: str | None = None
    key: str | None = None


def find_target(history: History, text: str, entries: Iterable[str], root: object) -> Target:
    """Return what a text stands for.

    Args:
        history: the recorded runs.
        text: the id of a run or its beginning or end, a function, a key or a beginning of one, or ``last``.
        entries: the keys of the root's entries.
        root: path of the root, for messages.

    Raises:
        UnknownKey: it stands for nothing, or for several things.
    """
    if text == LAST and history.runs:
        return Target(history.runs[-1])
    runs = [run for run in history.runs if text and (run.id.startswith(text) or short_id(run.id) == text)]
    if len(runs) == 1:
        return Target(runs[0])
    names = history.functions()
    function = text if text in names else text.removeprefix("jit_")  # as keys and `jcache ls` have it
    if not runs and function in names:
        return Target(_run_with_miss(history, function=function), function=function)
    keys = [] if runs else sorted(KeyFinder({*history.keys, *entries}).answering(text))
    if len(keys) == 1:
        return Target(_run_with_miss(history, key=keys[0]), key=keys[0])
    if runs or keys:
        what = "runs" if runs else "keys"
        raise UnknownKey(f"'{text}' stands for {len(runs or keys):,} {what}; give more of the {what[:-1]}.")
    if not history.runs:
        raise UnknownKey(f"'{text}' is no key, and no run is recorded: `{command('run', root, '-- CMD')}` records one.")
    near = did_you_mean(nearest(text, sorted(names)))
    stats = command("stats", root)
    raise UnknownKey(f"'{text}' is no recorded run or function and no key{near or '.'} `{stats}` lists the runs.")


def _run_with_miss(history: History, *, function: str | None = None, key: str | None = None) -> RunRecord | None:
    """Return the last run in which a function or a key missed, else was requested; None if it never was."""

    def has(programs: Iterable[Seen]) -> bool:
        return any(s.program.key == key if function is None else label(s.program) == function for s in programs)

    runs = history.runs[::-1]
    missed = next((run for run in runs if has(seen for _, seen in misses_of(run))), None)
    return missed or next((run for run in runs if has(seen_in(run))), None)
