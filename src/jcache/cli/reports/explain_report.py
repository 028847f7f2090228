"""Print a diagnosis: the causes of a run's misses with their price and the way out, the dearest first."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import PurePath
from typing import Any, Final

from jcache import clock
from jcache.cli import output
from jcache.explain.change import Change
from jcache.explain.comparison import Comparison, words_of
from jcache.explain.modules import side_by_side
from jcache.explain.programs import Programs
from jcache.explain.ranks import Agreement
from jcache.explain.result import Cause, Diagnosis
from jcache.explain.sealed_entries import SealedComparison
from jcache.runs.graph_report import graph_lines
from jcache.runs.record import COMPUTATION, RunRecord
from jcache.runs.trace_report import trace_lines
from jcache.text import shown, wrapped
from jcache.units import format_age, format_seconds
from jcache.vocabulary import CauseKind

_WIDTH_OF_FILES: Final = 100  # where stdout is no terminal
_MOST_CAUSES: Final = 10
_MOST_FUNCTIONS: Final = 4
_LONGEST_VALUE: Final = 80
_INDENT: Final = "     "
_OF_ALL: Final = frozenset(
    {
        CauseKind.XLA_FLAGS,
        CauseKind.VERSION,
        CauseKind.PLATFORM,
        CauseKind.DEVICES,
        CauseKind.CPU,
        CauseKind.CACHE_PATH,
        CauseKind.COMPILE_OPTION,
    }
    | {CauseKind.JAX_OPTION, CauseKind.KEY_PART, CauseKind.HASH_SEED, CauseKind.FIRST_TIME}
)  # causes that change the keys of many functions
_NAMELESS: Final = frozenset({CauseKind.XLA_FLAGS, CauseKind.STATIC, CauseKind.COMPILE_OPTION, CauseKind.JAX_OPTION})


def render(found: Diagnosis, ranks: Sequence[Agreement], *, verbose: bool) -> None:
    """Print a diagnosis for people.

    Args:
        found: the diagnosis.
        ranks: which processes request the same executables.
        verbose: whether to print all causes, with all functions.
    """
    output.prose(headline(found))
    count = len(found.causes) if verbose else _MOST_CAUSES
    for number, cause in enumerate(found.causes[:count], start=1):
        if number == 1:
            output.data("")
        _render_cause(number, cause, verbose=verbose)
    if len(found.causes) > count:
        output.prose(f"{len(found.causes) - count:,} more causes; -v shows all")
    for number, bypass in enumerate(found.bypasses):
        if number == 0:
            output.data("")
        times = f" ({bypass.times} times)" if bypass.times > 1 else ""
        _line(f"bypassed  {shown(bypass.function)}{times}  {shown(bypass.reason)}")
        _line(f"{_INDENT}→ {bypass.resolution}")
    _render_ranks(ranks)


def render_calls(calls: Mapping[str, Any]) -> None:
    """Print which traces and graphs were not served in a run, and why.

    Args:
        calls: the sums of `jcache.runs.stored_reports.totals` for its traces and graphs; empty without a report.
    """
    lines = [*trace_lines(calls["traces"]), *graph_lines(calls["graphs"])] if calls else []
    for line in ["", *lines] if lines else []:
        output.prose(line)


def headline(found: Diagnosis) -> str:
    """Return one line that says what a run hit and missed, and what the misses cost."""
    causes = output.count(len(found.causes), "cause", "causes")
    misses = output.count(found.misses, "miss", "misses") + (f" ({causes})" if found.misses else "")
    text = f"{_run_text(found.run)}: {output.count(found.hits, 'hit', 'hits')}, {misses}, {found.bypassed} bypassed."
    if not found.misses:
        return text
    new = sum(cause.misses for cause in found.causes if cause.item is CauseKind.FIRST_TIME)
    if new == found.misses:
        return f"{text} None of these programs was compiled here before."
    repeated, total = (format_seconds(seconds) for seconds in (found.repeated_seconds, found.seconds))
    return f"{text} {repeated} of {total} went into programs that had been compiled before."


def _run_text(run: RunRecord) -> str:
    """Return a run as text: the name of its program, and when it ran."""
    words = [word for word in run.command if not word.startswith("-")]
    scripts = [word for word in words if word.endswith(".py")] or words[:1] or ["a program"]
    return f"{shown(PurePath(scripts[0]).name)}, {format_age(max(0, clock.now_ns() - run.started_ns))} ago"


def _render_cause(number: int, cause: Cause, *, verbose: bool) -> None:
    price = f"{output.count(cause.misses, 'miss', 'misses')}, {format_seconds(cause.seconds)}"
    head = f"{number:<3}{_title(cause)}"
    room = _width() - len(price) - 3
    if len(head) <= room:
        output.data(f"{head:<{room}}   {price}")
    else:
        _line(head)
        output.data(f"{_INDENT}{price}")
    _line(f"{_INDENT}{cause.reason}")
    others = [shown(name) for name in cause.functions if name != cause.function or cause.item in _OF_ALL]
    if others:
        listed = ", ".join(sorted(others if verbose else others[:_MOST_FUNCTIONS]))
        rest = len(others) - _MOST_FUNCTIONS
        more = f" and {rest} more" if rest > 0 and not verbose else ""
        _line(f"{_INDENT}{'in' if cause.item in _OF_ALL else 'also in'} {listed}{more}")
    _line(f"{_INDENT}→ {cause.resolution}")


def _title(cause: Cause) -> str:
    """Return what changed, in one line: the function first where it is one function that changed."""
    change = Change(cause.item, cause.name, cause.current, cause.baseline)
    if cause.item in _OF_ALL:
        return _what(change)
    return "  ".join(filter(None, [shown(cause.function), _place(cause.source), _what(change)]))


def _place(source: str) -> str:
    """Return file and line, the file without its directory."""
    return shown(source.rpartition("/")[2])


def _what(change: Change) -> str:
    """Return a change in one line, such as ``shape of batch: f32[64] → f32[61]``."""
    if change.item is CauseKind.XLA_FLAGS and (change.current or change.baseline):
        signs = [f"+ {_value(change.current)}"] if change.current else []
        signs += [f"- {_value(change.baseline)}"] if change.baseline else []
        return f"XLA_FLAGS  {'  '.join(signs)}"
    what = f"{change.item}"
    if change.name:
        what = f"{what} {shown(change.name)}" if change.item in _NAMELESS else f"{what} of {shown(change.name)}"
    if change.item is CauseKind.VERSION:
        what = shown(change.name) or "version"
    if not (change.current or change.baseline):
        return what
    return f"{what}: {_value(change.baseline) or 'none'} → {_value(change.current) or 'none'}"


def _value(text: str) -> str:
    text = shown(text)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


def _render_ranks(ranks: Sequence[Agreement]) -> None:
    """Print which processes request the same executables, and where the others differ first."""
    if not ranks:
        return
    output.data("")
    if len(ranks) == 1:
        _line(f"all agree: {_members(ranks[0])} request the same executables")
        return
    _line(f"agree: {_members(ranks[0])}")
    for group in ranks[1:]:
        what = _what(group.change) if group.change else "requested by one side alone"
        place = " ".join(filter(None, [shown(group.function), _place(group.source)]))
        _line(f"differ: {_members(group)}, first at {place}  {what}")


def _members(group: Agreement) -> str:
    """Return ranks and hosts as text: ``rank 0 on a, rank 1 on b``."""
    listed = [f"rank {rank}{f' on {host}' if host else ''}" for host, rank in group.members]
    some = listed[: 2 * _MOST_FUNCTIONS]
    return ", ".join(some) + (f" and {len(listed) - len(some)} more" if len(listed) > len(some) else "")


def agreement_json(group: Agreement) -> dict[str, Any]:
    """Return processes that request the same executables as data for ``json.dumps``."""
    change = group.change
    return {
        "members": [{"host": host, "rank": rank} for host, rank in group.members],
        "function": group.function,
        "source": group.source,
        "item": None if change is None else str(change.item),
        "name": None if change is None else change.name,
        "current": None if change is None else change.current,
        "baseline": None if change is None else change.baseline,
    }


def render_comparison(found: Comparison) -> None:
    """Print what differs between two keys."""
    if not _render_keys(found.current, found.baseline):
        return
    if not found.is_recorded:
        output.prose("No run has recorded both, so this is what the entries themselves say.")
    if not found.changes:
        same = found.current == found.baseline
        output.prose(
            "It is the same key." if same else "No difference is known, since no run recorded the parts of these keys."
        )
    for number, change in enumerate(found.changes, start=1):
        words = words_of(change)
        _line(f"{number:<3}{_what(change)}")
        _line(f"{_INDENT}{words.reason}")
        _line(f"{_INDENT}→ {words.resolution}")


def render_sealed(found: SealedComparison) -> None:
    """Print what differs between two traces, or two graphs."""
    if not _render_keys(found.current, found.baseline):
        return
    if found.current == found.baseline:
        output.prose("It is the same key.")
    elif not found.changes:
        output.prose("All parts of their keys are the same: one function gave two results, in different worlds.")
    for number, change in enumerate(found.changes, start=1):
        _line(f"{number:<3}{shown(change.text)}")


def _render_keys(current: str, baseline: str | None) -> bool:
    """Print the keys that are compared; return whether there are two."""
    if baseline is None:
        output.prose(f"{current}: no other entry has this name, so there is nothing to compare it with.")
        return False
    output.data(current)
    output.data(f"compared with {baseline}")
    return True


def render_diff(found: Diagnosis, programs: Programs) -> None:
    """Print the modules of the dearest cause whose modules are both kept, side by side."""
    for cause in found.causes:
        current = cause.programs[0].program.parts.get(COMPUTATION)
        baseline = cause.compared.program.parts.get(COMPUTATION) if cause.compared else None
        if current != baseline and current and baseline and programs.text(current) and programs.text(baseline):
            output.data("")
            output.data(f"modules of {shown(cause.function)}, the earlier one on the left")
            render_modules(programs, current, baseline)
            return
    output.prose("There are no two different modules to compare; older modules may have been removed.")


def render_modules(programs: Programs, current: str | None, baseline: str | None) -> None:
    """Print two modules side by side, given their hashes."""
    ours, theirs = (None if module is None else programs.text(module) for module in (current, baseline))
    if ours is None or theirs is None:
        output.prose("The modules are not kept, or cannot be read here.")
        return
    half = (_width() - 3) // 2
    for line in side_by_side(theirs, ours):
        if line is None:
            output.data("…")
        else:
            for left, right in _columns(line.baseline, line.current, half):
                output.data(f"{left:<{half}} {line.mark} {right}".rstrip())


def _columns(left: str, right: str, width: int) -> list[tuple[str, str]]:
    """Return two lines broken at words into pieces that fit a width, the pieces side by side."""
    return list(zip_longest(_pieces(shown(left), width), _pieces(shown(right), width), fillvalue=""))


def _pieces(text: str, width: int) -> list[str]:
    indent = " " * min(len(text) - len(text.lstrip()), width // 2)
    return textwrap.wrap(
        text.strip(), width, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False
    ) or [""]


def _line(text: str) -> None:
    """Print a line that breaks at words on a terminal, and goes on below its text."""
    output.data(wrapped(text, _width()) if output.console(stderr=False).is_terminal else text)


def _width() -> int:
    """Return the columns to use."""
    console = output.console(stderr=False)
    if console.is_terminal:
        return console.width
    return int(os.environ.get("COLUMNS") or 0) or _WIDTH_OF_FILES
