"""bazel-remote as a store: bytes under their digest, records that it accepts."""

from pathlib import Path

from jcache.remote.address import parse_address
from jcache.remote.bazel import BazelCache
from tests.helpers.remote_servers import BazelHandler, web_server
from tests.helpers.remote_stores import QUICK


def test_records(tmp_path: Path) -> None:
    """Bytes and record are where bazel-remote has them, and an object whose bytes it has evicted is absent."""
    with web_server(tmp_path / "web", BazelHandler) as server:
        cache = BazelCache(parse_address(f"bazel+{server.url}"), QUICK)
        for data, metadata in ((b"", {}), (b"x" * 300_000, {"digest": "d", "seconds": "1"})):
            assert cache.put("v1/x", data, metadata, replace=True)
            assert cache.get("v1/x") == (data, metadata) and cache.head("v1/x") == (len(data), metadata)
        (before,) = (file.read_bytes() for file in (server.directory / "ac").iterdir())
        for file in (server.directory / "cas").iterdir():
            file.unlink()
        assert cache.get("v1/x") is None and cache.head("v1/x") is None and len(before) > 100


def test_strange_records(tmp_path: Path) -> None:
    """A record that holds anything else is no object."""

    class Strange(BazelHandler):
        record = b""

        def do_GET(self) -> None:
            self.answer(200, self.record)

    for record in (b"", b"\xff\xff", b"\x12\x00", b"\x12\x04\x12\x02\x0a\x00", b"html"):
        with web_server(tmp_path / "web", Strange, record=record) as server:
            assert BazelCache(parse_address(f"bazel+{server.url}"), QUICK).get("v1/x") is None
