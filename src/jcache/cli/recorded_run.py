"""Run a program with the cache on, and report how JAX used it. This module does not need Typer."""

import json as jsonlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from jcache import clock
from jcache.cli import output
from jcache.cli.run_remote import AS_IN_ENVIRONMENT, AskedStore
from jcache.cli.stores import bound_variables, store_of
from jcache.errors import CannotWrite, InvalidValue, JcacheError, NoCacheHere
from jcache.jax_internals.path_keys import in_keys
from jcache.jax_internals.presets import RUN_BOUND
from jcache.layout import Kind, Root
from jcache.runs.environment import (
    HAS_REMOTE,
    environment,
    has_portable_keys,
    is_turned_off,
    new_id,
    record_run,
    with_cache,
    without_cache,
)
from jcache.runs.launch import ProgramExit, launch
from jcache.runs.log import Recording, read_all
from jcache.runs.recorder.file_names import MODULE_SUFFIX, SECRET_NAME
from jcache.runs.records import record_of, used_before
from jcache.runs.remote_report import fetched_in
from jcache.runs.report import RunReport, report_of, summary
from jcache.runs.secrets import without_secrets
from jcache.runtime.checked_reads import CheckedReads, runs_without_recorder, serving
from jcache.store import files
from jcache.store.locking import mark_bounded
from jcache.store.roots import choose_path, create_root, wants_plain
from jcache.store.run_records import OFF, add_record, record_mode, secret_of
from jcache.store.store import Store
from jcache.text import command as hint
from jcache.verify.path_key_sentences import describe_mixed_keys
from jcache.verify.path_keys import find_spellings, named_directories

_TURNED_OFF: Final = (
    "JAX_ENABLE_COMPILATION_CACHE turns JAX's cache off in the environment, so the program ran without it: unset the "
    "variable to have one."
)


def run(
    command: list[str],
    *,
    root: str | None,
    asked: AskedStore,
    report: str | None,
    json: bool,
    quiet: bool,
    verbose: bool,
) -> int:
    """Run a program with a root's cache on, and report on stderr how JAX used it.

    Args:
        command: the program and its arguments.
        root: value of ``--root``.
        asked: the store that the program asks.
        report: path of a file for the report as JSON.
        json: whether the report on stderr is JSON.
        quiet: whether there is none on stderr.
        verbose: whether it has every executable, trace and graph.

    Returns:
        The program's exit code.

    Raises:
        JcacheError: no program is named, or the root is none.
    """
    if not command:
        raise InvalidValue(f"run needs a program: `{hint('run', root, '-- python train.py')}`")
    chosen = _root(root)
    if chosen is None:
        return launch(command, os.environ).exit_code
    with store_of(chosen) as store:
        return recorded(
            store,
            command,
            lambda result: _report(store, result, report, json=json, quiet=quiet, verbose=verbose),
            root=root,
            asked=asked,
        ).exit_code


def recorded(
    store: Store,
    command: list[str],
    tell: Callable[[RunReport], None],
    *,
    root: str | None,
    whatever: bool = False,
    doing: str = "run",
    asked: AskedStore = AS_IN_ENVIRONMENT,
) -> ProgramExit:
    """Run a program with a root's cache on, and record how JAX used it; if recording fails, the program still runs.

    Args:
        store: store of the root.
        command: the program and its arguments.
        tell: called with the report, if there is one.
        root: value of ``--root``; None if it was not given.
        whatever: whether JAX stores every program, whatever thresholds the user has set.
        doing: name of the command that is recorded, ``run`` or ``warm``.
        asked: the store that the program asks.
    """
    base = os.environ | {"JCACHE_DIR": str(store.root.path)}  # programs that import jcache use the same root and store
    base |= asked.variables
    try:
        log_dir = Path(tempfile.mkdtemp(prefix="jcache-run-"))
    except OSError as error:
        why = f"jcache cannot make a temporary directory to record the run ({error.strerror})"
        output.warning(f"{why}: the program runs without a report and without a cache.")
        return launch(command, without_cache(base))
    try:
        base |= _configured_bound(store.root)
        _prepare(store, base)
        started_ns = clock.now_ns()
        notices = [] if whatever or not is_turned_off(base) else [_TURNED_OFF]
        paths, seen = find_spellings(store, named_directories(os.environ, root))
        env = environment(
            store.root.directory(Kind.EXECUTABLES),
            log_dir,
            base,
            override_user=whatever,
            spellings=paths,
            record=_begin_record(store.root, log_dir),
        )
        env[HAS_REMOTE] = "" if asked.opens is None else "1"
        reads = CheckedReads(
            store.root,
            asked.opens,
            notices.append,
            lambda remote: used_before(store.root, command) or remote.used_by(without_secrets(command)),
        )
        outcome = _launched(reads, command, env, log_dir, notices)
        try:
            recordings = read_all(log_dir)
            result = _collect(store, recordings, command, started_ns, outcome)
            result = result._replace(remote=fetched_in([reads.fetched, *(each.fetched for each in recordings)]))
            tell(_kept(store, log_dir, recordings, result, notices, doing, env, has_spellings=seen))
        except (JcacheError, OSError) as error:  # the program has ended: its exit code matters more than the report
            for notice in (*notices, f"The run could not be recorded: {error}"):
                output.warning(notice)
    finally:
        shutil.rmtree(log_dir, ignore_errors=True)
    return outcome


def _configured_bound(root: Root) -> dict[str, str]:
    """Return the variables for the bound that is configured, and the one that says that `jcache run` has set it."""
    bound = bound_variables(root)
    return bound | {RUN_BOUND: next(iter(bound.values()))} if bound else {}


