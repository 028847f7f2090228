"""`jcache warm`: a root filled ahead of time, by running the program that is to start warm."""

import json as jsonlib
import os
from collections.abc import Collection
from typing import Annotated, Final

import typer

from jcache.cli import output
from jcache.cli.options import QuietOption, RootOption, VerboseOption, store_of
from jcache.cli.run import recorded
from jcache.errors import InvalidValue
from jcache.layout import Kind
from jcache.lineage import header_of, is_program
from jcache.outcomes import BYPASSED, HIT
from jcache.recording import Program
from jcache.roots import choose_path, create_root, wants_plain
from jcache.run_reports import SCHEMA_VERSION, RunReport
from jcache.store import Store
from jcache.trace_calls import TraceCall
from jcache.trace_reports import NO_TRACES

_NOT_WARM: Final = 1
_ROWS: Final = 20


def warm(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="CMD...", help="The program and its arguments.")
    ] = None,
    root: RootOption = None,
    check: Annotated[
        bool, typer.Option("--check", help="Run it a second time, and say what is compiled or traced all the same.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the result on stderr as JSON.")] = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Fill a root ahead of time: run a program and store all that it compiles, whatever thresholds are set for JAX.

    Else it is as `jcache run`, but for a root that cannot be made, which is an
    error. The program's exit code is passed on; with --check it runs twice, and
    exit code 1 says that not all of the second run was a hit.

    Example: jcache warm --check -- python train.py --steps 1
    """
    if not command:
        raise InvalidValue("warm needs a program: jcache warm -- python train.py --steps 1")
    chosen = create_root(choose_path(root, os.environ), plain=wants_plain(root, os.environ))
    runs: list[RunReport] = []
    with store_of(chosen) as store:
        before = _keys(store)
        code = recorded(store, command, runs.append, whatever=True).exit_code
        stored = {kind: _count(store, kind, keys - before[kind]) for kind, keys in _keys(store).items()}
        if check and code == 0:
            code = recorded(store, command, runs.append, whatever=True).exit_code
    first, second = (*runs, None, None)[:2]
    missed = [] if second is None else _missed(second)
    if json:
        output.message(jsonlib.dumps(_as_json(store, stored, first, second, missed), indent=2))
    elif not quiet:
        _render(store, stored, first, second, missed, verbose=verbose)
    if check and code == 0 and (missed or second is None):
        return _NOT_WARM
    return code


def _keys(store: Store) -> dict[Kind, set[str]]:
    return {kind: set(store.listing(kind).columns.keys) for kind in Kind}


def _count(store: Store, kind: Kind, keys: Collection[str]) -> int:
    """How many entries of a kind these are; programs of traces are no traces of their own."""
    headers = (header_of(store, (kind, key)) for key in keys) if kind is Kind.TRACES else ()
    return len(keys) - sum(header is not None and is_program(header) for header in headers)


def _missed(report: RunReport) -> list[Program | TraceCall]:
    """What was compiled or traced, though a run had been before."""
    calls = [call for call in report.traces.calls if call.outcome not in (HIT, BYPASSED)]
    return [*(program for program in report.programs if program.outcome != HIT), *calls]


def _as_json(
    store: Store,
    stored: dict[Kind, int],
    first: RunReport | None,
    second: RunReport | None,
    missed: list[Program | TraceCall],
) -> dict[str, object]:
    return {
        "schema_version": SCHEMA_VERSION,
        "root": str(store.root.path),
        "stored": {kind.value: number for kind, number in stored.items()},
        "run": None if first is None else first.to_json(),
        "check": None if second is None else second.to_json(),
        "missed": [_described(one) for one in missed],
    }


def _described(one: Program | TraceCall) -> dict[str, object]:
    kind = Kind.TRACES if isinstance(one, TraceCall) else Kind.EXECUTABLES
    return {"kind": kind.value, "key": one.key, "name": one.name, "outcome": one.outcome, "reason": one.reason}


def _render(
    store: Store,
    stored: dict[Kind, int],
    first: RunReport | None,
    second: RunReport | None,
    missed: list[Program | TraceCall],
    *,
    verbose: bool,
) -> None:
    parts = [output.count(stored[kind], kind.value[:-1], kind.value) for kind in Kind]
    output.message(f"jcache: stored {', '.join(parts)} in {store.root.path}{_there(first)}")
    if first is not None and not first.processes:
        output.message("  no program that uses JAX was seen (python -E, -I and -S are not watched)")
    if first is not None and first.exit_code:
        output.message(f"  the program ended with exit code {first.exit_code}: what it had compiled by then is stored")
    if second is None:
        return
    traces = second.traces or NO_TRACES
    executables = output.count(len(second.programs), "executable", "executables")
    calls = output.count(len(traces.calls) - traces.bypassed, "trace", "traces")
    output.message(f"jcache: second run: {second.hits:,} of {executables} hit, {traces.hits:,} of {calls} hit")
    for call in traces.calls:
        if call.outcome == BYPASSED:
            output.message(f"  left to jax.jit: {call.name}: {call.reason}")
    for one in missed if verbose else missed[:_ROWS]:
        doing = "traced" if isinstance(one, TraceCall) else "compiled"
        reason = "" if one.reason is None else f": {one.reason}"
        output.message(f"  {doing} again: {one.key or one.name or 'unknown'}{reason}")
    if not verbose and len(missed) > _ROWS:
        output.message(f"  … and {len(missed) - _ROWS:,} more: -v shows all")


def _there(first: RunReport | None) -> str:
    """What had been there before."""
    if first is None:
        return ""
    traces = first.traces or NO_TRACES
    return f"; {first.hits:,} executables and {traces.hits:,} traces had been there" if first.hits else ""
