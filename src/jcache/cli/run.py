"""`jcache run`: any program with the cache on, and a report of what JAX did with it."""

import json as jsonlib
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from jcache import files
from jcache.cli import output
from jcache.cli.options import QuietOption, RootOption, store_of
from jcache.errors import CannotWrite, InvalidValue, JcacheError, NoCacheHere
from jcache.launch import Outcome, launch
from jcache.layout import Kind, Root
from jcache.recording import Program
from jcache.roots import choose_path, create_root, wants_plain
from jcache.runs import RunReport, collect, environment, learn, new_id, settings, summary
from jcache.store import Store
from jcache.units import format_seconds


def run(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="CMD...", help="The program and its arguments.")
    ] = None,
    root: RootOption = None,
    report: Annotated[str | None, typer.Option("--report", metavar="FILE", help="Write the report as JSON.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the report on stderr as JSON.")] = False,
    quiet: QuietOption = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Report every program that JAX compiled.")] = False,
) -> int:
    """Run any program with the cache on, and report on stderr how JAX used it. The program's exit code is passed on.

    Example: jcache run -- python train.py --steps 10
    """
    if not command:
        raise InvalidValue("run needs a program: jcache run -- python train.py")
    chosen = _root(root)
    if chosen is None:
        return launch(command, os.environ).exit_code
    directory = chosen.directory(Kind.EXECUTABLES)
    try:
        log_dir = Path(tempfile.mkdtemp(prefix="jcache-run-"))
    except OSError as error:
        output.warning(f"There is nowhere to record the run ({error.strerror}): the program runs without a report.")
        return launch(command, os.environ | settings(directory, os.environ)).exit_code
    try:
        with store_of(chosen) as store:
            _prepare(store)
            started_ns = time.time_ns()
            outcome = launch(command, environment(directory, log_dir, os.environ))
            try:
                result = _collect(store, log_dir, command, started_ns, outcome)
                learn(store, result)
                _report(store, result, report, json=json, quiet=quiet, verbose=verbose)
            except (JcacheError, OSError) as error:  # the program has ended: its exit code comes before our report
                output.warning(f"The run could not be recorded: {error}")
    finally:
        shutil.rmtree(log_dir, ignore_errors=True)
    return outcome.exit_code


def _root(explicit: str | None) -> Root | None:
    """The root to cache in, made if need be; None, with a warning, where none can be made: the program runs anyway."""
    try:
        return create_root(choose_path(explicit, os.environ), plain=wants_plain(explicit, os.environ))
    except (CannotWrite, NoCacheHere) as error:
        if explicit is not None and isinstance(error, NoCacheHere):
            raise  # whoever names a root wants to know that it is none
        output.warning(f"{error} The program runs without jcache.")
        return None


def _prepare(store: Store) -> None:
    """A bounded JAX <= 0.11.1 stores nothing as long as one entry lacks its sidecar."""
    if os.environ.get("JAX_COMPILATION_CACHE_MAX_SIZE", "-1") != "-1":
        _adopt(store)
        store.bounded()


def _adopt(store: Store) -> None:
    try:
        store.adopt(Kind.EXECUTABLES, record=False)  # the program is waiting
    except JcacheError as error:
        output.warning(str(error))


def _collect(store: Store, log_dir: Path, command: list[str], started_ns: int, outcome: Outcome) -> RunReport:
    def build_seconds(key: str) -> float | None:
        known = store.softly(lambda: store.ledger.known(Kind.EXECUTABLES, [key])) or {}
        return known[key].seconds if key in known else None

    return collect(
        log_dir,
        run_id=new_id(started_ns),
        command=command,
        started_ns=started_ns,
        seconds=outcome.seconds,
        exit_code=outcome.exit_code,
        signal=outcome.signal,
        build_seconds=build_seconds,
    )


def _line(program: Program) -> str:
    seconds = "" if program.seconds is None else f"  {format_seconds(program.seconds)}"
    reason = "" if program.reason is None else f"  ({program.reason})"
    return f"  {program.outcome.replace('_', ' '):<10}  {program.key or program.name or 'unknown'}{seconds}{reason}"


def _report(store: Store, report: RunReport, file: str | None, *, json: bool, quiet: bool, verbose: bool) -> None:
    if json:
        output.message(jsonlib.dumps(report.to_json(), indent=2))
    elif not quiet:
        output.message(summary(report))
        for program in report.programs if verbose else ():
            output.message(_line(program))
    if file is not None:
        try:
            with files.refusal(f"write the report {file}"):
                files.publish(Path(file).absolute(), (jsonlib.dumps(report.to_json(), indent=2) + "\n").encode())
        except CannotWrite as error:
            output.warning(str(error))
