"""Object stores: where endpoints and credentials come from, and what a failing one costs."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from socket import socket

import pytest

from jcache.errors import InvalidValue, JcacheError, NoCacheHere, RemoteDenied, RemoteUnavailable
from jcache.remote.address import parse_address
from jcache.remote.object_store import ObjectStore, _from_profile, _is_plain_http
from jcache.remote.transport import Timeouts
from tests.helpers.remote_servers import S3Server, answering, credentials, faulty_server, hanging, refusing
from tests.helpers.remote_stores import HURRY, QUICK


def store_at(
    monkeypatch: pytest.MonkeyPatch, endpoint: str, name: str = "WRITER", bucket: str = "jcache"
) -> ObjectStore:
    for variable, value in credentials(f"http://{endpoint}", name).items():
        monkeypatch.setenv(variable, value)
    return ObjectStore(parse_address(f"s3://{bucket}/x"), HURRY)


HEADERS = 'Content-Length: 100\r\nETag: "a"\r\nLast-Modified: Wed, 25 Nov 2026 20:00:00 GMT\r\n'
FAULTS: list[tuple[str, Callable[[socket], None], type[JcacheError], str]] = [
    ("hanging", hanging, RemoteUnavailable, "did not answer in time"),
    ("denying", answering(403), RemoteDenied, "does not allow"),
    ("failing", answering(503), RemoteUnavailable, "answers 503"),
    ("short", answering(200, HEADERS, b"x"), RemoteUnavailable, "broke off"),
    ("silent", lambda connection: None, RemoteUnavailable, "."),
    ("no http", lambda connection: connection.sendall(b"220 ftp\r\n"), RemoteUnavailable, "."),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "kind", "reason"), [each[1:] for each in FAULTS], ids=[each[0] for each in FAULTS])
def test_failing_servers(
    monkeypatch: pytest.MonkeyPatch, answer: Callable[[socket], None], kind: type[JcacheError], reason: str
) -> None:
    """Whatever a server does, each request ends within its time in an error of jcache."""
    with faulty_server(answer) as endpoint:
        store, start = store_at(monkeypatch, endpoint), time.monotonic()
        with pytest.raises(kind, match=reason):
            store.get("v1/x")
        if reason != "broke off":  # only an answer to a GET has a body that may be too short
            with pytest.raises(JcacheError):
                store.put("v1/x", b"data", {}, replace=False)
        assert time.monotonic() - start < 30


def test_a_server_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listening is an error that says so."""
    with pytest.raises(RemoteUnavailable, match="no connection could be made"):
        store_at(monkeypatch, refusing()).get("v1/x")


@pytest.mark.full
def test_credentials(monkeypatch: pytest.MonkeyPatch, s3: S3Server) -> None:
    """A reader reads and cannot write, a wrong secret does neither, and no message has a secret."""
    endpoint = s3.endpoint.removeprefix("http://")
    assert store_at(monkeypatch, endpoint).put("v1/x", b"data", {"digest": "d"}, replace=True)
    reader = store_at(monkeypatch, endpoint, "READER")
    found = reader.get("v1/x")
    assert found is not None and found.data == b"data" and found.metadata["digest"] == "d"
    with pytest.raises(RemoteDenied):
        reader.put("v1/x", b"other", {}, replace=True)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    stranger = ObjectStore(parse_address("s3://jcache/x"), QUICK)
    with pytest.raises(RemoteDenied) as caught:
        stranger.get("v1/x")
    assert "hush" not in str(caught.value)
    with pytest.raises(NoCacheHere, match="no such bucket"):
        store_at(monkeypatch, endpoint, bucket="none").get("v1/x")


def test_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS's shared files say what the environment does not."""
    (tmp_path / "credentials").write_text("[default]\naws_access_key_id=K\naws_secret_access_key=S\n[b]\nregion=r\n")
    (tmp_path / "config").write_text("[default]\nregion=eu-1\n[profile b]\nendpoint_url=http://e\n")
    files = {
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
    }
    assert _from_profile(files) == {"access_key_id": "K", "secret_access_key": "S", "region": "eu-1"}
    assert _from_profile(files | {"AWS_ACCESS_KEY_ID": "E", "AWS_REGION": "x"}) == {}
    assert _from_profile(files | {"AWS_PROFILE": "b"}) == {"region": "r", "endpoint": "http://e"}
    with pytest.raises(InvalidValue, match="AWS_PROFILE"):
        _from_profile(files | {"AWS_PROFILE": "c"})
    (tmp_path / "config").write_text("no sections")
    with pytest.raises(InvalidValue, match="cannot be read"):
        _from_profile(files)


def test_an_endpoint_without_tls_is_asked_for() -> None:
    """Plain text is spoken only where the environment names such an endpoint."""
    for name in ("AWS_ENDPOINT_URL", "AZURE_STORAGE_ENDPOINT", "GOOGLE_BASE_URL"):
        assert _is_plain_http({name: "http://127.0.0.1:1"}) and not _is_plain_http({name: "https://127.0.0.1:1"})
    assert not _is_plain_http({})


@pytest.mark.parametrize("url", ["s3://b/x", "gs://b/x", "az://b/x"])
def test_opening_asks_nothing(url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A store is opened without a request, whatever the environment has, or refused in a sentence."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    ObjectStore(parse_address(url), Timeouts())


def test_without_obstore(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the package is missing, a sentence says what to install."""
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(InvalidValue, match=r"pip install 'jcache-jax\[remote\]'"):
        ObjectStore(parse_address("s3://b/x"), Timeouts())


def test_nothing_imports_obstore_without_a_url() -> None:
    """Neither the library nor a command that names no URL imports the client."""
    code = "import sys, jcache, jcache.cli.app as a; a.run(['info', '--all']); print(set(sys.modules) & {*sys.argv})"
    done = subprocess.run(
        [sys.executable, "-c", code, "obstore", "jcache.remote"], capture_output=True, text=True, check=True
    )
    assert done.stdout.endswith("set()\n")
