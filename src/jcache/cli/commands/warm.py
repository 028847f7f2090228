"""`jcache warm`: fill a root ahead of time by running the program that is to start warm."""

import json as jsonlib
import os
from collections.abc import Collection, Mapping
from typing import Annotated, Final

import typer

from jcache.cli import output
from jcache.cli.options import QuietOption, RootOption, VerboseOption
from jcache.cli.recorded_run import recorded
from jcache.cli.stores import store_of
from jcache.errors import InvalidValue
from jcache.layout import Kind, short_key
from jcache.runs.calls import BYPASSED, HIT, NOT_STORED, GraphCall, TraceCall
from jcache.runs.environment import other_directories, stored_programs
from jcache.runs.log import Program
from jcache.runs.report import NO_PROGRAM_SEEN, SCHEMA_VERSION, RunReport
from jcache.store.lineage import header_of, is_program
from jcache.store.roots import choose_path, create_root, wants_plain
from jcache.store.store import Store
from jcache.text import command as hint

_NOT_WARM: Final = 1
_ROWS: Final = 20
_KINDS: Final[Mapping[type, tuple[Kind, str]]] = {
    Program: (Kind.EXECUTABLES, "compiled"),
    TraceCall: (Kind.TRACES, "traced"),
    GraphCall: (Kind.GRAPHS, "built"),
}


def warm(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="CMD...", help="The program and its arguments.")
    ] = None,
    root: RootOption = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Run the program a second time, and report what it compiles or traces again."),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the result on stderr as JSON.")] = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Run a program and store everything that it compiles, whatever thresholds are set for JAX.

    Like `jcache run`, but a root that cannot be created is an error. The exit
    code is the program's; with --check the program runs twice. Exit code 1 means
    that the root is not warm: the second run had a miss, or the program has set
    its own cache directory.

    Example: jcache warm --check -- python train.py --steps 1
    """
    if not command:
        raise InvalidValue(f"warm needs a program: `{hint('warm', root, '-- python train.py --steps 1')}`")
    chosen = create_root(choose_path(root, os.environ), plain=wants_plain(root, os.environ))
    runs: list[RunReport] = []
    with store_of(chosen) as store:
        before = _keys(store)
        code = recorded(store, command, runs.append, root=root, whatever=True, doing="warm").exit_code
        stored = {kind: _count(store, kind, keys - before[kind]) for kind, keys in _keys(store).items()}
        if check and code == 0:
            code = recorded(store, command, runs.append, root=root, whatever=True, doing="warm").exit_code
    first, second = (*runs, None, None)[:2]
    missed = [] if second is None else _missed(second)
    for notice in () if json else dict.fromkeys(notice for run in runs for notice in run.notices):
        output.warning(notice)
    if json:
        output.message(jsonlib.dumps(_as_json(store, stored, first, second, missed), indent=2), whole=True)
    elif not quiet:
        _render(store, stored, first, second, missed, verbose=verbose)
    is_elsewhere = first is not None and bool(other_directories(chosen.directory(Kind.EXECUTABLES), first.programs))
    if code == 0 and (is_elsewhere or (check and (missed or second is None))):
        return _NOT_WARM
    return code


def _keys(store: Store) -> dict[Kind, set[str]]:
    return {kind: set(store.listing(kind).columns.keys) for kind in Kind}


def _count(store: Store, kind: Kind, keys: Collection[str]) -> int:
    """Return the number of entries of a kind among keys; a program of a trace is not counted as a trace."""
    headers = (header_of(store, (kind, key)) for key in keys) if kind is Kind.TRACES else ()
    return len(keys) - sum(header is not None and is_program(header) for header in headers)


_Recorded = Program | TraceCall | GraphCall


def _missed(report: RunReport) -> list[_Recorded]:
    """Return the programs, traces and graphs that the second run compiled, traced or built again."""
    calls: list[TraceCall | GraphCall] = [*report.traces.calls, *report.graphs.calls]
    missed = [call for call in calls if call.outcome not in (HIT, BYPASSED) and not _only_looked_up(call)]
    return [*(program for program in report.programs if program.outcome != HIT), *missed]


def _only_looked_up(call: TraceCall | GraphCall) -> bool:
    """Return whether a call looked up a graph and did not build it, so that there was nothing to store."""
    return isinstance(call, GraphCall) and call.outcome == NOT_STORED and not call.seconds


def _as_json(
    store: Store,
    stored: dict[Kind, int],
    first: RunReport | None,
    second: RunReport | None,
    missed: list[_Recorded],
) -> dict[str, object]:
    return {
        "schema_version": SCHEMA_VERSION,
        "root": str(store.root.path),
        "stored": {kind.value: number for kind, number in stored.items()},
        "run": None if first is None else first.to_json(),
        "check": None if second is None else second.to_json(),
        "missed": [_missed_json(miss) for miss in missed],
    }


def _missed_json(miss: _Recorded) -> dict[str, object]:
    kind, _ = _KINDS[type(miss)]
    return {"kind": kind.value, "key": miss.key, "name": miss.name, "outcome": miss.outcome, "reason": miss.reason}


def _render(
    store: Store,
    stored: dict[Kind, int],
    first: RunReport | None,
    second: RunReport | None,
    missed: list[_Recorded],
    *,
    verbose: bool,
) -> None:
    parts = [output.count(stored[kind], kind.value[:-1], kind.value) for kind in Kind]
    output.message(f"jcache: stored {', '.join(parts)} in {store.root.path}{_present_before(store, first)}")
    if first is not None and not first.processes:
        output.message(f"  {NO_PROGRAM_SEEN}")
    if first is not None and first.exit_code:
        output.message(f"  the program ended with exit code {first.exit_code}: what it had compiled by then is stored")
    if second is None:
        return
    traces, graphs = second.traces, second.graphs
    executables = output.count(len(second.programs), "executable", "executables")
    calls = output.count(len(traces.calls) - traces.bypassed, "trace", "traces")
    hits = f"{second.hits:,} of {executables} hit, {traces.hits:,} of {calls} hit"
    if graphs:
        asked = graphs.hits + graphs.stored + graphs.not_stored
        hits += f", {graphs.hits:,} of {output.count(asked, 'graph', 'graphs')} hit"
    output.message(f"jcache: second run: {hits}")
    for call in traces.calls:
        if call.outcome == BYPASSED:
            output.message(f"  left to jax.jit: {call.name}: {call.reason}")
    for miss in missed if verbose else missed[:_ROWS]:
        _, verb = _KINDS[type(miss)]
        reason = "" if miss.reason is None else f": {miss.reason}"
        output.message(f"  {verb} again: {_missed_name(miss, verbose)}{reason}")
    if not verbose and len(missed) > _ROWS:
        output.message(f"  … and {len(missed) - _ROWS:,} more: -v shows all")


def _missed_name(miss: _Recorded, verbose: bool) -> str:
    if miss.key is None:
        return miss.name or "unknown"
    return miss.key if verbose else short_key(miss.key)


def _present_before(store: Store, first: RunReport | None) -> str:
    """Return a clause that counts the entries that were in the root before."""
    if first is None:
        return ""
    here = stored_programs(store.root.directory(Kind.EXECUTABLES), first.programs)
    hits = sum(program.outcome == HIT for _, program in here)
    counts = output.count(hits, "executable", "executables"), output.count(first.traces.hits, "trace", "traces")
    return f"; {' and '.join(counts)} were there before" if hits else ""
