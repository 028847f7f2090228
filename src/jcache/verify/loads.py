"""What opening a root's executables with the installed jaxlib says about them, and about this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jcache.findings import Damage, Finding, Stamp
from jcache.jax_internals.child import interpreter
from jcache.layout import Kind
from jcache.store.maintenance import Progress
from jcache.store.store import Store
from jcache.verify.checks import Claim
from jcache.verify.load_check import Loaded, Loading, load

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
    """Opens the executables among some entries, with the JAX of the interpreter that ``JCACHE_PYTHON`` names.

    What crashes or hangs is damaged. What jaxlib refuses is damaged if that very jaxlib wrote it; else it is just not
    loadable here: another version's entries, which it never looks up, are refused with the same words.

    Args:
        store: of the root.
        claims: the entries; those of other kinds, and legacy ones, which no jaxlib of today opens, are passed over.
        progress: is given the paths, and passes them on.

    Raises:
        NoJax: JAX cannot be started.
    """
    directory = store.root.directory(Kind.EXECUTABLES)
    keys = {directory / c.file_name: c.key for c in claims if c.kind is Kind.EXECUTABLES and not c.legacy}
    stamps = {path: stamp for path in keys if (stamp := _stamp(path)) is not None}
    known = store.softly(lambda: store.ledger.known(Kind.EXECUTABLES)) or {}
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
