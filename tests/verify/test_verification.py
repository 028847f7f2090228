"""Verifying a root: everything is found, nothing but `.jcache` changes, and repeated parts cover the whole."""

import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from jcache import clock
from jcache.findings import Damage
from jcache.formats.envelope import seal
from jcache.layout import Kind, Root
from jcache.store.ledger import Known
from jcache.store.store import Store
from jcache.verify import pool, verification
from jcache.verify.result import Verification, VerifyRequest
from jcache.verify.subset import Subset
from tests.helpers.entries import DAY, add, executable, key, tree

EXECUTABLES = Kind.EXECUTABLES
OLD = time.time_ns() - DAY


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the pause before young findings are checked again."""
    monkeypatch.setattr(clock, "sleep", lambda _: None)


def verify(
    root: Root, request: VerifyRequest | None = None, progress: Callable[[int, int], None] = lambda _done, _all: None
) -> Verification:
    with Store(root) as store:
        return verification.verify(store, request or VerifyRequest(), progress)


def damages(result: Verification) -> list[Damage]:
    return [finding.damage for finding in result.findings]


def known(root: Root, kind: Kind = EXECUTABLES) -> dict[str, Known]:
    with Store(root) as store:
        return store.ledger.known(kind)


def fill(root: Root, number: int = 3, first: int = 0) -> list[str]:
    """Sound entries of long ago, and their keys."""
    keys = [key(first + i) for i in range(number)]
    for i, a_key in enumerate(keys):
        add(root.directory(EXECUTABLES), a_key, executable(i), written_ns=OLD)
    return keys


def sealed(kind: Kind, a_key: str) -> bytes:
    return seal(b"payload" * 99, kind=kind, name="jit_step", key=a_key, build_seconds=1.0, created_ns=1)


@pytest.fixture(params=["native", "plain"])
def root(request: pytest.FixtureRequest, native: Root, plain: Root) -> Root:
    """Sound entries of all kinds, a legacy one, a lock and a neighbour of XLA's."""
    root = native if request.param == "native" else plain
    fill(root)
    for kind in (Kind.TRACES, Kind.GRAPHS):
        add(root.directory(kind), key(9), sealed(kind, key(9)), used_ns=OLD, written_ns=OLD)
    (root.directory(EXECUTABLES) / key(8)).write_bytes(executable(8))
    (root.directory(EXECUTABLES) / "xla_gpu_kernel_cache_file").write_bytes(b"kernels")
    return root


def test_a_sound_root_is_clean_and_unchanged(root: Root) -> None:
    """A sound root has no finding, everything is counted, and nothing changes outside `.jcache`."""
    before, root_before = tree(root.path), root.path.stat().st_mtime_ns
    for again in range(2):
        result = verify(root)
        assert damages(result) == [] and [note.damage for note in result.notes] == [Damage.LEGACY]
        assert (result.entries, result.checked, result.unchanged) == (5, 5, 5 * again)
        assert result.bytes == result.checked_bytes > 0 and len(result.sound) == 5
        ours = str(root.state)
        assert {path: what for path, what in tree(root.path).items() if not path.startswith(ours)} == before
        assert root.path.stat().st_mtime_ns == root_before


def test_findings_are_in_the_order_of_their_paths(plain: Root) -> None:
    """Findings are sorted by path, and each occurs once."""
    keys = sorted(fill(plain, 6))
    for a_key in keys[::2]:
        add(plain.path, a_key, b"junk", written_ns=OLD)
    (plain.path / "a-cache").touch()
    (plain.path / f"{keys[0]}-atime").write_bytes(b"")
    result = verify(plain)
    assert [f.path for f in result.findings] == sorted(f.path for f in result.findings)
    assert sorted(damages(result)) == sorted([Damage.CODEC] * 3 + [Damage.BLOCKING, Damage.SIDECAR_SIZE])
    assert {claim.key for claim in result.sound} == set(keys[1::2])


@pytest.mark.parametrize("part", ["1/4", "30%", "500"])
def test_repeated_parts_cover_everything(plain: Root, part: str) -> None:
    """The least recently verified entries come first, so repeated runs meet every entry before any a second time."""
    keys, met = set(fill(plain, 10)), set[str]()
    runs = 0
    while met != keys:
        some = {claim.key for claim in verify(plain, VerifyRequest(subset=Subset.parse(part))).sound}
        assert some and (not some & met or some | met == keys)
        met |= some
        runs += 1
    assert runs <= 10


