"""What a store has, as a manifest: with what pushes have recorded, and without."""

from pathlib import Path

import pytest

from jcache.admin.filters import parse_filter
from jcache.admin.remote.listing import facts_of
from jcache.errors import InvalidValue, UnknownKey
from jcache.formats.digest import digest
from jcache.layout import Kind, Root
from jcache.remote.client import Remote, open_remote
from jcache.remote.entries import RemoteEntry
from jcache.remote.names import MANIFESTS
from jcache.shipping.archive.manifest import Maker
from jcache.shipping.sync import survey
from jcache.shipping.sync.survey import PullRequest, entry_of, survey_store
from jcache.store.roots import create_root
from tests.helpers.entries import key
from tests.helpers.imports import content, facts, populated
from tests.helpers.remote_copies import SPACES, available_in, pushed


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    return open_remote(f"file://{tmp_path}/store")


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return populated(tmp_path / "root", count=3)


def test_what_a_push_has_recorded(root: Root, remote: Remote) -> None:
    """Digests, times, seconds and makers are those of the root."""
    before = facts(root)
    pushed(root, remote)
    found = survey_store(remote, PullRequest())
    assert {(item.kind, item.key): item.digest for item in found.manifest.items} == {
        name: digest(fact.data) for name, fact in before.items()
    }
    assert {(item.kind, item.key): item.recency_ns for item in found.manifest.items} == {
        name: fact.recency_ns for name, fact in before.items()
    }
    assert set(found.places.values()) == {"", SPACES[0]} and not found.unsigned


def test_what_only_the_store_tells(root: Root, remote: Remote) -> None:
    """Without manifests, names tell the makers, and a digest is asked for only where the root has the key."""
    data = content(Kind.EXECUTABLES, key(1))
    remote.put(Kind.EXECUTABLES, "0.10.2_cuda_9.0", key(1), data)
    remote.put(Kind.EXECUTABLES, "0.10.2_cpu_cpu", key(100), data)
    found = available_in(remote, root)
    items = {item.key: item for item in found.manifest.items}
    makers = {a_key: found.manifest.makers[item.maker or 0] for a_key, item in items.items()}
    assert makers == {
        key(1): Maker("cuda", "0.10.2", compute_capability="9.0"),
        key(100): Maker("cpu", "0.10.2"),
    }
    assert items[key(1)].digest == digest(data) and items[key(100)].digest == ""


@pytest.mark.parametrize("namespace", ["0.10.2_cpu_cpu", "0.10.2_cuda_9.0", "unknown_unknown_unknown", ""])
def test_a_pull_filters_by_the_facts_that_a_listing_shows(namespace: str) -> None:
    """So a filter takes what `ls --root URL` shows with it; a manifest tells the model of a CPU besides."""
    kind = Kind.EXECUTABLES if namespace else Kind.TRACES
    one = RemoteEntry(kind, namespace, key(1), 1, 1)
    assert entry_of(one, None, None)[1] == facts_of(namespace)
    device = entry_of(one, None, Maker("cpu", "0.10.2", cpu_name="zen4"))[1].device
    assert device == ("cpu zen4" if "cpu" in namespace else facts_of(namespace).device)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (PullRequest(kinds=(Kind.TRACES,)), {1000, 1001, 1002}),
        (PullRequest(filters=(parse_filter("kind=graphs"), parse_filter("size>1B"))), {2000, 2001, 2002}),
        (PullRequest(filters=(parse_filter("jaxlib=0.9"),)), set()),
        (PullRequest(keys=(key(1), key(1001)[:30])), {1, 1001}),
        (PullRequest(names=frozenset({key(2), key(77)})), {2}),
    ],
)  # fmt: skip
def test_selections(root: Root, remote: Remote, request_: PullRequest, expected: set[int]) -> None:
    """Kinds, filters, keys and the names of a run narrow what is taken."""
    pushed(root, remote)
    found = survey_store(remote, request_)
    assert {item.key for item in found.manifest.items} == set(map(key, expected))


def test_keys_that_are_not_there(root: Root, remote: Remote) -> None:
    """A key that is none of the store's, or the beginning of several, is an error."""
    pushed(root, remote)
    for text in (key(99), "jit_step"):
        with pytest.raises(UnknownKey, match="begin"):
            survey_store(remote, PullRequest(keys=(text,)))


def test_a_store_that_cannot_list(tmp_path: Path) -> None:
    """Plain HTTP is asked for what is known by key, and for nothing else."""
    from tests.helpers.remote_servers import web_server

    with web_server(tmp_path / "web") as server:
        remote = open_remote(server.url)
        remote.put(Kind.EXECUTABLES, SPACES[0], key(1), content(Kind.EXECUTABLES, key(1)))
        found = survey_store(remote, PullRequest(keys=(key(1),)), ("a_b_c", *SPACES))
        assert found.places == {(Kind.EXECUTABLES, key(1)): SPACES[0]}
        found = survey_store(remote, PullRequest(names=frozenset({key(1), key(2)})), ("a_b_c", *SPACES))
        assert found.places == {(Kind.EXECUTABLES, key(1)): SPACES[0]}
        with pytest.raises(UnknownKey, match=f"no entry {key(2)}"):
            survey_store(remote, PullRequest(keys=(key(1), key(2))), ("a_b_c", *SPACES))
        with pytest.raises(InvalidValue, match="cannot list"):
            survey_store(remote, PullRequest())


def test_manifests_of_what_is_gone(root: Root, remote: Remote, tmp_path: Path) -> None:
    """An entry that a manifest names and the store does not have is not there."""
    pushed(root, remote)
    remote.delete([(Kind.TRACES, "", key(1001))])
    assert len(survey_store(remote, PullRequest()).manifest.items) == 8
    remote.transport.delete([one.name for batch in remote.transport.objects(MANIFESTS) for one in batch])
    assert len(survey_store(remote, PullRequest()).manifest.items) == 8
    assert create_root(tmp_path / "other").path.exists()


def test_more_entries_than_a_pull_takes(root: Root, remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left out silently: too many entries are refused in a sentence."""
    pushed(root, remote)
    monkeypatch.setattr(survey, "MAX_ENTRIES", 8)
    with pytest.raises(InvalidValue, match="has 9 such entries"):
        survey_store(remote, PullRequest())
    assert len(survey_store(remote, PullRequest(kinds=(Kind.TRACES,))).manifest.items) == 3
