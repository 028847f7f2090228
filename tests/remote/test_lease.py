"""One process at a time holds the lease of a store, and nobody holds it for ever."""

from pathlib import Path

import pytest

from jcache import clock
from jcache.errors import Locked
from jcache.remote.client import open_remote
from jcache.remote.lease import LEASE_S, Lease, holding
from jcache.remote.names import LEASE
from tests.helpers.entries import NOW, SECOND


@pytest.fixture(autouse=True)
def no_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "sleep", lambda seconds: None)


def test_it_excludes_others(tmp_path: Path) -> None:
    """A second holder is told who holds it and until when; afterwards it is free."""
    remote = open_remote(f"file://{tmp_path}")
    with holding(remote):
        with (
            pytest.raises(Locked, match=r"process \d+.* is pruning file://.*: try again in at most 600 s"),
            holding(remote),
        ):
            pass
        assert remote.transport.get(LEASE) is not None
    assert remote.transport.get(LEASE) is None
    with holding(remote):
        pass


def test_one_that_has_expired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A holder that died is succeeded, and does not take the lease from its successor."""
    remote = open_remote(f"file://{tmp_path}")
    monkeypatch.setattr(clock, "now_ns", lambda: NOW)
    dead = Lease(remote, "dead")
    dead.take()
    monkeypatch.setattr(clock, "now_ns", lambda: NOW + (LEASE_S + 1) * SECOND)
    with holding(remote) as lease:
        dead.give_back()
        assert remote.transport.get(LEASE) is not None
        before = remote.transport.get(LEASE)
        lease.renew()
        assert remote.transport.get(LEASE) == before
        monkeypatch.setattr(clock, "now_ns", lambda: NOW + (2 * LEASE_S - 10) * SECOND)
        lease.renew()
        assert remote.transport.get(LEASE) != before


@pytest.mark.parametrize("text", [b"", b"x", b"9" * 30 + b" somebody", b"\xff\x00"])
def test_what_is_no_lease(tmp_path: Path, text: bytes) -> None:
    """An object that says nothing sensible holds nobody up."""
    remote = open_remote(f"file://{tmp_path}")
    remote.transport.put(LEASE, text, {}, replace=False)
    with holding(remote):
        pass


def test_two_who_succeed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two that overwrite an expired lease, the later one has it."""
    remote = open_remote(f"file://{tmp_path}")
    remote.transport.put(LEASE, b"1 dead\n", {}, replace=False)
    other = Lease(remote, "other")
    monkeypatch.setattr(clock, "sleep", lambda seconds: other._write(replace=True))
    with pytest.raises(Locked, match="Another process is pruning"):
        Lease(remote, "mine").take()
