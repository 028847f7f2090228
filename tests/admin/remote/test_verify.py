"""Every damaged object of a store is found, and only a repair removes any."""

from pathlib import Path

import pytest

from jcache.admin.remote.verify import verify_store
from jcache.findings import Damage
from jcache.layout import Kind
from jcache.remote.client import Remote, open_remote
from jcache.remote.names import digest_name, entry_name
from tests.helpers.entries import key
from tests.helpers.imports import content

SPACE = "0.10.2_cpu_cpu"


@pytest.fixture
def store(tmp_path: Path) -> Remote:
    """A store with a sound entry of each kind, a flipped one, a wrong one, and one whose digest is none."""
    store = open_remote(f"file://{tmp_path}/store")
    for kind in Kind:
        store.put(kind, SPACE if kind is Kind.EXECUTABLES else "", key(1), content(kind, key(1)))
    store.put(Kind.TRACES, "", key(2), content(Kind.TRACES, key(2)))
    file = tmp_path / "store" / entry_name(Kind.TRACES, "", key(2))
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    store.put(Kind.TRACES, "", key(3), content(Kind.TRACES, key(4)))
    store.put(Kind.EXECUTABLES, SPACE, key(5), b"claims nothing")
    (tmp_path / "store" / digest_name(entry_name(Kind.EXECUTABLES, SPACE, key(5)))).write_text("digest none\n")
    return store


def test_findings(store: Remote) -> None:
    """Flipped bits, contents of other keys and digests that are none are told, and nothing is changed."""
    found = verify_store(store, tuple(Kind))
    assert sorted((finding.place[2], finding.damage) for finding in found.findings) == sorted(
        [(key(2), Damage.CHANGED), (key(3), Damage.NAME), (key(5), Damage.CHANGED)]
    )
    assert not found.unclaimed and found.entries == 6 and not found.repaired
    assert len(list(store.list())) == 6
    assert verify_store(store, [Kind.GRAPHS]).findings == []


def test_repair(store: Remote) -> None:
    """A repair removes the damaged entries alone, so that the next verification finds nothing."""
    assert verify_store(store, tuple(Kind), repair=True).repaired == 3
    again = verify_store(store, tuple(Kind))
    assert not again.findings and again.entries == 3


@pytest.mark.parametrize("remote", ["gs"], indirect=True)
def test_objects_of_plain_jax(remote: Remote) -> None:
    """An object without metadata is no damage: it is counted, and stays."""
    remote.transport.put(entry_name(Kind.EXECUTABLES, SPACE, key(5)), b"claims nothing", {}, replace=False)
    found = verify_store(remote, tuple(Kind), repair=True)
    assert [place[2] for place in found.unclaimed] == [key(5)] and not found.findings and len(list(remote.list())) == 1
