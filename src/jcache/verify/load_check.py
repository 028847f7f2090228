"""Test which executables load here: child processes open them with the installed jaxlib, since some may crash.

An entry is native code: one changed bit may crash the process that opens it at once, later, or never. So child
processes (`jcache.jax_internals.child_load`) open entries in batches. An entry counts as loading only if its process
reaches the end of the batch. If a process crashes or hangs, the entry that it was opening is tried alone, and the
others are tried again without it. If that entry loads alone, the others are halved until the culprits are alone.

An entry for another platform, or for more devices than this machine has, is undamaged: its outcome is ``ELSEWHERE``.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from jcache.findings import Damage, Finding, Stamp
from jcache.jax_internals.child import MALFORMED_ANSWER, ChildDied, NoJax, child_of, interpreter
from jcache.layout import Kind
from jcache.package import own_file
from jcache.store.progress import Progress
from jcache.store.store import Store
from jcache.verify.checks import Claim

__all__ = ["LoadOutcome", "LoadResult", "NoJax", "try_loading"]

_CHILD_PROGRAM: Final = own_file("jax_internals", "child_load.py")
_MAX_BATCH_GROWTH: Final = 16  # batches grow while none crashes: JAX starts in 0.5 s, a small entry opens in 3 ms


class LoadOutcome(StrEnum):
    """Outcome of opening an entry."""

    LOADS = "loads"
    ELSEWHERE = "elsewhere"  # cannot load here: another platform, too few devices, no backend, unreadable file
    REFUSED = "refused"  # by jaxlib or by the codec
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"


@dataclass(frozen=True, slots=True)
class LoadResult:
    """Result of opening one entry.

    Attributes:
        evidence: what is missing, jaxlib's message, the signal's name or the time limit; empty if the entry loads.
        jaxlib: version that opened the entry. An entry that another version refuses is not damaged.
    """

    path: Path
    outcome: LoadOutcome
    evidence: str
    jaxlib: str


def try_loading(
    paths: Sequence[Path],
    *,
    python: str = sys.executable,
    batch: int = 64,
    time_limit_s: float = 60.0,
    progress: Progress[Path] = iter,
) -> Iterator[LoadResult]:
    """Yield the result of opening each executable, in order while none crashes; skip entries that are gone.

    Args:
        paths: entries of a cache directory.
        python: interpreter that has JAX.
        batch: number of entries that the first process opens; later ones open more while none crashes.
        time_limit_s: time limit for one entry, in seconds.
        progress: receives the paths and yields them.

    Raises:
        NoJax: JAX cannot be started.
    """
    yield from _Batches(python, time_limit_s, batch).results(progress(paths))


@dataclass(slots=True)
class _Attempt:
    """Work of one process: the entries that it was asked to open, its answers, and how it died, if it did."""

    asked: list[Path] = field(default_factory=list)
    answers: list[LoadResult] = field(default_factory=list)
    death: LoadResult | None = None  # result of the last entry that the process was asked to open


@dataclass(frozen=True, slots=True)
class _Batches:
    python: str
    time_limit_s: float
    batch: int

    def results(self, paths: Iterable[Path]) -> Iterator[LoadResult]:
        """Yield the results of all entries, batch by batch; split a batch whose process died."""
        pending, size = iter(paths), self.batch
        for first in pending:
            attempt = self._attempt(itertools.chain([first], itertools.islice(pending, size - 1)))
            if attempt.death is None:
                yield from attempt.answers
                size = min(2 * size, _MAX_BATCH_GROWTH * self.batch)
            else:
                yield from self._split(attempt.asked, attempt.death)
                size = self.batch

    def _split(self, asked: list[Path], death: LoadResult) -> Iterator[LoadResult]:
        """Yield the results of entries whose process died: try the last one alone, and the others without it."""
        *others, last = asked
        if not others:
            yield death
            return
        alone = list(self.results([last]))
        innocent = not any(a.outcome in {LoadOutcome.CRASHED, LoadOutcome.TIMED_OUT} for a in alone)
        middle = len(others) // 2 if innocent else 0
        yield from self.results(others[:middle])
        yield from self.results(others[middle:])
        yield from alone

    def _attempt(self, paths: Iterable[Path]) -> _Attempt:
        attempt = _Attempt()
        with child_of(
            self.python, _CHILD_PROGRAM, self.time_limit_s, _environment(os.environ), doing="open executables"
        ) as child:
            try:
                for path in paths:
                    attempt.asked.append(path)
                    result, evidence = child.ask(str(path), "result", "evidence")
                    if result != "gone":
                        attempt.answers.append(LoadResult(path, _parse_outcome(result), evidence, child.jaxlib))
                child.end()
            except ChildDied as death:
                loading = LoadOutcome.TIMED_OUT if death.late else LoadOutcome.CRASHED
                attempt.death = LoadResult(attempt.asked[-1], loading, death.evidence, child.jaxlib)
        return attempt


def _parse_outcome(result: str) -> LoadOutcome:
    try:
        return LoadOutcome(result)
    except ValueError:
        raise ChildDied(MALFORMED_ANSWER) from None


def _environment(base: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with JAX's cache off, the CPU among its platforms, and no preallocated GPU memory."""
    env = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **base, "JAX_ENABLE_COMPILATION_CACHE": "false"}
    platforms = env.get("JAX_PLATFORMS", "")
    if platforms and "cpu" not in platforms.split(","):
        env["JAX_PLATFORMS"] = f"{platforms},cpu"
    return env


