"""A pull takes what a store has, checked, and nothing that is damaged."""

from pathlib import Path
from random import Random

import pytest

from jcache.formats.envelope import Codec
from jcache.formats.executable import pack_executable, unpack_executable
from jcache.layout import Kind, Root
from jcache.remote.client import Remote, open_remote
from jcache.remote.names import MANIFESTS, digest_name, entry_name
from jcache.shipping.archive.manifest import Item
from jcache.shipping.importer.outcome import ImportOutcome
from jcache.shipping.sync.pull import spaces_here
from jcache.shipping.sync.survey import PullRequest
from jcache.store.roots import create_root
from jcache.store.store import Store
from jcache.verify.result import VerifyRequest
from jcache.verify.verification import verify
from tests.helpers.entries import key
from tests.helpers.imports import content, facts, populated
from tests.helpers.remote_copies import SPACES, available_in, pulled, pushed

FORGET = [True, False]


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return populated(tmp_path / "root", count=3)


def without_manifests(store: Remote) -> None:
    """Remove the manifests, as if programs had stored the entries."""
    store.transport.delete([one.name for batch in store.transport.objects(MANIFESTS) for one in batch])


def test_a_round_trip(root: Root, remote: Remote, tmp_path: Path) -> None:
    """What was pushed comes back: the same bytes and, from a store that lists, the same times, pins and seconds."""
    before = facts(root)
    pushed(root, remote)
    target = create_root(tmp_path / "target")
    request = PullRequest() if remote.can_list else PullRequest(keys=tuple(a_key for _, a_key in before))
    assert pulled(remote, target, request).outcomes == dict.fromkeys(before, ImportOutcome.NEW)
    after = facts(target)
    assert {name: fact.data for name, fact in after.items()} == {name: fact.data for name, fact in before.items()}
    if remote.can_list:
        for name, was in before.items():
            seconds, origin = was.seconds or after[name].seconds, was.origin or "import"
            assert after[name] == was._replace(seconds=seconds, origin=origin)
    assert set(pulled(remote, target, request).outcomes.values()) == {ImportOutcome.PRESENT}
    with Store(target) as store:
        assert verify(store, VerifyRequest(grace_ns=0)).findings == []


@pytest.mark.parametrize("forget", FORGET)
def test_damage_is_refused(root: Root, tmp_path: Path, chance: Random, forget: bool) -> None:
    """Of objects with a flipped bit, torn ones and swapped ones, nothing is written, and the rest is taken."""
    store = open_remote(f"file://{tmp_path}/store")
    pushed(root, store)
    if forget:
        without_manifests(store)
    files = {a_key: tmp_path / "store" / entry_name(Kind.EXECUTABLES, SPACES[0], a_key) for a_key in map(key, range(3))}
    flipped = bytearray(files[key(0)].read_bytes())
    flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
    files[key(0)].write_bytes(flipped)
    files[key(1)].write_bytes(files[key(1)].read_bytes()[:-3] + b"xyz")
    files[key(2)].write_bytes(content(Kind.EXECUTABLES, key(1)))
    target = create_root(tmp_path / "target")
    imported = pulled(store, target)
    assert len(facts(target)) == 6 and {kind for kind, _ in facts(target)} == {Kind.TRACES, Kind.GRAPHS}
    assert imported.count(ImportOutcome.REFUSED) + imported.count(ImportOutcome.OMITTED) == 3


def test_bytes_that_are_no_entry(tmp_path: Path) -> None:
    """An object with the right digest of wrong bytes is refused, since nobody has checked what a program stored."""
    store = open_remote(f"file://{tmp_path}/store")
    store.put(Kind.EXECUTABLES, SPACES[0], key(1), b"no executable")
    store.put(Kind.TRACES, "", key(2), content(Kind.TRACES, key(3)))
    target = create_root(tmp_path / "target")
    imported = pulled(store, target)
    assert len(imported.refused) == 2 and facts(target) == {}