def _launched(
    reads: CheckedReads, command: list[str], env: dict[str, str], log_dir: Path, notices: list[str]
) -> ProgramExit:
    """Run a program, check the executables that it reads from a root, and add a notice for each damaged one."""
    root = reads.root
    try:
        with ExitStack() as stack:
            try:
                stack.enter_context(serving(reads, log_dir))
            except OSError as error:
                output.warning(
                    f"jcache cannot make a socket in {log_dir} ({error.strerror}): the program runs without a cache."
                )
                env = without_cache(env)
            if runs_without_recorder(command) and reads.check_all():
                env = with_cache(env)
            elif runs_without_recorder(command):
                why = f"jcache could not check all entries of {root.path} beforehand"
                output.warning(f"{why}: this Python runs without a cache.")
            return launch(command, env)
    finally:
        reads.close()
        for found, is_away in reads.damaged.values():
            now = "is in quarantine now" if is_away else "stays where it is, since it cannot be moved"
            notices.append(
                f"{found.key} was damaged ({found.evidence.rstrip('.')}): the program did not get it, and it {now}. To "
                f"look for more: `{hint('verify --repair', root.path)}`"
            )


def _root(explicit: str | None) -> Root | None:
    """Return the root, created if it is missing; None, with a warning, if it cannot be created."""
    try:
        return create_root(choose_path(explicit, os.environ), plain=wants_plain(explicit, os.environ))
    except (CannotWrite, NoCacheHere) as error:
        if explicit is not None and isinstance(error, NoCacheHere):
            raise  # the user has named a directory that is not a root
        output.warning(f"{error} The program runs without jcache.")
        return None


def _prepare(store: Store, environment: Mapping[str, str]) -> None:
    """Make missing sidecars, since a bounded JAX <= 0.11.1 stores nothing while one entry lacks its sidecar."""
    if environment.get("JAX_COMPILATION_CACHE_MAX_SIZE", "-1") != "-1":
        try:
            store.maintenance.adopt(Kind.EXECUTABLES, record=False)  # the program is waiting
        except JcacheError as error:
            output.warning(str(error))
        mark_bounded(store.root)


def _begin_record(root: Root, log_dir: Path) -> str:
    """Return what is to be recorded of keys; the recorder finds the secret of the root in the log's directory."""
    mode = record_mode(root, os.environ)
    if mode != OFF:
        with suppress(OSError):
            files.publish(log_dir / SECRET_NAME, secret_of(root))  # in a directory that its owner alone can read
    return mode


def _kept(
    store: Store,
    log_dir: Path,
    recordings: list[Recording],
    result: RunReport,
    notices: list[str],
    doing: str,
    environment: Mapping[str, str],
    *,
    has_spellings: bool,
) -> RunReport:
    """Keep the report of a run and what its keys were made of; return the report with all notices."""
    portable = has_portable_keys(environment)
    has_paths = has_spellings or any(program.has_path_key for program in result.programs)
    if has_paths and portable and in_keys(result.jax_version or ""):
        notices.append(describe_mixed_keys(store.root.directory(Kind.EXECUTABLES)))
    run = record_run(store, result._replace(notices=tuple(notices)), subcommand=doing, is_portable=portable)
    _keep_record(store.root, log_dir, recordings, result)
    return run


def _keep_record(root: Root, log_dir: Path, recordings: list[Recording], report: RunReport) -> None:
    """Keep what the keys of a run were made of; a failure costs an explanation, and nothing else."""
    record = record_of(recordings, run_id=report.id, command=report.command, started_ns=report.started_ns)
    if record is not None and record_mode(root, os.environ) != OFF:
        with suppress(OSError):
            modules = {path.stem: path.read_bytes() for path in log_dir.glob(f"*{MODULE_SUFFIX}")}
            add_record(root, report.id, record.to_json(), modules)


def _collect(
    store: Store, recordings: list[Recording], command: list[str], started_ns: int, outcome: ProgramExit
) -> RunReport:
    def build_seconds(key: str) -> float | None:
        known = store.queue.attempt(lambda: store.ledger.known(Kind.EXECUTABLES, [key])) or {}
        return known[key].seconds if key in known else None

    return report_of(
        recordings,
        run_id=new_id(started_ns),
        command=command,
        started_ns=started_ns,
        seconds=outcome.seconds,
        exit_code=outcome.exit_code,
        signal=outcome.signal,
        build_seconds=build_seconds,
    )


def _why_missed(store: Store, report: RunReport) -> str | None:
    from jcache.cli.reports.miss_hint import miss_hint

    return miss_hint(store, report.id)


def _report(store: Store, report: RunReport, file: str | None, *, json: bool, quiet: bool, verbose: bool) -> None:
    if json:
        output.message(jsonlib.dumps(report.to_json(), indent=2), whole=True)
    elif not quiet:
        output.message(summary(report))
        if report.misses and (why := _why_missed(store, report)):
            output.message(f"  {why}")
        if verbose:
            from jcache.cli.reports.run_lines import run_lines

            for line in run_lines(report):
                output.message(line)
    if not json:  # the JSON report has them
        for notice in report.notices:
            output.warning(notice)
    if file is not None:
        try:
            with files.refusal(f"write the report {file}"):
                files.publish(Path(file).absolute(), (jsonlib.dumps(report.to_json(), indent=2) + "\n").encode())
        except CannotWrite as error:
            output.warning(str(error))
