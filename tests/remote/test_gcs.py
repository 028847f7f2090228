"""``gs://`` against a stub that follows what Google's documentation says of the XML API of Cloud Storage.

Nothing here was proven against Google's service. `tests/remote/test_client.py` and the tests of push and pull run with
the same stub.
"""

from collections.abc import Iterator
from pathlib import Path
from socket import socket

import pytest

from jcache.errors import NoCacheHere, RemoteDenied, RemoteUnavailable
from jcache.formats.digest import digest
from jcache.layout import Kind
from jcache.remote.address import parse_address
from jcache.remote.client import Remote, open_remote
from jcache.remote.names import entry_name
from jcache.remote.object_store import ObjectStore
from tests.helpers.entries import key
from tests.helpers.gcs_stub import BUCKET, GcsServer, gcs_stub
from tests.helpers.imports import content
from tests.helpers.remote_servers import answering, faulty_server
from tests.helpers.remote_stores import HURRY, QUICK

pytest.importorskip("obstore")

ONE = Kind.TRACES, "", key(1)
NAME = f"a/b/{entry_name(*ONE)}"  # of the object in the bucket
DATA, OTHER = (content(Kind.TRACES, key(1), build) for build in (1, 2))


@pytest.fixture
def stub(tmp_path: Path) -> Iterator[GcsServer]:
    """A stub without objects that lists two of them at once."""
    with gcs_stub(tmp_path / "gcs", page=2) as server:
        yield server


@pytest.fixture
def client(stub: GcsServer, monkeypatch: pytest.MonkeyPatch) -> Remote:
    """A client that may write."""
    return client_of(stub, monkeypatch)


def client_of(stub: GcsServer, monkeypatch: pytest.MonkeyPatch, token: str = "WRITER", bucket: str = BUCKET) -> Remote:
    for name, value in stub.environment(token).items():
        monkeypatch.setenv(name, value)
    return open_remote(f"gs://{bucket}/a/b", QUICK)


def test_whoever_stores_an_entry_second_has_lost_the_race(
    stub: GcsServer, client: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry that is there stays as it is, and that is no failure."""
    assert client.put(*ONE, DATA)
    assert not client_of(stub, monkeypatch).put(*ONE, OTHER)
    assert stub.objects[NAME].data == DATA and client.get(*ONE) == DATA
    assert [line.partition(" ")[0] for line in stub.log] == ["PUT", "PUT", "GET"]


def test_digest_and_seconds_are_metadata_of_the_object(stub: GcsServer, client: Remote) -> None:
    """An entry is one object, whose metadata have what a reader verifies and what building the entry took."""
    assert client.put(*ONE, DATA, seconds=2.5)
    assert list(stub.objects) == [NAME]
    assert stub.objects[NAME].headers == {
        "x-goog-meta-digest": digest(DATA),
        "x-goog-meta-seconds": "2.5",
        "content-type": "application/octet-stream",
    }
    assert client.find(*ONE) == (DATA, digest(DATA), 2.5)
    assert client.exists(*ONE) and client.digest(*ONE) == digest(DATA)


def test_a_listing_has_several_pages(stub: GcsServer, client: Remote) -> None:
    """All pages of a listing are read, with sizes and times, and nothing beside the prefix."""
    for number in range(5):
        client.put(Kind.TRACES, "", key(number), content(Kind.TRACES, key(number)))
    stub.objects[NAME.replace("a/b/", "a/bc/")] = stub.objects[NAME]
    stub.log.clear()
    found = {one.key: one for one in client.list(Kind.TRACES)}
    assert sorted(found) == sorted(map(key, range(5))) and len(stub.log) == 3
    assert found[key(1)].bytes == len(content(Kind.TRACES, key(1)))
    milliseconds = int(stub.objects[NAME].written.timestamp() * 1000)
    assert found[key(1)].written_ns == milliseconds * 1_000_000


def test_removed_entries_are_gone(stub: GcsServer, client: Remote) -> None:
    """Entries are removed one by one, and what is gone already counts as removed."""
    client.put(*ONE, DATA)
    client.delete([ONE, (Kind.TRACES, "", key(2))])
    assert not stub.objects and client.get(*ONE) is None


@pytest.mark.parametrize("wrong", [b"", DATA[:-1], OTHER])
def test_a_damaged_object_is_not_served_and_is_overwritten(stub: GcsServer, client: Remote, wrong: bytes) -> None:
    """Bytes without their digest are a miss, and whoever has found that replaces them."""
    client.put(*ONE, DATA)
    stub.objects[NAME] = stub.objects[NAME]._replace(data=wrong)
    assert client.get(*ONE) is None
    assert client.put(*ONE, OTHER) and client.get(*ONE) == OTHER


def test_credentials(stub: GcsServer, client: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader reads and cannot write, a stranger does neither, and no message has a token."""
    client.put(*ONE, DATA)
    reader = client_of(stub, monkeypatch, "READER")
    assert reader.get(*ONE) == DATA and [one.key for one in reader.list()] == [key(1)]
    with pytest.raises(RemoteDenied, match="does not allow") as denied:
        reader.put(*ONE, OTHER)
    with pytest.raises(RemoteDenied, match="knows no such credentials") as unknown:
        client_of(stub, monkeypatch, "hush").get(*ONE)
    assert "READER" not in str(denied.value) and "hush" not in str(unknown.value)
    assert stub.objects[NAME].data == DATA


def test_a_bucket_that_is_not_there(stub: GcsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its bucket an entry is no miss, but an error that says so."""
    stranger = client_of(stub, monkeypatch, bucket="none")
    with pytest.raises(NoCacheHere, match="no such bucket"):
        stranger.get(*ONE)
    with pytest.raises(NoCacheHere, match="no such bucket"):
        stranger.put(*ONE, DATA)


@pytest.mark.parametrize(
    "account",
    [
        '{"private_key": "hush"',
        '{"private_key": "hush", "client_email": "b"}',
        '{"private_key": "hush", "client_email": "b", "private_key_id": "c"}',
    ],
)
def test_a_service_account_that_cannot_be_read(account: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message tells to check the credentials, and has none of them."""
    (tmp_path / "account.json").write_text(account)
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(tmp_path / "account.json"))
    with pytest.raises(RemoteDenied, match="credentials in the environment cannot be read") as caught:
        open_remote("gs://b/x")
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_has_too_much_to_do(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A status that asks for patience is tried again, and then an error that names it."""
    tries = list[int]()

    def busy(connection: socket) -> None:
        tries.append(status)
        answering(status)(connection)

    with faulty_server(busy) as endpoint:
        monkeypatch.setenv("GOOGLE_BASE_URL", f"http://{endpoint}")
        monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "WRITER")
        store = ObjectStore(parse_address(f"gs://{BUCKET}"), HURRY)
        with pytest.raises(RemoteUnavailable, match=f"answers {status}"):
            store.put("v1/x", b"data", {}, replace=False)
    assert len(tries) == 1 + HURRY.retries
