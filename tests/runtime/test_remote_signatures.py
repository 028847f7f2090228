"""With signers, a program gets from a store what they have pushed under a key, and nothing else."""

import os
import resource
import shutil
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from threading import Barrier, Thread
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from jcache.errors import InvalidValue
from jcache.formats.digest import digest
from jcache.layout import ENTRY_SUFFIX, Kind, Root
from jcache.remote.client import Remote, open_remote
from jcache.remote.names import CLAIMS, MANIFESTS, digest_name, entry_name
from jcache.runtime import remote_request, remote_signatures
from jcache.runtime.checked_reads import CheckedReads
from jcache.runtime.remote_signatures import entries_of
from jcache.runtime.remote_tier import RemoteTier
from jcache.shipping.archive.manifest import Item, Manifest
from jcache.shipping.archive.manifest_codec import SCHEMA_VERSION, encode
from jcache.shipping.sync.manifests import read_manifests, write_manifest
from jcache.store.roots import create_root
from jcache.verify.signatures import Signers, read_signers, sign
from tests.helpers.entries import NOW, key
from tests.helpers.imports import content, facts, populated
from tests.helpers.remote_copies import SPACES, pushed
from tests.helpers.remote_servers import S3Server, answering, credentials, faulty_server, hanging, refusing
from tests.helpers.signatures import allowed, needs_openssh, new_key, public

pytestmark = needs_openssh
Name = tuple[Kind, str]
EXECUTABLES: Final = Kind.EXECUTABLES


