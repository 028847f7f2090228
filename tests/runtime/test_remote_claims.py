"""The first host that lacks an executable claims it, and the others wait as long as the claim lives."""

import gc
import threading
import time
from pathlib import Path

import pytest

from jcache.remote import open_remote
from jcache.remote.client import Remote
from jcache.remote.names import CLAIMS, claim_name
from jcache.runtime import remote_claims
from jcache.runtime.remote_claims import Claims
from tests.helpers.entries import key
from tests.helpers.waiting import until

SPACE = "0.10.2_cpu_cpu"


def test_one_of_several_takes_it(remote: Remote) -> None:
    """A claim is one host's until it is released, and then anybody's."""
    one, other = Claims(remote), Claims(open_remote(str(remote)))
    assert one.take(SPACE, key(1), 7) and not other.take(SPACE, key(1), 7) and other.take(SPACE, key(2), 7)
    assert other.text(SPACE, key(1)) is not None and other.text(SPACE, key(3)) is None
    one.release(claim_name(SPACE, key(1)), is_stored=True)
    assert other.text(SPACE, key(1)) is None and other.take(SPACE, key(1), 7)
    assert not one.take(SPACE, key(1), 7) and one.take(SPACE, key(1), 7, over=True)
    for number in (1, 2):
        one.release(claim_name(SPACE, key(number)), is_stored=True)
        other.forget(claim_name(SPACE, key(number)))
    if remote.can_list:
        assert not [found for batch in remote.transport.objects(CLAIMS) for found in batch]


def test_its_text_changes_while_it_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a host compiles and uploads the text changes, and no longer; another claim begins it anew."""
    monkeypatch.setattr(remote_claims, "_BEAT_S", 0.05)
    claims = Claims(open_remote((tmp_path / "store").as_uri()))
    for number in (1, 2):
        claims.take(SPACE, key(number), 7)
        first = claims.text(SPACE, key(number))
        until(lambda number=number, first=first: claims.text(SPACE, key(number)) != first)  # type: ignore[misc]
        name = claims.begin_to_send(SPACE, key(number))
        assert name == claim_name(SPACE, key(number)) and claims.of_thread() == []
        later = claims.text(SPACE, key(number))
        until(gc.isenabled)  # all the time, but while it beats
        until(lambda number=number, later=later: claims.text(SPACE, key(number)) != later)  # type: ignore[misc]
        claims.forget(name)
        until(lambda: not claims._is_beating)
        last = claims.text(SPACE, key(number))
        time.sleep(0.3)
        assert claims.text(SPACE, key(number)) == last
    assert claims.begin_to_send(SPACE, key(9)) == ""


def test_claims_are_a_threads(tmp_path: Path) -> None:
    """A thread that has compiled releases its own claims, and not those of others or what is being uploaded."""
    claims = Claims(open_remote((tmp_path / "store").as_uri()))
    for number, thread in ((1, 7), (2, threading.get_ident()), (3, threading.get_ident())):
        assert claims.take(SPACE, key(number), thread)
    claims.begin_to_send(SPACE, key(3))
    assert claims.of_thread() == [claim_name(SPACE, key(2))]
    for number in (1, 2, 3):
        claims.release(claim_name(SPACE, key(number)), is_stored=True)
    assert claims.of_thread() == []


def test_what_was_not_stored(remote: Remote) -> None:
    """Where an executable was compiled and not stored, nobody claims it or waits for it again."""
    one, other = Claims(remote), Claims(open_remote(str(remote)))
    assert one.take(SPACE, key(1), 7) and not other.take(SPACE, key(1), 7)
    one.release(claim_name(SPACE, key(1)), is_stored=False)
    assert other.text(SPACE, key(1)) is None
    assert other.take(SPACE, key(1), 7) and one.take(SPACE, key(1), 7)
    assert one.begin_to_send(SPACE, key(1)) == "" == other.begin_to_send(SPACE, key(1))
