"""Processes killed at random points of whatever changes a root: nothing is lost, torn or left locked.

Half of the points are lines that the operation comes to, each as likely as the next; a quarter are taken among its
different lines, so that those that run once count as much as those of a loop; a quarter are moments, by which system
calls are hit as well.

    pytest tests/proofs/test_kill.py --full -s
"""

import json
import random
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from filelock import FileLock

from jcache.findings import Damage, Finding
from jcache.formats.envelope import Codec
from jcache.formats.executable import pack_executable
from jcache.layout import AUTOTUNE_NAME, LOCK_NAME, TEMPORARY_PREFIX, Kind, Root
from jcache.store.eviction import everything, plan
from jcache.store.ledger import Known
from jcache.store.policy import Verdict
from jcache.store.put_result import Outcome
from jcache.store.quarantine import Quarantine
from jcache.store.roots import create_root
from jcache.store.store import Store
from jcache.verify import verification
from jcache.verify.repair import repair
from jcache.verify.result import VerifyRequest
from jcache.verify.verification import verify
from tests.helpers.entries import DAY, NOW, add, digits, files_of, key, xla_program
from tests.proofs.killing import BOUND, NEW, OPERATIONS, Answer, Order_, content, policy

Name = tuple[Kind, str]
SHORT, FULL = 10, 150  # kills of each operation
OLD = {Kind.EXECUTABLES: range(12), Kind.TRACES: range(8)}
LEFTOVERS = frozenset({Damage.ORPHANED_SIDECAR, Damage.TEMPORARY, Damage.SIDECAR_SIZE})  # what a kill may leave


@dataclass
class Expected:
    """What must be true of a root after the kill.

    Attributes:
        stays: entries that the operation keeps, with their bytes.
        goes: entries that it may remove, with their bytes.
        guarded: entries that it moves between the root and quarantine, with their bytes: each is in one of the two.
        replaced: entries that it replaces, with their bytes: each is in the root, in quarantine, or in both.
        pins: pinned entries.
        damages: damage that may need a repair.
    """

    stays: dict[Name, bytes] = field(default_factory=dict)
    goes: dict[Name, bytes] = field(default_factory=dict)
    guarded: dict[Name, bytes] = field(default_factory=dict)
    replaced: dict[Name, bytes] = field(default_factory=dict)
    pins: set[Name] = field(default_factory=set)
    damages: frozenset[Damage] = LEFTOVERS

    def let_go(self, names: Iterable[Name]) -> None:
        self.goes |= {name: self.stays.pop(name) for name in names}

    def may_be(self, name: Name) -> set[bytes | None]:
        """The bytes that may be found under a name."""
        new = content(*name) if name[1] in map(key, NEW) else None
        return {of.get(name) for of in (self.stays, self.goes, self.guarded)} | {new}


