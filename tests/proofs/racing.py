"""The work of each process of the races, until all processes have done enough.

    python -m tests.proofs.racing ROLE DIRECTORY BOUND SEED ROUNDS

A process prints "ready", begins after a line, prints "enough" after so many rounds, continues until another line, and
then prints the number of its operations as JSON. Any warning and any exception ends it with a traceback.
"""

import atexit
import json
import os
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from select import select

from jcache.findings import Remedy
from jcache.formats.envelope import Codec, seal
from jcache.formats.executable import pack_executable
from jcache.layout import SIDECAR_SUFFIX, TEMPORARY_PREFIX, Kind, Root
from jcache.store.eviction import plan
from jcache.store.locking import locked
from jcache.store.policy import Policy
from jcache.store.quarantine import Quarantine
from jcache.store.store import Store
from jcache.verify.repair import RepairOutcome, repair
from jcache.verify.result import VerifyRequest
from jcache.verify.verification import verify
from tests.helpers.entries import DAY, NOW, SECOND, digits, files_of, key, xla_program
from tests.helpers.waiting import LIMIT_S

HOT, COLD = range(8), range(1000, 1400)
VARIANTS = 1
GRACE_NS = 60 * SECOND  # of a process that does not get to run in the middle of writing
BAD = "jit_bad"
PLANTED_BYTES = 20_000  # what one process plants before others make room again
EXECUTABLES, TRACES = Kind.EXECUTABLES, Kind.TRACES


def content(kind: Kind, a_key: str, variant: int = 0) -> bytes:
    """Return one of the right contents of a key, of 300 to 2,300 bytes; compiling a program twice may give two."""
    chance = random.Random(f"{kind} {a_key} {variant}")
    payload = b"\x0a" + chance.randbytes(chance.randrange(300, 2000))
    if kind is EXECUTABLES:
        return pack_executable(xla_program(payload), 3, Codec.ZLIB)
    return seal(payload, kind=kind, name="jit_step", key=a_key, build_seconds=1.5, created_ns=NOW)