def test_damaged_entries_do_not_keep_the_others_waiting(plain: Root) -> None:
    """A damaged entry counts as verified, so that the others get their turn."""
    keys = fill(plain, 4)
    add(plain.path, keys[0], b"junk", written_ns=OLD - DAY)
    results = [verify(plain, VerifyRequest(subset=Subset.parse("1/4"))) for _ in range(4)]
    assert sum(damages(result).count(Damage.CODEC) for result in results) == 1
    assert all(result.checked == 1 and result.entries == 4 for result in results)


def test_no_entry_is_begun_after_the_limit(plain: Root) -> None:
    """With a time limit of zero nothing is checked, and the result says so."""
    fill(plain)
    result = verify(plain, VerifyRequest(max_seconds=0))
    assert (result.entries, result.checked, damages(result)) == (3, 0, [])


def test_kinds_are_chosen(root: Root) -> None:
    """Only entries of the chosen kinds are checked."""
    add(root.directory(EXECUTABLES), key(1), b"junk", written_ns=OLD)
    result = verify(root, VerifyRequest(kinds=(Kind.TRACES,)))
    assert (result.entries, damages(result)) == (1, [])


def test_young_damage_is_looked_at_twice_and_found(plain: Root) -> None:
    """Young damage is checked again after a pause, and reported if it stays."""
    add(plain.path, key(1), executable()[:-5])
    assert damages(verify(plain)) == [Damage.TORN]


def test_what_is_being_written_is_not_judged(plain: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry that changes between two checks is counted and is no finding; once it is complete, it is sound."""
    whole = executable()
    path = add(plain.path, key(1), whole[:20])

    def go_on_writing(_seconds: float) -> None:
        with path.open("ab", buffering=0) as file:
            file.write(whole[20:40])

    monkeypatch.setattr(clock, "sleep", go_on_writing)
    result = verify(plain)
    assert damages(result) == [] and result.being_written == 1 and not result.sound
    path.write_bytes(whole)
    assert damages(verify(plain)) == []


def test_what_vanishes_meanwhile_is_no_finding(plain: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries that are gone when their turn comes are skipped, and the ledger forgets them."""
    keys = fill(plain)
    verify(plain)
    path = plain.path / f"{keys[0]}-cache"

    def late(*arguments: Any, **more: Any) -> Any:
        path.unlink()
        return pool.check_batches(*arguments, **more)

    monkeypatch.setattr(verification, "check_batches", late)
    result = verify(plain)
    assert damages(result) == [] and {claim.key for claim in result.sound} == set(keys[1:])
    assert known(plain)[keys[0]].digest is None


def test_progress_ends_at_everything(plain: Root) -> None:
    """Progress rises to the total number of bytes."""
    fill(plain)
    seen: list[tuple[int, int]] = []
    result = verify(plain, progress=lambda done, of: seen.append((done, of)))
    assert seen == sorted(seen) and seen[-1] == (result.bytes, result.bytes)


def test_who_can_write_is_looked_at(plain: Root) -> None:
    """Entries and directories that others can change are findings, each fact once."""
    for a_key in fill(plain):
        (plain.path / f"{a_key}-cache").chmod(0o666)
    plain.path.chmod(0o777)
    result = verify(plain)
    assert damages(result) == [Damage.WRITABLE] * 2 and len(result.sound) == 3
    assert sum("3 of its entries" in finding.evidence for finding in result.findings) == 1


def test_what_passes_by_itself_is_no_finding(plain: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sidecar that a bounded JAX is writing, or one of an entry just removed, is checked again after a pause."""
    fill(plain)
    (plain.path / ".lockfile").touch()

    def finish(_seconds: float) -> None:
        for i in range(3):
            (plain.path / f"{key(i)}-atime").write_bytes(OLD.to_bytes(8, "little"))

    monkeypatch.setattr(clock, "sleep", finish)
    assert damages(verify(plain)) == []


def test_large_roots_are_checked_by_several_processes(plain: Root) -> None:
    """With more bytes than one process checks, several processes give the same result."""
    noise = os.urandom(3 << 20)
    for i in range(4):
        add(plain.path, key(i), executable() if i else noise, written_ns=OLD)
        with (plain.path / f"{key(i)}-cache").open("ab") as file:
            file.write(noise)
    result = verify(plain, VerifyRequest(processes=2))
    assert sorted(damages(result)) == [Damage.CODEC] + [Damage.COMPRESSION] * 3
