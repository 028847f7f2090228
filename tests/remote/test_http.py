"""A directory of a web server as a store."""

from pathlib import Path

import pytest

from jcache.errors import InvalidValue, RemoteDenied
from jcache.remote.address import parse_address
from jcache.remote.http import WebStore
from tests.helpers.remote_servers import DirectoryHandler, web_server
from tests.helpers.remote_stores import QUICK


def test_requests(tmp_path: Path) -> None:
    """Names are paths below the address's, quoted; a put asks first whether the object is there."""
    with web_server(tmp_path / "web") as server:
        store = WebStore(parse_address(f"{server.url}/p"), QUICK)
        assert store.put("v1/a b<c>", b"data", {}, replace=False)
        assert not store.put("v1/a b<c>", b"other", {}, replace=False)
        head = store.head("v1/a b<c>")
        assert head is not None and head.bytes == 4
        assert server.log[:2] == ["HEAD /p/v1/a%20b%3Cc%3E", "PUT /p/v1/a%20b%3Cc%3E"]
        assert [path.name for path in (server.directory / "p/v1").iterdir()] == ["a b<c>"]


def test_a_server_that_takes_no_uploads(tmp_path: Path) -> None:
    """Not being allowed to write is told apart from a failure."""

    class ReadOnly(DirectoryHandler):
        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.answer(405)

    with web_server(tmp_path / "web", ReadOnly) as server, pytest.raises(RemoteDenied, match="answers 405"):
        WebStore(parse_address(server.url), QUICK).put("x", b"data", {}, replace=True)


def test_it_cannot_list(tmp_path: Path) -> None:
    """Listing and removing are refused in a sentence; removing nothing is not."""
    store = WebStore(parse_address("http://h/"), QUICK)
    store.delete([])
    for request in (lambda: store.objects("v1/"), lambda: store.delete(["x"])):
        with pytest.raises(InvalidValue, match="plain HTTP cannot"):
            request()
