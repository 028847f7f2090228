"""Maintenance executes plans, makes sidecars, and removes XLA's sub-caches."""

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from jcache.entry import Entry
from jcache.errors import CannotWrite, LedgerUnavailable, Locked
from jcache.formats.digest import digest
from jcache.layout import Kind, Root
from jcache.store.eviction import everything, plan
from jcache.store.ledger import Known, Ledger
from jcache.store.policy import Plan, Policy, Reason, Verdict, Verdicts
from jcache.store.store import Store
from tests.helpers.entries import DAY, HOLD_LOCK, NOW, add, digits, executable, key, process, recency_of, tree
from tests.helpers.stores import EXECUTABLES, pin, shelf


def test_pruning_a_disk_that_has_room_for_no_file(tmp_path: Path) -> None:
    """If no lock, ledger or pins can be made on a full disk, the first removals make room for them."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k,nr_inodes=12", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system is not allowed here")
    try:
        root = Root(place / "root", plain=True)
        for number in range(6):
            add(root.path, key(number), 30_000, written_ns=NOW + number)
        with pytest.raises(OSError, match="No space left"):  # noqa: PT012
            for number in range(12):
                (place / f"filler{number}").touch()
        with pytest.raises(OSError, match="No space left"):
            (place / "filler0").write_bytes(bytes(1 << 20))
        with Store(root) as store:
            decided = plan(store.entries(), Policy(keep_last=2), now_ns=NOW + DAY)
            removal = store.maintenance.execute(decided)
        assert len(removal.removed) == 4 and not removal.failures
        assert shelf(root) == {key(4): 30_000, key(5): 30_000}
        assert (root.path / ".lockfile").exists()
    finally:
        subprocess.run(["umount", place], check=True)


def test_executing_a_plan(plain: Root, beyond: Path) -> None:
    """Executing a plan removes its victims with sidecars, returns the exact bytes, and leaves nothing to plan."""
    for i in range(6):
        add(plain.path, key(i), 100 + i, used_ns=NOW + i)
    (plain.path / digits(7)).write_bytes(executable())
    (plain.path / "notes.txt").write_text("mine")
    with Store(plain) as store:
        store.ledger.record(Known(EXECUTABLES, key(i), seconds=1.0) for i in range(6))
        decided = plan(store.entries(legacy=True), Policy(max_entries=2, legacy=True), now_ns=NOW + DAY)
        before = sum(p.stat().st_size for p in plain.path.iterdir() if p.is_file())
        removal = store.maintenance.execute(decided)
        after = sum(p.stat().st_size for p in plain.path.iterdir() if p.is_file())
        assert sorted(e.key for e in removal.removed) == sorted([*(key(i) for i in range(4)), digits(7)])
        assert removal.bytes == before - after == 100 + 101 + 102 + 103 + 4 * 8 + len(executable())
        assert not (removal.kept or removal.gone or removal.failures)
        assert not plan(store.entries(legacy=True), Policy(max_entries=2, legacy=True), now_ns=NOW + DAY).victims
        assert store.ledger.known(EXECUTABLES).keys() == {key(4), key(5)}
    assert sorted(p.name for p in plain.path.iterdir()) == sorted(
        [".jcache", ".lockfile", "notes.txt", *(f"{key(i)}{suffix}" for i in (4, 5) for suffix in ("-cache", "-atime"))]
    )


def test_what_others_did_since_the_plan(plain: Root) -> None:
    """Victims that were used or pinned after the plan stay; those that are gone are no failure and free nothing."""
    for i in range(5):
        add(plain.path, key(i), 100, used_ns=NOW + i)
    with Store(plain) as store:
        decided = plan(store.entries(), Policy(max_entries=0), now_ns=NOW + DAY)
        (plain.path / f"{key(0)}-cache").unlink()
        store.get(EXECUTABLES, key(1))
        pin(plain, key(2))
        removal = store.maintenance.execute(decided)
    assert [e.key for e in removal.removed] == [key(3), key(4)]
    assert [e.key for e in removal.gone] == [key(0)]
    assert [(v.entry.key, v.reason) for v in removal.kept] == [
        (key(1), Reason.USED_MEANWHILE),
        (key(2), Reason.PINNED),
    ]
    assert removal.bytes == 2 * 108
    assert shelf(plain).keys() == {key(1), key(2)}


def test_what_names_others_goes_first(plain: Root) -> None:
    """Traces go before executables, so that a killed process leaves no trace without its executable."""
    gone: list[Kind] = []

    def progress(victims: Sequence[Verdict]) -> Iterator[Verdict]:
        for verdict in victims:
            gone.append(verdict.entry.kind)
            yield verdict

    for kind in Kind:
        add(plain.directory(kind), key(1))
    with Store(plain) as store:
        store.maintenance.execute(everything(store.entries()), progress=progress)
    assert gone == [Kind.TRACES, EXECUTABLES, Kind.GRAPHS]


def test_a_held_lock_stops_a_plan(plain: Root) -> None:
    """Without the directory's lock, nothing is removed."""
    add(plain.path, key(1), used_ns=NOW)
    with process(HOLD_LOCK, plain.path), Store(plain, lock_timeout=0.05) as store:
        with pytest.raises(Locked):
            store.maintenance.execute(everything(store.entries()))
        assert shelf(plain).keys() == {key(1)}


