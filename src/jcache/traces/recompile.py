"""Compile the programs of traces from another machine for this one, in a child process that has JAX.

A trace has its program as portable StableHLO. If the executable does not fit this machine (another CPU, GPU, jaxlib or
XLA flag), or was not shipped, `jcache.jit` compiles the program at the first call. `recompile` compiles it before.
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
    """The outcome for one program.

    Attributes:
        RECOMPILED: it was compiled.
        THERE: the root already had its executable for this machine.
        ELSEWHERE: it cannot be used, or not before its first call, on this machine: it is of another jax or platform,
            needs more devices, or calls back to the host.
        FAILED: it could not be compiled or stored.
    """

    RECOMPILED = "recompiled"
    THERE = "there"
    ELSEWHERE = "elsewhere"
    FAILED = "failed"


@dataclass(slots=True)
class Recompiled:
    """The outcomes for all programs.

    Attributes:
        results: the outcome for each program, by its key.
        reasons: the number of programs with each outcome and reason, for programs that were not compiled.
    """

    results: dict[str, Recompiling] = field(default_factory=dict)
    reasons: Counter[tuple[Recompiling, str]] = field(default_factory=Counter)

    def count(self, result: Recompiling) -> int:
        """Return the number of programs with an outcome."""
        return sum(one is result for one in self.results.values())

    def add(self, key: str, result: Recompiling, evidence: str) -> None:
        """Add the outcome for a program; `evidence` is the reason, empty if there is none."""
        self.results[key] = result
        if evidence:
            self.reasons[result, evidence] += 1


def recompile(store: Store, keys: Collection[str], progress: Progress[str] = iter) -> Recompiled:
    """Compile the programs among some entries that have no executable for this machine, with the user's JAX.

    Args:
        store: the store that has the entries; the executables go there, too.
        keys: the keys of traces and programs.
        progress: shows the progress of an iteration.

    Returns:
        The outcomes.

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
            except ChildDied as death:  # a new child goes on with the other programs
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
    """Return the user's environment, in which JAX stores every executable in this root."""
    return {
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        **base,
        **settings(store.root.directory(Kind.EXECUTABLES), base, override_user=True),
        "JCACHE_DIR": str(store.root.path),
    }