@pytest.mark.parametrize("remote", ["gs"], indirect=True)
def test_an_object_without_a_digest(remote: Remote, tmp_path: Path) -> None:
    """What plain JAX has stored is refused with the reason, and not said to be gone."""
    name = Kind.EXECUTABLES, SPACES[0], key(1)
    remote.transport.put(entry_name(*name), content(Kind.EXECUTABLES, key(1)), {}, replace=False)
    (refused,) = pulled(remote, create_root(tmp_path / "target")).refused
    assert "no digest" in refused.evidence


def test_what_a_program_stored_after_a_prune(root: Root, tmp_path: Path) -> None:
    """Other bytes of the same size than an old manifest lists are taken, after the checks, unless signatures count."""
    store = open_remote(f"file://{tmp_path}/store")
    pushed(root, store)
    sound, wrong = (Kind.EXECUTABLES, SPACES[0], key(1)), (Kind.TRACES, "", key(1001))
    unpacked = unpack_executable(content(*sound[::2]))
    later = pack_executable(unpacked.payload, unpacked.seconds + 1, Codec.ZSTD)
    assert len(later) == len(content(*sound[::2]))
    for name, data in ((sound, later), (wrong, bytes(len(content(*wrong[::2]))))):
        store.delete([name])
        store.put(*name, data)
    available = available_in(store, target := create_root(tmp_path / "target"))
    imported = pulled(store, target)
    assert facts(target)[sound[::2]].data == later and len(facts(target)) == 8
    assert [refused.entry.key for refused in imported.refused if isinstance(refused.entry, Item)] == [key(1001)]
    assert not available.claimed


def test_what_replaces_a_local_entry_is_checked(root: Root, tmp_path: Path) -> None:
    """An object of no manifest is checked as well where the root has an entry of its size."""
    store = open_remote(f"file://{tmp_path}/store")
    store.put(Kind.TRACES, "", key(1001), bytes(len(content(Kind.TRACES, key(1001)))))
    assert len(pulled(store, root, replace=True).refused) == 1
    assert facts(root)[Kind.TRACES, key(1001)].data == content(Kind.TRACES, key(1001))


def test_entries_that_vanish(root: Root, tmp_path: Path) -> None:
    """What is gone between the listing and its turn is told, and is no damage."""
    store = open_remote(f"file://{tmp_path}/store")
    pushed(root, store)
    kept = store.list
    gone = entry_name(Kind.TRACES, "", key(1001))

    def listing(*arguments: object) -> object:
        yield from list(kept(*arguments))  # type: ignore[arg-type]
        if arguments == (Kind.GRAPHS,):  # which comes last
            store.transport.delete([gone, digest_name(gone)])

    store.list = listing  # type: ignore[assignment, method-assign]
    imported = pulled(store, create_root(tmp_path / "target"))
    assert imported.with_outcome(ImportOutcome.OMITTED) == [(Kind.TRACES, key(1001))] and not imported.refused


def test_local_entries_stay(root: Root, tmp_path: Path) -> None:
    """Another build under a key stays, unless it is to be replaced."""
    store = open_remote(f"file://{tmp_path}/store")
    pushed(root, store)
    target = create_root(tmp_path / "target")
    store_of_other = populated(tmp_path / "other", count=1, seed=9)
    place = target.place(Kind.EXECUTABLES, key(0))
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(content(Kind.EXECUTABLES, key(0), 5))
    assert pulled(store, target).outcomes[Kind.EXECUTABLES, key(0)] is ImportOutcome.DIFFERENT
    assert pulled(store, target, replace=True).outcomes[Kind.EXECUTABLES, key(0)] is ImportOutcome.REPLACED
    assert store_of_other.path.exists()


def test_namespaces_of_a_machine() -> None:
    """The likeliest place is asked first: the installed jaxlib, and a GPU's capability."""
    assert spaces_here("0.10.2", frozenset({"cpu"}), ()) == ["0.10.2_cpu_cpu", "unknown_cpu_cpu"]
    spaces = spaces_here("0.10.2", frozenset({"cpu", "cuda"}), ("9.0", "9.0"))
    assert spaces[:3] == ["0.10.2_cuda_9.0", "0.10.2_cuda_unknown", "0.10.2_cpu_cpu"]
