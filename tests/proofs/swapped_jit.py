"""A plugin of pytest for other projects' tests: it puts `jcache.jit` in the place of `jax.jit`, and notes outcomes.

JCACHE_PEER_JIT is ``jax`` or ``jcache``, JCACHE_PEER_ROOT the root, JCACHE_PEER_OUTCOMES the file of the outcomes. The
file beside it whose name ends in ``.log`` gets a line for each test, and one for each result of a jitted function. What
writes it has no state, since it is called in the place of jitted functions inside others.
"""

import functools
import hashlib
import json
import os
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jcache

jcache.enable(os.environ["JCACHE_PEER_ROOT"], strict=True)
jit: Callable[..., Any] = jcache.jit if os.environ["JCACHE_PEER_JIT"] == "jcache" else jax.jit
outcomes: dict[str, str] = {}
LOG = 200  # always the same number, because code within jitted functions refers to it
os.dup2(os.open(f"{os.environ['JCACHE_PEER_OUTCOMES']}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), LOG)


class Noting:
    """A jitted function that notes a digest of each result outside of a trace; it is the function in all else."""

    def __init__(self, jitted: Any) -> None:
        self.jitted = jitted
        functools.update_wrapper(self, jitted, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self.jitted(*args, **kwargs)
        leaves = jax.tree_util.tree_leaves(result)
        if not any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            name = getattr(self.jitted, "__name__", "")
            os.write(LOG, " ".join(["result", name, *map(digest, leaves), "\n"]).encode())
        return result

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["jitted"], name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Noting) and bool(self.jitted == other.jitted)

    def __hash__(self) -> int:
        return hash(self.jitted)


def digest(leaf: Any) -> str:
    """Type, shape and content of an array; of anything else its type."""
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    try:
        content = np.asarray(leaf)
    except (TypeError, ValueError):
        return type(leaf).__name__
    told = f"{content.dtype}{content.shape}{getattr(leaf, 'weak_type', False)}".encode()
    return hashlib.sha256(told + content.tobytes()).hexdigest()[:16]


def noting(function: Any = None, **options: Any) -> Any:
    """Jit a function, or return a decorator that does."""
    if function is None:
        return functools.partial(noting, **options)
    return Noting(jit(function, **options))


jax.jit = noting


def pytest_runtest_setup(item: Any) -> None:
    """Writes which test runs."""
    os.write(LOG, f"test {item.nodeid}\n".encode())


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
