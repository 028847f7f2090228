"""A plugin of pytest for other projects' tests: it puts `jcache.jit` in the place of `jax.jit`, and notes outcomes.

JCACHE_PEER_JIT is ``jax`` or ``jcache``, JCACHE_PEER_ROOT the root, JCACHE_PEER_OUTCOMES the file of the outcomes.
"""

import json
import os
from typing import Any

import jax

import jcache

jcache.enable(os.environ["JCACHE_PEER_ROOT"], strict=True)
if os.environ["JCACHE_PEER_JIT"] == "jcache":
    jax.jit = jcache.jit
outcomes: dict[str, str] = {}


def pytest_runtest_logreport(report: Any) -> None:
    """Notes the outcome of a test; one of its parts that failed decides."""
    if report.when == "call" or report.outcome != "passed":
        outcomes[report.nodeid] = report.outcome


def pytest_sessionfinish() -> None:
    """Writes the outcomes, and how many calls were stored, served and left to `jax.jit`."""
    traces = jcache.stats().traces
    counts: dict[str, int] = {}
    for call in () if traces is None else traces.calls:
        counts[call.outcome] = counts.get(call.outcome, 0) + 1
    with open(os.environ["JCACHE_PEER_OUTCOMES"], "w") as file:
        json.dump([outcomes, counts], file)
