"""The programs of traces that came from elsewhere, compiled for this machine in a process that has JAX.

A trace holds its program as portable StableHLO. Where its executable does not fit (another CPU, GPU, jaxlib or XLA's
flags), or did not come, `jcache.jit` compiles that at the first call; here it is done ahead of it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from jcache.jax_internals.child import MALFORMED_ANSWER, Child, ChildDied, child_of, interpreter
from jcache.layout import Kind
from jcache.package import own_file
from jcache.runs.environment import settings
from jcache.store.lineage import header_of, is_program
from jcache.store.progress import Progress
from jcache.store.store import Store

_RECOMPILER: Final = own_file("traces", "recompile_child.py")
_LIMIT_S: Final = 3600.0  # the largest programs take XLA the better part of an hour


class Recompiling(StrEnum):
    """What became of a program."""

    RECOMPILED = "recompiled"
    THERE = "there"  # its executable for this machine
    ELSEWHERE = "elsewhere"  # nothing here can call it: another jax, another platform, not enough devices
    FAILED = "failed"


@dataclass(slots=True)
class Recompiled:
    """What became of the programs."""

    results: dict[str, Recompiling] = field(default_factory=dict)  # of each, by its key
    reasons: Counter[tuple[Recompiling, str]] = field(default_factory=Counter)  # of those that were not compiled

    def count(self, result: Recompiling) -> int:
        return sum(one is result for one in self.results.values())

    def add(self, key: str, result: Recompiling, evidence: str) -> None:
        self.results[key] = result
        if evidence:
            self.reasons[result, evidence] += 1


def recompile(store: Store, keys: Collection[str], progress: Progress[str] = iter) -> Recompiled:
    """Compile the programs among some traces whose executables are not there, with the JAX that the user has.

    Raises:
        NoJax: JAX cannot be started.
    """
    done = Recompiled()
    waiting = iter(progress(_programs(store, keys)))
    while (left := next(waiting, None)) is not None:
        python, env = interpreter(os.environ), _environment(store, os.environ)
        with child_of(python, _RECOMPILER, _LIMIT_S, env, str(store.root.path), doing="compile programs") as child:
            try:
                while left is not None:
                    done.add(left, *_answer(child, left))
                    left = next(waiting, None)
                child.end()
            except ChildDied as death:  # with the others another one begins
                if left is not None:
                    done.add(left, Recompiling.FAILED, f"compiling it ended the process: {death.evidence}")
    return done


def _programs(store: Store, keys: Collection[str]) -> list[str]:
    headers = ((key, header_of(store, (Kind.TRACES, key))) for key in sorted(keys))
    return [key for key, header in headers if header is not None and is_program(header) and header.payload_length]


def _answer(child: Child, key: str) -> tuple[Recompiling, str]:
    result, evidence = child.ask(key, "result", "evidence")
    try:
        return Recompiling(result), evidence
    except ValueError:
        raise ChildDied(MALFORMED_ANSWER) from None


def _environment(store: Store, base: Mapping[str, str]) -> dict[str, str]:
    """JAX as the user has set it up, with this root for a cache that takes everything."""
    return {
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        **base,
        **settings(store.root.directory(Kind.EXECUTABLES), base, override_user=True),
        "JCACHE_DIR": str(store.root.path),
    }
