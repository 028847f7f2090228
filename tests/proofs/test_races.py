"""Ten processes at once, JAX's and ours: no warning, no exception, nothing lost.

Two directories, since JAX <= 0.11.1 cannot share one between processes with a bound and without: an unbounded put
writes no sidecar, and until somebody makes it every bounded put of every process fails (jax#39880). jcache's repair
makes it, but only afterwards; the window is JAX's own.

What JAX itself does not promise is not asked of it: without a bound its get looks whether an entry is there and then
reads it, so that removing one in between is an exception. There the unbounded JAX processes get keys that are pinned.

    pytest tests/proofs/test_races.py --full -s
"""

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from filelock import FileLock

from jcache.findings import Remedy
from jcache.layout import LOCK_NAME, Kind, Root
from jcache.store.ledger import Known
from jcache.store.quarantine import Quarantine
from jcache.store.roots import create_root
from jcache.store.store import Store
from jcache.verify.repair import repair
from jcache.verify.result import VerifyRequest
from jcache.verify.verification import verify
from tests.helpers.entries import files_of, key
from tests.helpers.waiting import LIMIT_S
from tests.proofs.racing import BAD, HOT, VARIANTS, content, damaged

pytestmark = pytest.mark.jax

FULL = 30  # times as many rounds
BOUND = 130_000  # about a hundred entries
ROLES = ("JAX", "JAX", "jcache", "prune", "verify")
ROUNDS = {"JAX": 20, "jcache": 20, "prune": 6, "verify": 3}  # of each process at least
EXECUTABLES = Kind.EXECUTABLES


class Racing:
    """A process of the races, and its final output."""

    def __init__(self, role: str, root: Root, bound: int, seed: int, rounds: int) -> None:
        self.name = f"{role} {'without a bound' if bound < 0 else 'bounded'} (seed {seed})"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.proofs.racing", role, *map(str, (root.path, bound, seed, rounds))],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_until_it_says(self, word: str) -> None:
        assert self.process.stdout
        if self.process.stdout.readline() != f"{word}\n":
            self.result()  # which tells why

    def tell(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def result(self) -> Counter[str]:
        said, complaint = self.process.communicate(timeout=LIMIT_S)
        assert (self.process.returncode, complaint) == (0, ""), f"{self.name}: {complaint[-3000:]}"
        return Counter(json.loads(said))


def prepared(path: Path) -> Root:
    """A root that holds the entries in constant use, pinned."""
    root = create_root(path, plain=True)
    with Store(root) as store:
        for a_key in map(key, HOT):
            store.put(EXECUTABLES, a_key, content(EXECUTABLES, a_key))
            store.ledger.record([Known(EXECUTABLES, a_key, pinned_ns=1)])
    return root


def check(root: Root, bound: int) -> None:
    """Assert what must hold after all processes have ended."""
    with FileLock(root.path / LOCK_NAME, timeout=0):
        pass
    shelf = files_of(root.path)
    assert shelf.keys() >= set(map(key, HOT))
    size = sum(size for a_key, size in shelf.items() if not a_key.startswith(BAD))
    assert bound < 0 or size <= bound
    for record in Quarantine(root).records():
        assert record.key.startswith(BAD), record
        assert (root.quarantine / f"{record.id}.entry").read_bytes() == damaged(record.key)
    with Store(root, lock_timeout=0) as store:
        findings = verify(store, VerifyRequest(grace_ns=0)).findings
        wrong = [f for f in findings if f.remedy is not Remedy.MAKE_SIDECAR and f.remedy is not Remedy.REMOVE]
        assert all((finding.key or "").startswith(BAD) for finding in wrong), wrong
        assert all(one.mended for one in repair(store, findings, grace_ns=0))
        assert verify(store, VerifyRequest(grace_ns=0)).findings == []
        assert store.pins.known(sure=True) == {(EXECUTABLES, key(number)) for number in HOT}
        assert not store.notices
    assert not list(root.state.glob("*damaged*"))
    for kind in (EXECUTABLES, Kind.TRACES):
        for a_key in files_of(root.directory(kind)):
            data = (root.directory(kind) / f"{a_key}-cache").read_bytes()
            assert data in [content(kind, a_key, variant) for variant in range(VARIANTS)], a_key


def test_races(tmp_path: Path, chance: random.Random, full: bool) -> None:
    """Each process runs without a warning, gets right entries, and loses none that is in use."""
    roots = {-1: prepared(tmp_path / "unbounded"), BOUND: prepared(tmp_path / "bounded")}
    racing = [
        Racing(role, root, bound, chance.randrange(2**32), ROUNDS[role] * (FULL if full else 1))
        for bound, root in roots.items()
        for role in ROLES
    ]
    try:
        for said in ("ready", "enough"):
            for one in racing:
                one.wait_until_it_says(said)
            for one in racing:
                one.tell()
        for one in racing:
            result = one.result()
            print(f"{one.name}: {', '.join(f'{count:,} {what}' for what, count in sorted(result.items()))}")
            assert result.total()
    finally:
        for one in racing:
            one.process.kill()
            one.process.wait()
    for bound, root in roots.items():
        check(root, bound)
