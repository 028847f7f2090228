"""Say why a root has no executables: by itself, JAX stores only programs that take over a second to compile."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from jcache.jax_internals.presets import JAX_DEFAULTS
from jcache.runs.stored_reports import read_reports
from jcache.store.store import Store
from jcache.text import command

_OPTION: Final = "jax_persistent_cache_min_compile_time_secs"
_UNDER_IT: Final = re.compile(r"compiled in less than [\d.e+-]+ s")  # as `jcache.runs.log_messages` has it


def explain_empty(store: Store) -> str:
    """Return a sentence on JAX's threshold, and how many compilations of the last run took less.

    Args:
        store: store of a root without executables.
    """
    reports = read_reports((store.queue.attempt(store.ledger.runs) or [])[-1:])
    seconds, run = f"{JAX_DEFAULTS[_OPTION]:g} s", command("run", store.root.path, "-- CMD")
    told = f": {_count(reports[-1])}" if reports else ""
    return (
        f"without jcache, JAX stores only programs that take over {seconds} to compile, or as long as "
        f"{_OPTION.upper()} says{told}; `{run}` stores all"
    )


def _count(report: Mapping[str, Any]) -> str:
    reasons = report["reasons"].get("not_stored", {})
    under = sum(number for reason, number in reasons.items() if _UNDER_IT.fullmatch(reason))
    compiled = sum(report[name] for name in ("stored", "not_stored", "bypassed"))
    return f"{under:,} of the {compiled:,} compilations of the last run took less"
