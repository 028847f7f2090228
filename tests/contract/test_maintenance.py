"""JAX works after, and during, every operation of jcache on its directory, and each waits for the other's lock."""

import os
import random
import time
from contextlib import closing
from pathlib import Path

import pytest
from filelock import Timeout

from jcache.errors import Locked
from jcache.layout import Root
from jcache.store.eviction import everything, plan
from jcache.store.order import Order
from jcache.store.policy import Policy
from jcache.store.put_result import Outcome
from jcache.store.store import Store
from tests.contract.sides import EXECUTABLES, NEEDS_SIDECARS, Both, Jax, Jcache, contents, in_order, jax_version
from tests.helpers.entries import NOW, SECOND, files_of, key, process
from tests.helpers.waiting import LIMIT_S

pytestmark = pytest.mark.jax


def content(number: int) -> bytes:
    return b"%064x" % number * (number % 40 + 1)


# -- turning a bound on


@pytest.fixture(name="old")
def old_fixture(tmp_path: Path) -> Path:
    """Return five entries of an unbounded JAX after 0.5.0, a second apart, without sidecars."""
    theirs = Jax(tmp_path)
    for number in range(5):
        theirs.put(key(number), b"x" * 100)
        (tmp_path / f"{key(number)}-atime").unlink(missing_ok=True)
        os.utime(tmp_path / f"{key(number)}-cache", ns=(NOW, NOW + number * SECOND))
    return tmp_path


def test_a_bound_is_turned_on_without_adopting(old: Path) -> None:
    """JAX <= 0.11.1 fails at every bounded put, room or not; a later one stores."""
    theirs = Jax(old, 1000)
    for number in (8, 9):
        if jax_version() <= NEEDS_SIDECARS:
            with pytest.raises(FileNotFoundError, match="-atime"):
                theirs.put(key(number), b"x" * 100)
        else:
            assert theirs.put(key(number), b"x" * 100) is Outcome.STORED


def test_a_bound_is_turned_on_after_adopting(old: Path) -> None:
    """After adopting, every put and get of a bounded JAX works, and it evicts the oldest entries first."""
    with closing(Jcache(old)) as ours:
        assert ours.store.maintenance.adopt(EXECUTABLES) == 5
    theirs = Jax(old, 500)
    assert theirs.get(key(0)) == b"x" * 100
    assert in_order(old) == [key(number) for number in (1, 2, 3, 4, 0)]
    for number in range(5, 9):
        assert theirs.put(key(number), b"x" * 100) is Outcome.STORED
    assert in_order(old) == [key(number) for number in (0, 5, 6, 7, 8)]


def test_a_bounded_put_of_ours_adopts(old: Path) -> None:
    """After a bounded put of jcache, a bounded JAX works as well."""
    with Both(old, 500) as sides:
        assert sides.jcache.put(key(5), b"x" * 100) is Outcome.STORED
        assert sides.jax.put(key(6), b"x" * 100) is Outcome.STORED
    assert in_order(old) == [key(number) for number in (2, 3, 4, 5, 6)]


# -- removing


def some_policy(chance: random.Random) -> Policy:
    return chance.choice(
        [
            Policy(max_bytes=chance.randrange(60_000), order=chance.choice(list(Order))),
            Policy(max_entries=chance.randrange(30)),
            Policy(keep_last=chance.randrange(30)),
            Policy(max_age_ns=0),
        ]
    )


@pytest.mark.parametrize("bound", [None, 40_000], ids=["unbounded", "bounded"])
def test_jax_goes_on_after_every_prune(tmp_path: Path, bound: int | None, chance: random.Random) -> None:
    """After every prune, JAX hits kept entries, puts removed ones, and can turn a bound on."""
    with Both(tmp_path, bound) as sides:
        for _ in range(30):
            for number in chance.sample(range(40), 15):
                sides[chance.choice(["JAX", "jcache"])].put(key(number), content(number))
            decided = plan(sides.jcache.store.entries(), some_policy(chance), now_ns=time.time_ns())
            removal = sides.jcache.store.maintenance.execute(decided)
            assert {entry.key for entry in removal.removed} == {verdict.entry.key for verdict in decided.victims}
            kept = {verdict.entry.key for verdict in decided.kept}
            assert set(in_order(tmp_path)) == kept
            for number in range(40):
                assert sides.jax.get(key(number)) == (content(number) if key(number) in kept else None)
            gone = [number for number in range(40) if key(number) not in kept]
            for number in gone[:3]:
                assert sides.jax.put(key(number), content(number)) is Outcome.STORED
            assert bound is None or sum(files_of(tmp_path).values()) <= bound
        sides.jcache.store.maintenance.execute(
            plan(sides.jcache.store.entries(), Policy(max_entries=10), now_ns=time.time_ns())
        )
    assert Jax(tmp_path, 3000).put(key(99), b"x" * 3000) is Outcome.STORED
    assert in_order(tmp_path) == [key(99)]