def damaged(a_key: str) -> bytes:
    """Return the wrong bytes of a planted entry."""
    data = content(EXECUTABLES, a_key)
    return (data[: len(data) // 2], b"", b"none of ours " + data, data[:-1])[int(a_key[-1], 16) % 4]


class Racer:
    """One process; a bound below zero is none.

    With a bound, any writer may write any variant: files replaced by others must not be taken for damage. Without one,
    two JAX processes may write one file at a time in place, which only equal contents survive.
    """

    def __init__(self, directory: Path, bound: int, seed: int) -> None:
        self.directory = directory
        self.bound = None if bound < 0 else bound
        self.chance = random.Random(seed)
        self.root = Root(directory, plain=True)
        self.done: Counter[str] = Counter()
        self.count = 0

    def some_content(self, kind: Kind, a_key: str) -> bytes:
        several = self.bound is not None and kind is EXECUTABLES
        return content(kind, a_key, self.chance.randrange(VARIANTS) if several else 0)

    def check(self, kind: Kind, a_key: str, data: bytes | None, *, prefix: bool = False) -> None:
        """Assert that a read returned nothing or right bytes, or, where JAX writes in place, perhaps their
        beginning.
        """
        self.done["misses" if data is None else "hits"] += 1
        if data is None:
            return
        right = [content(kind, a_key, variant) for variant in range(VARIANTS if kind is EXECUTABLES else 1)]
        if data not in right:
            assert prefix and any(one.startswith(data) for one in right), f"{a_key} holds {len(data)} wrong bytes"
            self.done["read while JAX was writing"] += 1

    def hot(self) -> str:
        """The next of the keys that are always in use."""
        self.count += 1
        return key(HOT[self.count % len(HOT)])

    def cold(self) -> str:
        return key(self.chance.choice(COLD))

    # -- roles; each gives what to do again and again

    def jax(self) -> Callable[[], None]:
        """Use JAX's own cache; without a bound it gets only keys that no prune removes, since its get looks
        first and reads later.
        """
        from jax._src.lru_cache import LRUCache

        theirs = LRUCache(
            str(self.directory), max_size=-1 if self.bound is None else self.bound, lock_timeout_secs=LIMIT_S
        )

        def work() -> None:
            a_key = self.cold()
            theirs.put(a_key, self.some_content(EXECUTABLES, a_key))
            hot = self.hot()
            data = theirs.get(hot)
            assert data is not None, f"{hot} is lost"
            self.check(EXECUTABLES, hot, data)
            if self.bound is not None:
                a_key = self.cold()
                self.check(EXECUTABLES, a_key, theirs.get(a_key))
            self.done["puts"] += 1
            time.sleep(self.chance.random() * 0.004)

        return work

    def jcache(self) -> Callable[[], None]:
        """jcache's runtime."""
        store = Store(self.root, max_bytes=self.bound, lock_timeout=LIMIT_S)
        atexit.register(store.close)

        def work() -> None:
            for kind in (EXECUTABLES, TRACES):
                a_key = self.cold()
                store.put(kind, a_key, self.some_content(kind, a_key), seconds=1.0)
                a_key = self.cold()
                self.check(kind, a_key, store.get(kind, a_key), prefix=kind is EXECUTABLES)
                self.done["puts"] += 1
            hot = self.hot()
            data = store.get(EXECUTABLES, hot)
            assert data is not None, f"{hot} is lost"
            self.check(EXECUTABLES, hot, data)
            assert not store.notices, store.notices
            time.sleep(self.chance.random() * 0.004)

        return work

    def prune(self) -> Callable[[], None]:
        """`jcache prune`, again and again by another process's eyes."""

        def work() -> None:
            with Store(self.root, lock_timeout=LIMIT_S) as store:
                policy = self.chance.choice([Policy(max_entries=80), Policy(max_bytes=90_000), Policy(keep_last=70)])
                removal = store.maintenance.execute(plan(store.entries(), policy, now_ns=time.time_ns()))
                assert not removal.failures, removal.failures
                assert not {entry.key for entry in removal.removed} & set(map(key, HOT))
                assert not store.notices, store.notices
            self.done["prunes"] += 1
            self.done["pruned"] += len(removal.removed)
            self.check_bound()
            time.sleep(self.chance.random() * 0.2)

        return work

    def check_bound(self) -> None:
        """Assert that the entries on disk keep the bound while the lock is held."""
        if self.bound is not None:
            with locked(self.root, Kind.EXECUTABLES, timeout=LIMIT_S):
                size = sum(files_of(self.directory).values())
            assert size <= self.bound + PLANTED_BYTES, size

    def verify(self) -> Callable[[], None]:
        """`jcache verify --repair`, after planting some damage for it to find."""

        def work() -> None:
            with locked(self.root, Kind.EXECUTABLES, timeout=LIMIT_S):
                for _ in range(self.chance.randrange(4)):
                    self.plant()
            with Store(self.root, lock_timeout=LIMIT_S) as store:
                findings = verify(store, VerifyRequest(grace_ns=GRACE_NS)).findings
                for finding in findings:
                    ours = (finding.key or BAD).startswith(BAD)
                    assert ours or finding.remedy not in (Remedy.QUARANTINE, Remedy.BEGIN_ANEW, Remedy.BY_HAND), finding
                    self.done[finding.damage] += 1
                for repaired in repair(store, findings, grace_ns=GRACE_NS):
                    assert repaired.outcome is not RepairOutcome.FAILED, repaired
                    self.done[f"then {repaired.outcome}"] += 1
                assert not store.notices, store.notices
            for record in Quarantine(self.root).records():
                if self.chance.random() < 0.2:
                    Quarantine(self.root).drop(record)
                    self.done["dropped"] += 1
            self.done["verifications"] += 1

        return work

    def plant(self) -> None:
        """Plant complete damaged entries with old times, so that no reader takes them for unfinished."""
        number = self.chance.randrange(10**9)
        a_key, long_ago = key(number, BAD), time.time_ns() - DAY
        used = time.time_ns() + 60 * SECOND  # no prune takes it away before it is found
        sidecar = self.directory / (a_key + SIDECAR_SUFFIX)
        match self.chance.choice(["entry", "entry", "sidecar", "temporary"]):
            case "entry":
                aside = self.directory.parent / digits(number)
                aside.write_bytes(damaged(a_key))
                os.utime(aside, ns=(long_ago, long_ago))
                sidecar.write_bytes(used.to_bytes(8, "little") if self.chance.random() < 0.8 else b"abc")
                aside.rename(self.directory / f"{a_key}-cache")
            case "sidecar":
                sidecar.write_bytes(bytes(8))
                os.utime(sidecar, ns=(long_ago, long_ago))
            case "temporary":
                path = self.directory / f"{TEMPORARY_PREFIX}{number}"
                path.write_bytes(b"half of it")
                os.utime(path, ns=(long_ago, long_ago))
        self.done["planted"] += 1


def main(role: str, directory: str, bound: str, seed: str, rounds: str) -> None:
    warnings.simplefilter("error")
    racer = Racer(Path(directory), int(bound), int(seed))
    work: Callable[[], None] = {"JAX": racer.jax, "jcache": racer.jcache, "prune": racer.prune, "verify": racer.verify}[
        role
    ]()
    print("ready", flush=True)
    os.read(0, 1)
    for _ in range(int(rounds)):
        work()
    print("enough", flush=True)
    while not select([0], [], [], 0)[0]:
        work()
    print(json.dumps(racer.done), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