class Zygote:
    """The process that forks those that are killed."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.proofs.killing"],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(
        self, root: Root, operation: str, seed: int, step: int | None = None, after: float | None = None
    ) -> Answer:
        order = Order_(operation=operation, path=str(root.path), plain=root.plain, seed=seed, step=step, after=after)
        assert self.process.stdin and self.process.stdout
        print(json.dumps(order), file=self.process.stdin, flush=True)
        answer: Answer = json.loads(self.process.stdout.readline())
        assert answer["error"] is None, answer["error"]
        return answer


@pytest.fixture(name="zygote", scope="module")
def zygote_fixture() -> Iterator[Zygote]:
    zygote = Zygote()
    with zygote.process:
        yield zygote
        zygote.process.kill()


# -- roots on which an operation has much to do, and what it may do to them


def planted(path: Path, operation: str, seed: int) -> tuple[Root, Expected]:
    chance = random.Random(seed)
    root, expected = create_root(path, plain=chance.random() < 0.5), Expected()
    if operation == "put into a new root":
        return root, expected
    with Store(root) as store:
        for kind, numbers in OLD.items():
            for number in numbers:
                data = expected.stays[kind, key(number)] = content(kind, key(number))
                store.put(kind, key(number), data, seconds=chance.random())
                add(root.directory(kind), key(number), data, used_ns=NOW + number, written_ns=NOW - DAY)
        expected.pins = set(chance.sample(sorted(expected.stays), 2))
        store.ledger.record(Known(*name, pinned_ns=1) for name in sorted(expected.pins))
    with Store(root) as store:
        if operation in PLANTS:
            PLANTS[operation](store, expected, chance, seed)
    return root, expected


def names(verdicts: Iterable[Verdict]) -> list[Name]:
    return [(verdict.entry.kind, verdict.entry.key) for verdict in verdicts]


def for_bounded_put(_: Store, expected: Expected, __: random.Random, ___: int) -> None:
    """The least recently used ones go, as many as all that is new asks for."""
    for kind, numbers in OLD.items():
        excess = sum(len(content(kind, key(number))) for number in (*numbers, *NEW)) - BOUND
        for name in [(kind, key(number)) for number in numbers if (kind, key(number)) not in expected.pins]:
            if excess > 0:
                excess -= len(expected.stays[name])
                expected.let_go([name])


def for_prune(store: Store, expected: Expected, _: random.Random, seed: int) -> None:
    expected.let_go(names(plan(store.entries(), policy(seed), now_ns=NOW).victims))


def for_clear(store: Store, expected: Expected, _: random.Random, __: int) -> None:
    directory = store.root.directory(Kind.EXECUTABLES)
    (directory / AUTOTUNE_NAME / "0123").mkdir(parents=True)
    (directory / AUTOTUNE_NAME / "0123" / "some.pb").write_bytes(b"tuned")
    (directory / digits(50)).write_bytes(content(Kind.EXECUTABLES, key(50)))
    expected.let_go(names(everything(store.entries()).victims))


def for_adopt(store: Store, expected: Expected, chance: random.Random, _: int) -> None:
    for kind, a_key in chance.sample(sorted(expected.stays), 8):
        (store.root.directory(kind) / f"{a_key}-atime").unlink()
    (store.root.directory(Kind.EXECUTABLES) / LOCK_NAME).touch()
    expected.damages |= {Damage.MISSING_SIDECAR}


def for_repair(store: Store, expected: Expected, chance: random.Random, _: int) -> None:
    """Every damage that a repair does something about, twice or so."""
    for number, (kind, a_key) in enumerate(chance.sample(sorted(expected.stays), 8)):
        data = expected.stays.pop((kind, a_key))
        at = chance.randrange(len(data) * 8)
        flipped = data[: at // 8] + bytes([data[at // 8] ^ 1 << at % 8]) + data[at // 8 + 1 :]
        other = content(kind, key(77))
        damaged = (flipped, data[: chance.randrange(len(data))], other, flipped)[number % 4]
        expected.guarded[kind, a_key] = damaged
        add(store.root.directory(kind), a_key, damaged)
    for kind, a_key in chance.sample(sorted(expected.stays), 6):
        sidecar = store.root.directory(kind) / f"{a_key}-atime"
        wrong = chance.choice([None, b"abc", b"\x7f" * 8])
        if wrong is None:
            sidecar.unlink()
        else:
            sidecar.write_bytes(wrong)
    for kind in OLD:
        directory = store.root.directory(kind)
        (directory / LOCK_NAME).touch()
        (directory / f"{key(88)}-atime").write_bytes(bytes(8))
        (directory / f"{TEMPORARY_PREFIX}0123").write_bytes(b"half of it")
    store.root.quarantine.mkdir()
    (store.root.quarantine / "01234567-01234567.json").write_text("of nothing")
    expected.damages = frozenset(Damage)


def for_restore(store: Store, expected: Expected, chance: random.Random, _: int) -> None:
    quarantine = Quarantine(store.root)
    for kind, a_key in chance.sample(sorted(expected.stays), 5):
        path = store.root.directory(kind) / f"{a_key}-cache"
        quarantine.take(Finding(damage=Damage.CHANGED, path=path, evidence="!", kind=kind, key=a_key), NOW)
        expected.guarded[kind, a_key] = expected.stays.pop((kind, a_key))


def for_import(_: Store, expected: Expected, __: random.Random, ___: int) -> None:
    """If no JAX has set a bound, a killed import leaves nothing to repair."""
    expected.damages = frozenset()


def for_import_over_others(store: Store, expected: Expected, _: random.Random, __: int) -> None:
    """Make a root with a bound and two entries that exist as another build."""
    for number in NEW[:2]:
        name = Kind.EXECUTABLES, key(number)
        other = pack_executable(xla_program(b"another build" * 40), 3, Codec.ZSTD)
        expected.goes[name] = expected.replaced[name] = other
        add(store.root.directory(name[0]), name[1], other, used_ns=NOW, written_ns=NOW - DAY)
    for kind in OLD:
        (store.root.directory(kind) / LOCK_NAME).touch()


PLANTS: dict[str, Callable[[Store, Expected, random.Random, int], None]] = {
    "put under a bound": for_bounded_put,
    "prune": for_prune,
    "clear": for_clear,
    "adopt": for_adopt,
    "repair": for_repair,
    "restore": for_restore,
    "import": for_import,
    "import over others": for_import_over_others,
}


# -- afterwards


def in_place(root: Root) -> dict[Name, bytes]:
    return {
        (kind, a_key): (root.directory(kind) / f"{a_key}-cache").read_bytes()
        for kind in OLD
        if root.directory(kind).exists()
        for a_key in files_of(root.directory(kind))
    }


def check_entries(root: Root, expected: Expected) -> None:
    """Assert that required entries exist, that all entries are complete, and that guarded and replaced ones
    are not lost.
    """
    found = in_place(root)
    for name, data in found.items():
        assert data in expected.may_be(name), f"{name} is torn"
    assert {name: found.get(name) for name in expected.stays} == expected.stays
    records = Quarantine(root).records()
    aside = {(r.kind, r.key): (root.quarantine / f"{r.id}.entry").read_bytes() for r in records}
    assert len(aside) == len(records)
    assert aside.keys() <= expected.guarded.keys() | expected.replaced.keys()
    for name, data in expected.replaced.items():
        assert data in (found.get(name), aside.get(name)), f"{name} is lost"
    for name, data in expected.guarded.items():
        assert [of[name] for of in (found, aside) if name in of] == [data], f"{name} is lost"


def check_order(root: Root, expected: Expected) -> None:
    """The locks are free, repairing mends all that there is, and then there is nothing."""
    for kind in OLD:
        if (root.directory(kind) / LOCK_NAME).exists():
            with FileLock(root.directory(kind) / LOCK_NAME, timeout=0):
                pass
    with Store(root, lock_timeout=0) as store:
        findings = verify(store, VerifyRequest(grace_ns=0)).findings
        assert {finding.damage for finding in findings} <= expected.damages
        repaired = repair(store, findings, grace_ns=0)
        assert all(one.mended for one in repaired), repaired
        assert verify(store, VerifyRequest(grace_ns=0)).findings == []
        assert store.pins.known(sure=True) == expected.pins
        assert not store.notices
    assert not [path for path in root.path.rglob("*") if TEMPORARY_PREFIX in path.name or "damaged" in path.name]


def check_use(root: Root) -> None:
    """Entries are put and got, with a bound and without."""
    for number, bound in enumerate((None, 10**9), 998):
        with Store(root, max_bytes=bound, lock_timeout=0) as store:
            for kind in OLD:
                data = content(kind, key(number))
                assert store.put(kind, key(number), data) is Outcome.STORED
                assert store.get(kind, key(number)) == data


@pytest.mark.whole
@pytest.mark.parametrize("operation", OPERATIONS)
def test_killed(
    operation: str, zygote: Zygote, tmp_path: Path, chance: random.Random, full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that is killed at any point loses and tears nothing, and a repair makes the root sound."""
    monkeypatch.setattr(verification, "_PAUSE_S", 0)  # nobody else is at work who could get on meanwhile
    root, _ = planted(tmp_path / "measured", operation, chance.randrange(2**32))
    measured = zygote(root, operation, 0)
    lines: dict[str, list[int]] = defaultdict(list)
    for step, line in enumerate(measured["steps"], 1):
        lines[line].append(step)
    points: Counter[str] = Counter()
    trials = timed = 0
    while points.total() + timed < (FULL if full else SHORT):
        trials += 1
        assert trials < 3 * FULL, "hardly any process could be killed"
        seed = chance.randrange(2**32)
        root, expected = planted(tmp_path / "root", operation, seed)
        way = trials % 4
        if way == 0:
            answer = zygote(root, operation, seed, after=chance.random() * measured["seconds"] * 0.4)
        elif way == 1:
            answer = zygote(root, operation, seed, step=chance.choice(lines[chance.choice(list(lines))]))
        else:
            answer = zygote(root, operation, seed, step=chance.randint(1, len(measured["steps"])))
        timed += answer["killed"] and way == 0
        points.update([answer["point"]] if answer["point"] else [])
        try:
            for kind, _, a_key in (finished.partition(" ") for finished in answer["finished"]):
                expected.stays[Kind(kind), a_key] = content(Kind(kind), a_key)
            check_entries(root, expected)
            check_order(root, expected)
            check_entries(root, expected)
            check_use(root)
        except BaseException:
            print(f"{operation} on {seed=} at {answer}")
            raise
        shutil.rmtree(root.path)
    print(
        f"{operation}: {points.total()} kills at {len(points)} of {len(lines)} different lines "
        f"({len(measured['steps'])} steps), {timed} by time; {trials - points.total() - timed} had ended before"
    )