AT_WORK = """
import random, sys
from pathlib import Path
from tests.contract.sides import Jax
from tests.contract.test_maintenance import content
from tests.helpers.entries import key
theirs, chance = Jax(Path(sys.argv[1]), int(sys.argv[2])), random.Random(int(sys.argv[3]))
print("ready", flush=True)
for _ in range(40):
    number = chance.randrange(40)
    theirs.put(key(number), content(number))
    number = chance.randrange(40)
    assert theirs.get(key(number)) in (None, content(number))
    print("round", flush=True)
print("done", flush=True)
"""


def test_a_bounded_jax_works_beside_us(tmp_path: Path, chance: random.Random) -> None:
    """While JAX and jcache put, get, evict and prune at once, nothing fails, and the bound holds in the end."""
    bound = 20_000
    with closing(Jcache(tmp_path, bound)) as ours, process(AT_WORK, tmp_path, bound, chance.randrange(10**9)) as child:
        assert child.stdout
        while (said := child.stdout.readline()) == "round\n":  # once in each, it has had the lock
            for number in chance.sample(range(40), 10):
                ours.put(key(number), content(number))
                number = chance.randrange(40)
                assert content(number).startswith(ours.get(key(number)) or b"")  # JAX writes in place
            ours.store.maintenance.execute(plan(ours.store.entries(), some_policy(chance), now_ns=time.time_ns()))
        assert said == "done\n"
        assert ours.put(key(99), b"x" * 1000) in (Outcome.STORED, Outcome.PRESENT)
    assert sum(files_of(tmp_path).values()) <= bound
    assert all(data == content(number) for number in range(40) if (data := contents(tmp_path).get(key(number))))


# -- the lock

HELD_BY_JAX = """
import sys
from jax._src.lru_cache import LRUCache
with LRUCache(sys.argv[1], max_size=1000).lock:
    print("held", flush=True)
    sys.stdin.readline()
"""
HELD_BY_US = """
import sys
from pathlib import Path
from jcache.layout import Kind, Root
from jcache.store.locking import locked
with locked(Root(Path(sys.argv[1]), plain=True), Kind.EXECUTABLES):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.full
@pytest.mark.smoke
def test_jcache_gives_up_while_jax_holds_the_lock(old: Path) -> None:
    """While JAX holds the lock, operations that need it raise Locked and change nothing; gets and unbounded
    puts work.
    """
    with closing(Jcache(old, 500, timeout=0.1)) as ours, process(HELD_BY_JAX, old):
        entries = ours.store.entries()
        before = sorted(os.listdir(old))
        with pytest.raises(Locked, match="was held by"):
            ours.put(key(9), b"x")
        with pytest.raises(Locked, match="was held by"):
            ours.store.maintenance.adopt(EXECUTABLES)
        with pytest.raises(Locked, match="was held by"):
            ours.store.maintenance.execute(everything(entries))
        assert sorted(os.listdir(old)) == before
        assert ours.get(key(1)) == b"x" * 100
        with closing(Jcache(old)) as unbounded:
            assert unbounded.put(key(9), b"x") is Outcome.STORED


def test_jcache_waits_until_jax_lets_the_lock_go(tmp_path: Path) -> None:
    """A put that has to wait for JAX is done as soon as it may."""
    with process(HELD_BY_JAX, tmp_path) as child:

        def let_go(_: str) -> None:
            assert child.stdin
            child.stdin.write("\n")
            child.stdin.flush()

        with Store(Root(tmp_path, plain=True), max_bytes=500, lock_timeout=LIMIT_S, waiting=let_go) as store:
            assert store.put(EXECUTABLES, key(1), b"x") is Outcome.STORED


def test_jax_gives_up_while_jcache_holds_the_lock(tmp_path: Path) -> None:
    """While jcache holds the lock, a bounded JAX raises its time-out and an unbounded one works; afterwards
    all works.
    """
    theirs = Jax(tmp_path, 500, timeout=0.1)
    assert theirs.put(key(1), b"x") is Outcome.STORED
    with process(HELD_BY_US, tmp_path):
        with pytest.raises(Timeout):
            theirs.put(key(2), b"x")
        with pytest.raises(Timeout):
            theirs.get(key(1))
        assert Jax(tmp_path).get(key(1)) == b"x"
    assert theirs.put(key(2), b"x") is Outcome.STORED
    assert contents(tmp_path) == {key(1): b"x", key(2): b"x"}