def test_clearing_does_not_ask_for_use(plain: Root) -> None:
    """Clearing removes entries that were used since the plan, but not those that were pinned since."""
    for i in range(3):
        add(plain.path, key(i), 100, used_ns=NOW)
    with Store(plain) as store:
        decided = everything(store.entries())
        store.get(EXECUTABLES, key(1))
        pin(plain, key(2))
        store.maintenance.execute(decided)
    assert shelf(plain).keys() == {key(2)}


def test_a_pinned_entry_can_be_removed_by_name(plain: Root) -> None:
    """`remove` removes pinned entries; only prune and clear spare them."""
    add(plain.path, key(1))
    pin(plain, key(1))
    with Store(plain) as store:
        assert store.maintenance.remove(store.entries()).removed
        assert store.ledger.pins() == set()


def test_pins_that_cannot_be_known(plain: Root) -> None:
    """While a later jcache may have pinned entries, nothing is removed."""
    import sqlite3

    add(plain.path, key(1))
    Ledger(plain.ledger).record([Known(EXECUTABLES, key(1), pinned_ns=1)])
    database = sqlite3.connect(plain.ledger)
    database.execute("PRAGMA user_version = 99")
    database.close()
    with Store(plain) as store:
        with pytest.raises(LedgerUnavailable, match="newer jcache"):
            store.maintenance.execute(everything(store.entries()))
        assert shelf(plain).keys() == {key(1)}


def test_pins_in_a_busy_ledger(plain: Root) -> None:
    """Pins in a ledger that another process locks are still known."""
    from tests.store.test_sqlite import HOLD

    for i in range(2):
        add(plain.path, key(i))
    Ledger(plain.ledger).record([Known(EXECUTABLES, key(1), pinned_ns=1)])
    store = Store(plain, ledger=Ledger(plain.ledger, busy_timeout=0.05))
    with process(HOLD, plain.ledger):
        decided = everything(store.entries())
        assert [v.reason for v in decided.kept] == [Reason.PINNED]
        assert len(store.maintenance.execute(decided).removed) == 1
        assert "locked" in store.notices[0]
    assert shelf(plain).keys() == {key(1)}
    store.close()


def test_a_plan_for_an_absent_directory(native: Root) -> None:
    """A directory that has been removed since the plan is not made again."""
    (native.path / "executables").rmdir()
    with Store(native) as store:
        assert store.maintenance.execute(Plan()).removed == []
        assert store.entries() == []
        with pytest.raises(CannotWrite, match="is not there"):
            store.maintenance.execute(
                Plan(Verdicts.of([Verdict(Entry(EXECUTABLES, key(1), 1, 1, 1, sidecar=False), Reason.CLEARED)]))
            )
    assert not (native.path / "executables").exists()


def test_a_directory_that_is_a_link_is_not_followed(plain: Root, beyond: Path, tmp_path: Path) -> None:
    """If traces-v1 is a link, its target is no part of the root."""
    elsewhere = tmp_path / "elsewhere"
    add(elsewhere, key(1))
    before = tree(elsewhere)
    add(plain.path, key(2))
    (plain.path / "traces-v1").symlink_to(elsewhere)
    with Store(plain) as store:
        assert [e.key for e in store.entries()] == [key(2)]
        store.maintenance.execute(everything(store.entries()))
        store.maintenance.adopt(Kind.TRACES)
    assert tree(elsewhere) == before


