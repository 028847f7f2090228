"""Which executables load here: opened with the installed jaxlib, in a child process, since they may crash it.

An entry is native code: a changed bit may end the process that opens it at once, later, or never. So entries are opened
in batches, each by a process of its own (`jcache.jax_internals.child_load`), and one counts as loading only if that
process then reached
the end of its batch. Of a batch that crashed or hung, the entry that was being opened is tried alone, the others again
without it; if it was not to blame, the others are halved until those that are have been alone.

An entry for another platform, or for more devices than there are, is no worse for that: it is ``ELSEWHERE``.
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
from jcache.store.maintenance import Progress
from jcache.store.store import Store
from jcache.verify.checks import Claim

__all__ = ["Loaded", "Loading", "NoJax", "load"]

_LOADER: Final = own_file("jax_internals", "child_load.py")
_GROWTH: Final = 16  # of batches while none crashes: JAX starts in 0.5 s, a small entry is opened in 3 ms


class Loading(StrEnum):
    """What became of an entry that was opened."""

    LOADS = "loads"
    ELSEWHERE = "elsewhere"  # not loadable here: another platform, not enough devices, no backend, not readable
    REFUSED = "refused"  # jaxlib, or the codec before it, says no
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"


@dataclass(frozen=True, slots=True)
class Loaded:
    """One entry, and what became of it.

    Attributes:
        evidence: what is missing, jaxlib's message, the signal's name, or the time; empty where it loads.
        jaxlib: the version that opened it: what another one refuses is not damaged.
    """

    path: Path
    loading: Loading
    evidence: str
    jaxlib: str


def load(
    paths: Sequence[Path],
    *,
    python: str = sys.executable,
    batch: int = 64,
    time_limit_s: float = 60.0,
    progress: Progress[Path] = iter,
) -> Iterator[Loaded]:
    """Yield the result of opening each executable, in order while none crashes; those that are gone are left out.

    Args:
        paths: entries, as they lie in a cache directory.
        python: an interpreter that has JAX.
        batch: how many entries the first process opens; later ones open more while none crashes.
        time_limit_s: how long one entry may take.
        progress: is given the paths, and passes them on.

    Raises:
        NoJax: JAX cannot be started.
    """
    yield from _Batches(python, time_limit_s, batch).settle(progress(paths))


@dataclass(slots=True)
class _Attempt:
    """What one process did: the entries that it was asked to open, and how it died before their end, if it did."""

    asked: list[Path] = field(default_factory=list)
    answers: list[Loaded] = field(default_factory=list)
    death: Loaded | None = None  # of the last one asked for


@dataclass(frozen=True, slots=True)
class _Batches:
    python: str
    time_limit_s: float
    batch: int

    def settle(self, paths: Iterable[Path]) -> Iterator[Loaded]:
        """Yield the verdicts on entries: batch by batch, and those of a batch that failed once more in smaller ones."""
        pending, size = iter(paths), self.batch
        for first in pending:
            attempt = self._attempt(itertools.chain([first], itertools.islice(pending, size - 1)))
            if attempt.death is None:
                yield from attempt.answers
                size = min(2 * size, _GROWTH * self.batch)
            else:
                yield from self._blame(attempt.asked, attempt.death)
                size = self.batch

    def _blame(self, asked: list[Path], death: Loaded) -> Iterator[Loaded]:
        """Yield the entries of a process that died; the last one was being opened, or the last of its batch."""
        *others, last = asked
        if not others:
            yield death
            return
        alone = list(self.settle([last]))
        innocent = not any(a.loading in {Loading.CRASHED, Loading.TIMED_OUT} for a in alone)
        middle = len(others) // 2 if innocent else 0
        yield from self.settle(others[:middle])
        yield from self.settle(others[middle:])
        yield from alone

    def _attempt(self, paths: Iterable[Path]) -> _Attempt:
        attempt = _Attempt()
        with child_of(
            self.python, _LOADER, self.time_limit_s, _environment(os.environ), doing="open executables"
        ) as child:
            try:
                for path in paths:
                    attempt.asked.append(path)
                    result, evidence = child.ask(str(path), "result", "evidence")
                    if result != "gone":
                        attempt.answers.append(Loaded(path, _loading(result), evidence, child.jaxlib))
                child.end()
            except ChildDied as death:
                loading = Loading.TIMED_OUT if death.late else Loading.CRASHED
                attempt.death = Loaded(attempt.asked[-1], loading, death.evidence, child.jaxlib)
        return attempt


def _loading(result: str) -> Loading:
    try:
        return Loading(result)
    except ValueError:
        raise ChildDied(MALFORMED_ANSWER) from None


def _environment(base: Mapping[str, str]) -> dict[str, str]:
    """Return the user's environment for JAX, but without a cache, with the CPU, and with little of a GPU's memory."""
    env = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **base, "JAX_ENABLE_COMPILATION_CACHE": "false"}
    platforms = env.get("JAX_PLATFORMS", "")
    if platforms and "cpu" not in platforms.split(","):
        env["JAX_PLATFORMS"] = f"{platforms},cpu"
    return env


_DAMAGES = {Loading.CRASHED: Damage.CRASHES, Loading.TIMED_OUT: Damage.HANGS, Loading.REFUSED: Damage.REFUSED}


@dataclass(slots=True)
class Loads:
    """Which executables load here.

    Attributes:
        verdicts: on each entry, by key.
        findings: those that are damaged.
    """

    verdicts: dict[str, Loaded] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def count(self, loading: Loading) -> int:
        return sum(loaded.loading is loading for loaded in self.verdicts.values())


def load_sound(store: Store, claims: Sequence[Claim], progress: Progress[Path] = iter) -> Loads:
    """Open the executables among some entries, with the JAX of the interpreter that ``JCACHE_PYTHON`` names.

    What crashes or hangs is damaged. What jaxlib refuses is damaged if that very jaxlib wrote it; else it is just not
    loadable here: another version's entries, which it never looks up, are refused with the same words.

    Args:
        store: of the root.
        claims: the entries; those of other kinds are passed over.
        progress: is given the paths, and passes them on.

    Raises:
        NoJax: JAX cannot be started.
    """
    directory = store.root.directory(Kind.EXECUTABLES)
    keys = {directory / c.file_name: c.key for c in claims if c.kind is Kind.EXECUTABLES}
    stamps = {path: stamp for path in keys if (stamp := _stamp(path)) is not None}
    known = store.queue.attempt(lambda: store.ledger.known(Kind.EXECUTABLES)) or {}
    loads = Loads()
    if not stamps:
        return loads
    for loaded in load(list(stamps), python=interpreter(os.environ), progress=progress):
        key = keys[loaded.path]
        writer = known[key].jaxlib if key in known else None
        if loaded.loading is Loading.REFUSED and writer != loaded.jaxlib:
            reason = f"jaxlib {loaded.jaxlib}, which may not have written it, says: {loaded.evidence}"
            loaded = Loaded(loaded.path, Loading.ELSEWHERE, reason, loaded.jaxlib)
        loads.verdicts[key] = loaded
        if loaded.loading in _DAMAGES:
            loads.findings.append(_finding(loaded, key, stamps[loaded.path]))
    return loads


def _finding(loaded: Loaded, key: str, stamp: Stamp) -> Finding:
    damage = _DAMAGES[loaded.loading]
    evidence = f"jaxlib {loaded.jaxlib} {loaded.loading.replace('_', ' ')}: {loaded.evidence}."
    return Finding(damage=damage, path=loaded.path, evidence=evidence, kind=Kind.EXECUTABLES, key=key, stamp=stamp)


def _stamp(path: Path) -> Stamp | None:
    try:
        return Stamp.of(os.lstat(path))
    except OSError:
        return None