class Fleet(NamedTuple):
    """A store, what a signer has pushed there, and the signer's file."""

    url: str
    folder: Path
    key: Path
    signers: Signers
    entries: dict[Name, bytes]

    def __repr__(self) -> str:
        return self.url

    def open(self) -> Remote:
        return open_remote(self.url)

    def tier(self, said: list[str], **more: Any) -> RemoteTier:
        return RemoteTier(self.url, signers=self.signers, namespace=lambda: SPACES[0], warn=said.append, **more)

    def manifests(self) -> list[Path]:
        return sorted((self.folder / MANIFESTS).glob("*.json"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """A store to which a signer has pushed twice."""
    path = tmp_path_factory.mktemp("fleet")
    mine, root = new_key(path / "mine"), populated(path / "root", count=3)
    with open_remote(f"file://{path}/store") as remote:
        pushed(populated(path / "less", count=2), remote, sign=partial(sign, key_path=mine))
        pushed(root, remote, sign=partial(sign, key_path=mine))
    entries = {name: fact.data for name, fact in facts(root).items()}
    signers = read_signers(allowed(path, f"me@here {public(mine)}"))
    return Fleet(f"file://{path}/store", path / "store", mine, signers, entries)


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key whose owner may not sign."""
    return new_key(tmp_path_factory.mktemp("stranger") / "key")


@pytest.fixture
def fleet(made: Fleet, tmp_path: Path) -> Fleet:
    """A copy of it that a test may change."""
    return copy_of(made, tmp_path / "store")


def copy_of(fleet: Fleet, folder: Path) -> Fleet:
    shutil.copytree(fleet.folder, folder)
    return fleet._replace(url=f"file://{folder}", folder=folder)


def served(fleet: Fleet, said: list[str]) -> dict[Name, bytes]:
    """What a program gets of the keys that the signer has pushed."""
    tier = fleet.tier(said)
    found = {name: tier.get(*name) for name in fleet.entries}
    return {name: entry.data for name, entry in found.items() if entry is not None}


def replaced(fleet: Fleet, name: Name, data: bytes) -> None:
    """Somebody who can write to the store puts other bytes in place of an entry, with the right digest."""
    kind, a_key = name
    with fleet.open() as remote:
        remote.put(kind, SPACES[0] if kind is EXECUTABLES else "", a_key, data, replace=True)


def test_what_a_signer_has_pushed(fleet: Fleet) -> None:
    """All of it is served, of both pushes, without a word; what nobody has pushed is a miss."""
    said: list[str] = []
    assert served(fleet, said) == fleet.entries and len(fleet.manifests()) == 2
    assert fleet.tier(said).get(EXECUTABLES, key(77)) is None and said == []


@pytest.mark.full
def test_a_real_store(made: Fleet, tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3: what was signed is served to who may only read, and what was replaced is not."""
    for name, value in s3.writer.items():
        monkeypatch.setenv(name, value)
    fleet = made._replace(url=f"s3://jcache/signed-{tmp_path.name}")
    with fleet.open() as remote:
        pushed(populated(tmp_path / "root", count=3), remote, sign=partial(sign, key_path=fleet.key))
    replaced(fleet, (EXECUTABLES, key(0)), content(EXECUTABLES, key(0), build=1))
    for name, value in s3.reader.items():
        monkeypatch.setenv(name, value)
    said: list[str] = []
    assert served(fleet, said).keys() == fleet.entries.keys() - {(EXECUTABLES, key(0))}
    assert len(said) == 1 and "has other bytes than its signer has pushed" in said[0]


def test_what_nobody_has_signed(fleet: Fleet) -> None:
    """Entries of an unsigned push are misses, told once; those of the signer are served."""
    replaced(fleet, (EXECUTABLES, key(77)), content(EXECUTABLES, key(77)))
    said: list[str] = []
    tier = fleet.tier(said)
    assert all(tier.get(EXECUTABLES, key(77)) is None for _ in range(3))
    assert tier.get(EXECUTABLES, key(0)) is not None
    (sentence,) = said
    assert key(77) in sentence and "2 of 2 manifests count" in sentence and "--sign" in sentence
    open_tier = RemoteTier(fleet.url, namespace=lambda: SPACES[0], warn=said.append)
    assert open_tier.get(EXECUTABLES, key(77)) is not None


@pytest.mark.parametrize("kind", Kind)
def test_other_bytes(fleet: Fleet, kind: Kind) -> None:
    """Sound bytes with the right digest that the signer has not pushed under this key are a miss, told once."""
    names = sorted(name for name in fleet.entries if name[0] is kind)
    replaced(fleet, names[0], content(*names[0], build=1))
    replaced(fleet, names[1], fleet.entries[names[0]])
    said: list[str] = []
    assert served(fleet, said).keys() == fleet.entries.keys() - set(names[:2])
    assert len(said) == 1 and "has other bytes than its signer has pushed" in said[0]


@pytest.mark.parametrize("is_renamed", [False, True])
def test_a_changed_manifest(fleet: Fleet, is_renamed: bool) -> None:
    """A manifest that was edited vouches for nothing, under its name or under its new digest's."""
    name = (EXECUTABLES, key(0))
    other = content(*name, build=1)
    replaced(fleet, name, other)
    for file in fleet.manifests():
        text = file.read_bytes().replace(digest(fleet.entries[name]).encode(), digest(other).encode())
        changed = file.with_name(digest(text).partition(":")[2] + ".json") if is_renamed else file
        changed.write_bytes(text)
        if changed != file:
            shutil.copy(f"{file}.sig", f"{changed}.sig")
    assert name not in served(fleet, [])


def test_a_stranger_signs(fleet: Fleet, stranger: Path) -> None:
    """The signature of a key that is not listed counts as none, and so does a signature that is none."""
    for number, file in enumerate(fleet.manifests()):
        Path(f"{file}.sig").write_bytes(sign(file.read_bytes(), stranger) if number else b"none")
    said: list[str] = []
    assert served(fleet, said) == {}
    assert len(said) == 1 and "0 of 2 manifests count" in said[0]


def test_no_ssh_keygen(fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where signatures cannot be checked, everything is a miss, and one sentence says what to install."""
    monkeypatch.setenv("PATH", str(tmp_path))
    said: list[str] = []
    assert served(fleet, said) == {}
    assert len(said) == 1 and "install OpenSSH" in said[0]


@pytest.mark.full
def test_what_it_costs(made: Fleet, tmp_path: Path) -> None:
    """To read ten manifests of 1,000 entries and to check their signatures takes a third of a second of CPU time."""
    fleet = made._replace(url=f"file://{tmp_path}/store")
    with fleet.open() as remote:
        for number in range(10):
            entries = sorted(key(1000 * number + each) for each in range(1000))
            items = tuple(Item(EXECUTABLES, each, 150_000, digest(each.encode()), NOW, NOW) for each in entries)
            manifest = Manifest(jcache="0", root="/r", directory="/r", items=items)
            write_manifest(remote, manifest, partial(sign, key_path=fleet.key))
    costs = []
    for _ in range(3):
        said, before = list[str](), _cpu_s()
        tier = fleet.tier(said)
        assert tier.get(EXECUTABLES, key(9999)) is None
        costs.append(_cpu_s() - before)
        assert tier._signed is not None
        assert all(tier._signed.digests(EXECUTABLES, key(number)) for number in range(10_000)) and said == []
    print(f"\n10 manifests of 1,000 entries: {min(costs):.2f} s of CPU time")
    assert min(costs) < 2  # on a machine that is busy


def _cpu_s() -> float:
    """The CPU time of this process and of its children that have ended."""
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def test_what_cannot_be_required(made: Fleet) -> None:
    """Plain HTTP cannot list what was signed, which one sentence says."""
    with pytest.raises(InvalidValue, match="Signatures cannot be required of http://here/x, which is plain HTTP"):
        RemoteTier("http://user:secret@here/x?y", signers=made.signers, warn=print)


def test_it_is_read_once(fleet: Fleet, tmp_path: Path) -> None:
    """A program that runs knows what was signed at its first request; the next one knows of later pushes."""
    tier = fleet.tier([])
    assert tier.get(EXECUTABLES, key(0)) is not None
    with fleet.open() as remote:
        later = populated(tmp_path / "later", count=5)
        pushed(later, remote, sign=partial(sign, key_path=fleet.key))
    assert tier.get(EXECUTABLES, key(4)) is None
    assert fleet.tier([]).get(EXECUTABLES, key(4)) is not None


def test_threads_wait_for_the_one_that_reads(fleet: Fleet) -> None:
    """Threads that ask at once all get their entries, although one of them alone reads the manifests."""
    tier, names, found = fleet.tier([]), sorted(fleet.entries), dict[Name, Any]()
    together = Barrier(len(names))

    def ask(name: Name) -> None:
        together.wait()
        found[name] = tier.get(*name)

    threads = [Thread(target=ask, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[name].data == fleet.entries[name] for name in names)


def test_more_manifests_than_are_read(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest count, so many and so large, and the others do not."""
    first, second = fleet.manifests()
    os.utime(first, ns=(0, 0))
    listed = {name for name, _ in entries_of(second.read_bytes())}
    assert 0 < len(listed) < len(fleet.entries)
    monkeypatch.setattr(remote_signatures, "_MOST_MANIFESTS", 1)
    assert served(fleet, []).keys() == listed
    monkeypatch.undo()
    monkeypatch.setattr(remote_signatures, "_MOST_BYTES", second.stat().st_size)
    assert served(fleet, []).keys() == listed


def test_who_requires_signatures_waits_for_nobody(fleet: Fleet) -> None:
    """A program that stores claims nothing, since what others store meanwhile has no signature."""
    tier = fleet.tier([], writes=True)
    assert tier.get(EXECUTABLES, key(77)) is None
    tier.offer(EXECUTABLES, key(77), content(EXECUTABLES, key(77)), None)
    tier.flush(60)
    with fleet.open() as remote:
        assert remote.exists(EXECUTABLES, SPACES[0], key(77))
        assert not list(remote.transport.objects(CLAIMS))
    assert fleet.tier([]).get(EXECUTABLES, key(77)) is None


def test_a_manifest_is_read_as_the_archive_s_codec_reads_it(fleet: Fleet) -> None:
    """Both see the same entries and digests; a manifest of another version is read by neither."""
    assert remote_signatures.SCHEMA_VERSION == SCHEMA_VERSION
    with fleet.open() as remote:
        for stored in read_manifests(remote).usable:
            data = encode(stored.manifest)
            expected = [((item.kind, item.key), item.digest) for item in stored.manifest.items]
            assert list(entries_of(data)) == expected != []
            with pytest.raises(ValueError):
                list(entries_of(data.replace(b'"schema_version":2', b'"schema_version":3')))


FAULTS: dict[str, Callable[[Any], None]] = {"503": answering(503), "403": answering(403), "hanging": hanging}


@pytest.mark.parametrize("fault", ["refusing", *FAULTS])
def test_a_store_that_fails(made: Fleet, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Manifests that cannot be read are misses, told once, at the cost of two requests or of one deadline."""
    asked = list[int]()
    monkeypatch.setattr(remote_request, "_UNTIL_HEADERS_S", 0.5)

    def check(place: str) -> None:
        for name, value in credentials(f"http://{place}", "name", "secret").items():
            monkeypatch.setenv(name, value)
        said: list[str] = []
        tier = RemoteTier("s3://bucket/x", signers=made.signers, namespace=lambda: SPACES[0], warn=said.append)
        assert all(tier.get(kind, key(number)) is None for kind in Kind for number in range(9))
        assert len(said) == 1 and "s3://bucket/x" in said[0], said

    if fault == "refusing":
        check(refusing())
        return

    def serve(connection: Any) -> None:
        asked.append(1)
        FAULTS[fault](connection)

    with faulty_server(serve) as place:
        check(place)
    assert len(asked) <= 2, "the circuit breaker leaves the store alone"


# An attacker who can write to the store, and has no key


class Attack:
    """Changes the objects of a store at random; never reads the signer's key."""

    def __init__(self, fleet: Fleet, stranger: Path, chance: Random) -> None:
        self._fleet = fleet
        self._stranger = stranger
        self._chance = chance

    def _entry(self) -> Path:
        """The object of an entry."""
        return self._chance.choice(sorted(self._fleet.folder.glob(f"v1/*/**/*{ENTRY_SUFFIX}")))

    def _manifest(self) -> Path:
        """A manifest; if all are gone, a name that one could have."""
        return self._chance.choice(self._fleet.manifests() or [self._fleet.folder / MANIFESTS / "0.json"])

    @staticmethod
    def _write(entry: Path, data: bytes) -> None:
        """Store bytes with their digest."""
        entry.write_bytes(data)
        Path(digest_name(str(entry))).write_text(f"digest {digest(data)}\n")

    @staticmethod
    def _copy(one: Path, other: Path) -> None:
        if one.exists() and one != other:
            shutil.copy(one, other)

    def copy_entry(self) -> None:
        self._write(self._entry(), self._entry().read_bytes())

    def swap_entries(self) -> None:
        one, other = self._entry(), self._entry()
        first, second = one.read_bytes(), other.read_bytes()
        self._write(one, second)
        self._write(other, first)

    def replace_entry(self) -> None:
        entry = self._entry()
        kind, a_key = Kind(entry.relative_to(self._fleet.folder).parts[1]), entry.name.removesuffix(ENTRY_SUFFIX)
        self._write(entry, content(kind, a_key, build=self._chance.randint(1, 3)))

    def flip_bit(self) -> None:
        entry = self._entry()
        data = bytearray(entry.read_bytes())
        data[self._chance.randrange(len(data))] ^= 1
        self._write(entry, bytes(data))

    def edit_manifest(self) -> None:
        file = self._manifest()
        if file.exists():
            self._edit(file, is_renamed=self._chance.random() < 0.5)

    def edit_all_manifests(self) -> None:
        """Let every manifest list what the store has now, under the name that such a manifest has."""
        for file in self._fleet.manifests():
            self._edit(file, is_renamed=True)

    def _edit(self, file: Path, *, is_renamed: bool) -> None:
        """Let a manifest list what the store has now, with a signature of before or of a stranger."""
        text = file.read_bytes()
        for (kind, a_key), data in self._fleet.entries.items():
            entry = self._fleet.folder / entry_name(kind, SPACES[0] if kind is EXECUTABLES else "", a_key)
            text = text.replace(digest(data).encode(), digest(entry.read_bytes()).encode())
        renamed = file.with_name(digest(text).partition(":")[2] + ".json") if is_renamed else file
        renamed.write_bytes(text)
        if self._chance.random() < 0.5:
            Path(f"{renamed}.sig").write_bytes(sign(text, self._stranger))
        else:
            self._copy(Path(f"{file}.sig"), Path(f"{renamed}.sig"))

    def remove_manifest(self) -> None:
        file = self._manifest()
        self._chance.choice([file, Path(f"{file}.sig")]).unlink(missing_ok=True)

    def duplicate_manifest(self) -> None:
        file, name = self._manifest(), f"{self._chance.getrandbits(256):064x}.json"
        self._copy(file, file.with_name(name))
        self._copy(Path(f"{file}.sig"), file.with_name(f"{name}.sig"))

    def move_signature(self) -> None:
        self._copy(Path(f"{self._manifest()}.sig"), Path(f"{self._manifest()}.sig"))


STEPS: Final = sorted(name for name in vars(Attack) if not name.startswith("_"))


@pytest.mark.full
@pytest.mark.whole
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.sampled_from(STEPS), min_size=1, max_size=6), seed=st.integers(0, 1 << 32))
def test_an_attacker_without_a_key(
    made: Fleet, stranger: Path, tmp_path_factory: pytest.TempPathFactory, steps: list[str], seed: int
) -> None:
    """Whatever is done to the objects of a store, each entry that a program keeps is as its signer has pushed it."""
    path = tmp_path_factory.mktemp("attack")
    fleet = copy_of(made, path / "store")
    attack = Attack(fleet, stranger, Random(seed))
    for step in (*steps, "edit_all_manifests"):
        getattr(attack, step)()
    assert served(fleet, []).items() <= fleet.entries.items()
    for name, entry in kept_by_run(fleet, create_root(path / "root")).items():
        assert entry == fleet.entries[EXECUTABLES, name]


def kept_by_run(fleet: Fleet, root: Root) -> dict[str, bytes]:
    """The executables that `jcache run` keeps of a store: one is asked for, and the others are fetched beforehand."""
    keys = [a_key for kind, a_key in sorted(fleet.entries) if kind is EXECUTABLES]

    def opens(platforms: Any, namespace: Any, warn: Any) -> RemoteTier:
        return RemoteTier(fleet.url, signers=fleet.signers, platforms=platforms, namespace=namespace, warn=warn)

    with closing(CheckedReads(root, opens, expected=lambda remote: keys)) as reads:
        reads.set_program("", SPACES[0].split("_"))
        for a_key in keys:
            reads.get(a_key)
    files = root.directory(EXECUTABLES).glob(f"*{ENTRY_SUFFIX}")
    return {file.name.removesuffix(ENTRY_SUFFIX): file.read_bytes() for file in files}


def test_what_run_keeps(fleet: Fleet) -> None:
    """Without an attacker, `jcache run` keeps all executables of the signer, asked for and fetched beforehand."""
    kept = kept_by_run(fleet, create_root(fleet.folder.parent / "root"))
    assert kept == {a_key: data for (kind, a_key), data in fleet.entries.items() if kind is EXECUTABLES}


def test_names(made: Fleet) -> None:
    """The tests look for the objects where pushes have stored them."""
    for kind, a_key in made.entries:
        assert (made.folder / entry_name(kind, SPACES[0] if kind is EXECUTABLES else "", a_key)).exists()