def test_what_is_kept_gets_its_sidecar(plain: Root) -> None:
    """After a plan was executed, a bounded JAX <= 0.11.1 works."""
    for i in range(4):
        add(plain.path, key(i), written_ns=NOW + i)
    with Store(plain) as store:
        removal = store.maintenance.execute(plan(store.entries(), Policy(max_entries=3), now_ns=NOW))
        assert removal.adopted == 3
        assert store.maintenance.execute(plan(store.entries(), Policy(max_entries=3), now_ns=NOW)).adopted == 0
    assert [recency_of(plain.path, key(i)) for i in (1, 2, 3)] == [NOW + i for i in (1, 2, 3)]


def test_adopting(plain: Root) -> None:
    """Missing sidecars are made from the files' own times, others are left as they are, damaged or not."""
    add(plain.path, key(1), written_ns=NOW)
    add(plain.path, key(2), written_ns=NOW, used_ns=NOW + 5)
    add(plain.path, key(3), written_ns=NOW)
    (plain.path / f"{key(3)}-atime").write_bytes(b"?")
    path = add(plain.path, key(4))
    os.utime(path, ns=(-5, -5))
    with Store(plain) as store:
        assert store.maintenance.adopt(EXECUTABLES) == 2
        assert store.maintenance.adopt(EXECUTABLES) == store.maintenance.adopt(Kind.TRACES) == 0
    assert [recency_of(plain.path, key(i)) for i in (1, 2, 4)] == [NOW, NOW + 5, 0]
    assert (plain.path / f"{key(3)}-atime").read_bytes() == b"?"


def test_a_sidecar_that_comes_during_adopting_stays(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sidecar that a bounded JAX wrote during the adopting keeps its later time."""
    add(store.root.path, key(1), written_ns=NOW)
    real = store.locks.in_batches

    def in_batches(kind: Kind, steps: Iterator[None]) -> None:
        add(store.root.path, key(1), written_ns=NOW, used_ns=NOW + DAY)
        real(kind, steps)

    monkeypatch.setattr(store.locks, "in_batches", in_batches)
    assert store.maintenance.adopt(EXECUTABLES) == 0
    assert recency_of(store.root.path, key(1)) == NOW + DAY


def test_adopting_records_what_is_final(store: Store) -> None:
    """The digest of an adopted entry is recorded, but not of one that may still be being written."""
    add(store.root.path, key(1), written_ns=time.time_ns() - DAY)
    add(store.root.path, key(2))
    assert store.maintenance.adopt(EXECUTABLES) == 2
    store.queue.flush()
    known = store.ledger.known(EXECUTABLES)
    assert {a_key: about.digest for a_key, about in known.items()} == {key(1): digest(b"x" * 100)}


@pytest.mark.jax
def test_a_bounded_jax_goes_on_after_adopting(plain: Root) -> None:
    """Over an unbounded cache, every bounded put of JAX <= 0.11.1 fails; after adopting, none does."""
    import jax
    from jax._src.lru_cache import LRUCache

    for i in range(5):
        add(plain.path, key(i), 100, written_ns=NOW + i)
    theirs = LRUCache(str(plain.path), max_size=500)
    if tuple(map(int, jax.__version__.split(".")[:3])) < (0, 11, 2):
        with pytest.raises(FileNotFoundError):
            theirs.put(key(9), b"x" * 100)
    with Store(plain) as store:
        assert store.maintenance.adopt(EXECUTABLES) == 5
    theirs.put(key(9), b"x" * 100)
    assert shelf(plain).keys() == {key(i) for i in (1, 2, 3, 4, 9)}


def test_xla_s_sub_caches(plain: Root, beyond: Path) -> None:
    """Both sub-caches are removed with everything in them, links as links; a link in their place stays."""
    autotune = plain.path / "xla_gpu_per_fusion_autotune_cache_dir"
    (autotune / "a").mkdir(parents=True)
    (autotune / "a" / "b.pb").write_bytes(b"12345")
    (autotune / "link").symlink_to(beyond)
    (plain.path / "xla_gpu_kernel_cache_file").write_bytes(b"123")
    add(plain.path, key(1))
    with Store(plain) as store:
        assert store.maintenance.remove_xla() == 8 + len(str(beyond))
        assert sorted(p.name for p in plain.path.iterdir()) == [".jcache", ".lockfile", f"{key(1)}-cache"]
        autotune.symlink_to(beyond)
        assert store.maintenance.remove_xla() == 0
        autotune.unlink()
        (plain.path / ".lockfile").unlink()
        assert store.maintenance.remove_xla() == 0
    assert sorted(p.name for p in plain.path.iterdir()) == [".jcache", f"{key(1)}-cache"]