_DAMAGES = {
    LoadOutcome.CRASHED: Damage.CRASHES,
    LoadOutcome.TIMED_OUT: Damage.HANGS,
    LoadOutcome.REFUSED: Damage.REFUSED,
}


@dataclass(slots=True)
class LoadCheck:
    """Result of `jcache verify --load`.

    Attributes:
        results: results by key.
        findings: findings on the damaged entries.
    """

    results: dict[str, LoadResult] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def count(self, loading: LoadOutcome) -> int:
        return sum(loaded.outcome is loading for loaded in self.results.values())


def check_loading(store: Store, claims: Sequence[Claim], progress: Progress[Path] = iter) -> LoadCheck:
    """Open the executables among some entries, with the JAX of the interpreter that ``JCACHE_PYTHON`` names.

    An entry that crashes or hangs is damaged. An entry that jaxlib refuses is damaged if the same version of jaxlib
    wrote it. Otherwise it only cannot load here: jaxlib refuses entries of other versions with the same message.

    Args:
        store: store of the root.
        claims: entries; those of other kinds are skipped.
        progress: receives the paths and yields them.

    Raises:
        NoJax: JAX cannot be started.
    """
    directory = store.root.directory(Kind.EXECUTABLES)
    keys = {directory / c.file_name: c.key for c in claims if c.kind is Kind.EXECUTABLES}
    stamps = {path: stamp for path in keys if (stamp := _stamp(path)) is not None}
    known = store.queue.attempt(lambda: store.ledger.known(Kind.EXECUTABLES)) or {}
    loads = LoadCheck()
    if not stamps:
        return loads
    for loaded in try_loading(list(stamps), python=interpreter(os.environ), progress=progress):
        key = keys[loaded.path]
        writer = known[key].jaxlib if key in known else None
        if loaded.outcome is LoadOutcome.REFUSED and writer != loaded.jaxlib:
            reason = f"jaxlib {loaded.jaxlib}, which may not have written it, says: {loaded.evidence}"
            loaded = LoadResult(loaded.path, LoadOutcome.ELSEWHERE, reason, loaded.jaxlib)
        loads.results[key] = loaded
        if loaded.outcome in _DAMAGES:
            loads.findings.append(_finding(loaded, key, stamps[loaded.path]))
    return loads


def _finding(loaded: LoadResult, key: str, stamp: Stamp) -> Finding:
    damage = _DAMAGES[loaded.outcome]
    evidence = f"jaxlib {loaded.jaxlib} {loaded.outcome.replace('_', ' ')}: {loaded.evidence}."
    return Finding(damage=damage, path=loaded.path, evidence=evidence, kind=Kind.EXECUTABLES, key=key, stamp=stamp)


def _stamp(path: Path) -> Stamp | None:
    try:
        return Stamp.of(os.lstat(path))
    except OSError:
        return None
