"""The line with which `jcache run` ends where something missed that an earlier run had."""

from __future__ import annotations

from typing import Final

from jcache.cli.output import count
from jcache.explain.baseline import History
from jcache.explain.diagnosis import diagnose
from jcache.explain.programs import Programs
from jcache.explain.result import Cause
from jcache.explain.root_evidence import RootEvidence
from jcache.runs.record import record_from
from jcache.store.run_records import read_module, read_records
from jcache.store.store import Store
from jcache.text import command, shown
from jcache.vocabulary import RANK, CauseKind

_RUNS: Final = 20  # records that are read; `jcache explain` reads all


def miss_hint(store: Store, run_id: str) -> str | None:
    """Return the dearest cause of a run's misses in one line; None if nothing missed that had been compiled before.

    No JAX is started, so a change in a program is not looked at more closely.

    Args:
        store: store of the root that has the run's record.
        run_id: the run's identifier.
    """
    records = [record for data in read_records(store.root, latest=_RUNS) if (record := record_from(data)) is not None]
    run = next((record for record in records if record.id == run_id), None)
    if run is None:
        return None
    history = History(records)
    with Programs(lambda module: read_module(store.root, module), None) as programs:
        found = diagnose(history, run, programs, RootEvidence(store, history.keys, reads_entries=False))
    cause = next((cause for cause in found.causes if cause.item is not CauseKind.FIRST_TIME), None)
    if cause is None:
        return None
    misses = count(found.misses, "miss", "misses")
    return f"{cause.misses} of {misses}: {_what(cause)}; `{command('explain', store.root.path)}` says more"


def _what(cause: Cause) -> str:
    """Return a cause in a few words, such as ``XLA_FLAGS changed`` or ``shape of batch in step changed``."""
    if RANK[cause.item] < RANK[CauseKind.FIRST_TIME]:
        return str(cause.item)
    if cause.item is CauseKind.PROGRAM:
        return f"the program of {shown(cause.function)} changed"
    if cause.item in (CauseKind.CHURN, CauseKind.ORDER, CauseKind.UNKNOWN):
        return cause.reason
    of_name = (
        f" {shown(cause.name)}"
        if cause.item in (CauseKind.STATIC, CauseKind.COMPILE_OPTION, CauseKind.JAX_OPTION)
        else ""
    )
    is_of_argument = cause.item in (
        CauseKind.DTYPE,
        CauseKind.SHAPE,
        CauseKind.WEAK_TYPE,
        CauseKind.SHARDING,
        CauseKind.DONATION,
    )
    of_name = f" of {shown(cause.name)}" if is_of_argument and cause.name else of_name
    place = f" in {shown(cause.function)}" if is_of_argument or cause.item is CauseKind.STATIC else ""
    return f"{cause.item}{of_name}{place} changed"
