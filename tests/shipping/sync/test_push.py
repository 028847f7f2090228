"""A push stores what the store lacks, whole and once, and a manifest of it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from jcache.errors import InvalidValue, RemoteUnavailable
from jcache.formats.digest import digest
from jcache.formats.envelope import read_header
from jcache.layout import Kind, Root
from jcache.remote.client import Remote, open_remote
from jcache.remote.names import entry_name
from jcache.runtime.worlds.comparisons import Comparisons, every_comparison
from jcache.runtime.worlds.world import World
from jcache.shipping.exporter.selection import ExportRequest
from jcache.shipping.sync.manifests import read_manifests
from jcache.shipping.sync.push import PushOutcome, PushResult, execute_push, plan_push
from jcache.store.roots import create_root
from jcache.store.store import Store
from tests.helpers.entries import add, key
from tests.helpers.imports import content, facts, populated
from tests.helpers.phasic_caches import make_cache, open_cache
from tests.helpers.remote_copies import SPACES, pulled, pushed
from tests.helpers.remote_servers import DirectoryHandler, web_server


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return populated(tmp_path / "root", count=3)


def place(kind: Kind, a_key: str) -> tuple[Kind, str, str]:
    return kind, SPACES[0] if kind is Kind.EXECUTABLES else "", a_key


def test_everything_arrives(root: Root, remote: Remote) -> None:
    """Every entry is stored with its bytes, and a second push finds all of them there."""
    before = facts(root)
    result = pushed(root, remote)
    assert result.outcomes == dict.fromkeys(before, PushOutcome.NEW)
    assert result.bytes == sum(len(fact.data) for fact in before.values())
    assert {name: remote.get(*place(*name)) for name in before} == {name: fact.data for name, fact in before.items()}
    again = pushed(root, remote)
    assert again.outcomes == dict.fromkeys(before, PushOutcome.PRESENT) and again.bytes == 0
    if remote.can_list:
        (stored,) = read_manifests(remote).usable
        assert {(item.kind, item.key) for item in stored.manifest.items} == set(before)


def test_a_selection(root: Root, tmp_path: Path) -> None:
    """Only what is selected goes, and what is there already is not read again."""
    store = open_remote(f"file://{tmp_path}/store")
    assert set(pushed(root, store, keys=(key(1),)).outcomes) == {(Kind.EXECUTABLES, key(1))}
    result = pushed(root, store)
    assert result.count(PushOutcome.PRESENT) == 1 and result.count(PushOutcome.NEW) == 8
    assert len(read_manifests(store).usable) == 2


def test_other_builds_and_torn_objects(root: Root, tmp_path: Path) -> None:
    """Another build of the store stays; an object that has not all its bytes is replaced."""
    store = open_remote(f"file://{tmp_path}/store")
    other, torn = place(Kind.EXECUTABLES, key(1)), place(Kind.EXECUTABLES, key(2))
    theirs = content(Kind.EXECUTABLES, key(1), 7) + b""
    store.put(*other, theirs)
    mine = content(Kind.EXECUTABLES, key(2))
    store.put(*torn, mine)
    store.transport.put(entry_name(*torn), mine[:-1], {}, replace=True)
    result = pushed(root, store)
    assert result.outcomes[Kind.EXECUTABLES, key(1)] is PushOutcome.DIFFERENT and store.get(*other) == theirs
    assert result.outcomes[Kind.EXECUTABLES, key(2)] is PushOutcome.REPLACED and store.get(*torn) == mine


@pytest.mark.parametrize("remote", ["gs"], indirect=True)
def test_objects_without_digests(root: Root, remote: Remote) -> None:
    """What plain JAX has stored, or a copy without metadata, gets its digest from the next push."""
    bare, whole = place(Kind.EXECUTABLES, key(1)), place(Kind.TRACES, key(1001))
    remote.transport.put(entry_name(*bare), content(Kind.EXECUTABLES, key(1)), {}, replace=False)
    remote.put(*whole, content(Kind.TRACES, key(1001)))
    result = pushed(root, remote)
    assert result.outcomes[Kind.EXECUTABLES, key(1)] is PushOutcome.REPLACED and remote.get(*bare) is not None
    assert result.outcomes[Kind.TRACES, key(1001)] is PushOutcome.PRESENT and result.count(PushOutcome.NEW) == 7
    (stored,) = read_manifests(remote).usable
    assert {(item.kind, item.key) for item in stored.manifest.items} == set(facts(root))
    assert pushed(root, remote).count(PushOutcome.PRESENT) == 9 and len(read_manifests(remote).usable) == 1


def test_a_lost_race_over_plain_http(root: Root, tmp_path: Path) -> None:
    """The next push replaces the bytes of another build that two pushers at once have left beside a digest."""
    name = place(Kind.EXECUTABLES, key(1))
    with web_server(tmp_path / "store") as server:
        pushed(root, store := open_remote(server.url))
        store.transport.put(entry_name(*name), content(Kind.EXECUTABLES, key(1), 7), {}, replace=True)
        result = pushed(root, store)
        assert result.count(PushOutcome.REPLACED) == 1 and result.count(PushOutcome.PRESENT) == 8
        assert store.get(*name) == content(Kind.EXECUTABLES, key(1))


def test_damaged_entries_stay_behind(root: Root, tmp_path: Path) -> None:
    """A damaged entry is a finding, and everything else goes."""
    store = open_remote(f"file://{tmp_path}/store")
    add(root.directory(Kind.TRACES), key(50), b"no envelope", written_ns=1)
    with Store(root) as opened:
        plan = plan_push(opened, store, ExportRequest(processes=1))
        execute_push(plan, store, result := PushResult())
    assert [finding.key for finding in result.findings] == [key(50)]
    assert result.count(PushOutcome.NEW) == 9 and store.get(Kind.TRACES, "", key(50)) is None


class ChangingHandler(DirectoryHandler):
    """A server that changes two entries of a root when it is asked for them."""

    root: Root

    def do_GET(self) -> None:
        if key(1) in self.path:
            self.root.place(Kind.EXECUTABLES, key(1)).write_bytes(content(Kind.EXECUTABLES, key(1), 3))
        if key(2) in self.path:
            self.root.place(Kind.EXECUTABLES, key(2)).unlink(missing_ok=True)
        super().do_GET()


def test_entries_that_change_meanwhile(root: Root, tmp_path: Path) -> None:
    """What is not as it was surveyed does not go."""
    with web_server(tmp_path / "store", ChangingHandler, root=root) as server:
        result = pushed(root, store := open_remote(server.url))
        assert result.count(PushOutcome.OMITTED) == 2 and result.count(PushOutcome.NEW) == 7
        assert not any(store.exists(*place(Kind.EXECUTABLES, key(number))) for number in (1, 2))


def test_a_store_that_fails_on_the_way(root: Root, tmp_path: Path) -> None:
    """The error says where, what was stored is whole, and the same push adds the rest."""
    (tmp_path / "store").mkdir()
    store = open_remote(f"file://{tmp_path}/store")
    (tmp_path / "store" / "v1").mkdir()
    (tmp_path / "store" / "v1" / "traces").write_text("in the way")
    with pytest.raises(RemoteUnavailable, match="Cannot write to file://"):
        pushed(root, store)
    (tmp_path / "store" / "v1" / "traces").unlink()
    again = pushed(root, store)
    assert len(again.outcomes) == 9
    assert all(store.get(*place(*name)) == fact.data for name, fact in facts(root).items())


def test_signed_manifests_name_what_was_there(root: Root, tmp_path: Path) -> None:
    """A push that signs vouches for entries that the store has with the same bytes, and for no others."""
    store = open_remote(f"file://{tmp_path}/store")
    pushed(root, store)
    theirs = content(Kind.EXECUTABLES, key(1), 7)
    store.put(*place(Kind.EXECUTABLES, key(1)), theirs, replace=True)
    result = pushed(root, store, sign=lambda data: b"signature of " + digest(data).encode())
    assert result.bytes == 0
    signed = {stored.name for stored in read_manifests(store).usable} & {
        one.name.removesuffix(".sig") for batch in store.transport.objects("v1/manifests/") for one in batch
        if one.name.endswith(".sig")
    }  # fmt: skip
    (named,) = (stored.manifest.items for stored in read_manifests(store).usable if stored.name in signed)
    assert {(item.kind, item.key) for item in named} == set(facts(root)) - {(Kind.EXECUTABLES, key(1))}
    assert pushed(root, store, sign=lambda data: b"x").bytes == 0


@pytest.mark.parametrize("sign", [None, lambda data: b"signature of " + digest(data).encode()])
def test_later_comparisons_follow(root: Root, tmp_path: Path, sign: Callable[[bytes], bytes] | None) -> None:
    """Comparisons of a trace that the store has go with the next push, once, and the next pull brings them."""
    store, target = open_remote(f"file://{tmp_path}/store"), create_root(tmp_path / "target")
    name = Kind.TRACES, key(1001)
    header = read_header(facts(root)[name].data)
    for number in range(3):
        world = World({"source a.py": f"{number}"})
        Comparisons(root, Kind.TRACES).add(name[1], header, world)
        result = pushed(root, store, sign=sign)
        assert (result.bytes > 0) == (number == 0) and len(read_manifests(store).usable) == number + 1
        pulled(store, target)
        assert len(list(every_comparison(target))) == number + 1
        assert Comparisons(target, Kind.TRACES).components(world.digest) == world.components
        assert pushed(root, store, sign=sign).count(PushOutcome.PRESENT) == 9
    assert len(read_manifests(store).usable) == 3 and set(every_comparison(target)) == set(every_comparison(root))


def test_another_programs_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries whose names are no keys are refused in a sentence that says what to do."""
    with open_cache(make_cache(tmp_path), monkeypatch) as store, pytest.raises(InvalidValue, match="push it whole"):
        plan_push(store, open_remote(f"file://{tmp_path}/store"), ExportRequest())
