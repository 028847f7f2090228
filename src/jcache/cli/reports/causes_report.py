"""Print why recorded runs missed, with each cause in a line: `jcache stats --by cause`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from jcache.cli import output
from jcache.cli.reports.stats_report import local_time
from jcache.explain.baseline import History
from jcache.explain.cause_history import CauseUsage, causes_of
from jcache.explain.programs import Programs
from jcache.explain.root_evidence import RootEvidence
from jcache.runs.record import record_from
from jcache.store.run_records import read_module, read_records
from jcache.store.store import Store
from jcache.text import command
from jcache.units import format_seconds


def find_causes(store: Store, reports: Sequence[Mapping[str, Any]]) -> tuple[list[CauseUsage], int]:
    """Return why runs missed, and how many of them have a record.

    Args:
        store: store of the root.
        reports: reports of the runs.
    """
    history = History(record for data in read_records(store.root) if (record := record_from(data)) is not None)
    wanted = {report["id"] for report in reports}
    with Programs(lambda module: read_module(store.root, module), os.environ) as programs:
        causes = causes_of(history, wanted, programs, RootEvidence(store, history.keys))
    return causes, sum(run.id in wanted for run in history.runs)


def render_causes(store: Store, causes: Sequence[CauseUsage], recorded: int, runs: int, count: int) -> None:
    """Print causes for people.

    Args:
        store: store of the root.
        causes: the causes, the dearest first.
        recorded: the number of runs that have a record.
        runs: the number of all runs.
        count: number of lines of the table.
    """
    if not runs:
        output.message(f"No runs recorded yet: `{command('run', store.root.path, '-- CMD')}` records one.")
        return
    if causes:
        columns = [("cause", "fold"), ("misses", "right"), ("seconds", "right"), ("runs", "right"), ("last", "left")]
        rows = [
            (
                output.plain(cause.title),
                f"{cause.misses:,}",
                format_seconds(cause.seconds),
                f"{cause.runs:,}",
                local_time(cause.last_ns),
            )
            for cause in causes[:count]
        ]
        output.rich(output.table(columns, rows))
        if len(causes) > count:
            output.prose(f"first {count:,} of {len(causes):,}; -v shows all")
    misses, seconds = sum(cause.misses for cause in causes), sum(cause.seconds for cause in causes)
    of_runs = f"{output.count(recorded, 'run', 'runs')}" + (f" of {runs:,}" if recorded != runs else "")
    output.prose(f"{output.count(misses, 'miss', 'misses')} in {of_runs} with a record took {format_seconds(seconds)}")
    if recorded:
        output.prose(f"`{command('explain', store.root.path)}` says more about the last run")
