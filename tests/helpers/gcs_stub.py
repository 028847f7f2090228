"""Google Cloud Storage on loopback: its XML API as Google's documentation has it, never compared with the service."""

import base64
import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from threading import Lock
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.helpers.remote_servers import DirectoryHandler, web_server

BUCKET = "jcache"
ALLOWED = {"WRITER": ("GET", "HEAD", "PUT", "DELETE"), "READER": ("GET", "HEAD")}  # by bearer token
LISTING = {"list-type", "prefix", "continuation-token"}  # whatever else a listing is asked for has no model here


class GcsObject(NamedTuple):
    """An object: its bytes, the headers that it was stored with, and when."""

    data: bytes
    headers: Mapping[str, str]
    written: datetime

    @property
    def etag(self) -> str:
        return f'"{hashlib.md5(self.data).hexdigest()}"'


class GcsHandler(DirectoryHandler):
    """Objects of one bucket, in memory: GET, HEAD, PUT, DELETE, and version 2 of the listing."""

    objects: dict[str, GcsObject]
    lock: Lock
    page: int

    def tell(self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | dict(headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def error(self, status: int, code: str) -> None:
        self.tell(status, f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code></Error>".encode())

    def treat(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.log.append(f"{self.command} {self.path}")
        bucket, _, name = unquote(urlsplit(self.path).path).lstrip("/").partition("/")
        methods = ALLOWED.get(self.headers.get("Authorization", "").removeprefix("Bearer "))
        with self.lock:
            if methods is None:
                self.error(401, "AuthenticationRequired")
            elif self.command not in methods:
                self.error(403, "AccessDenied")
            elif bucket != BUCKET:
                self.error(404, "NoSuchBucket")
            elif self.command == "PUT":
                self.store(name, body)
            elif not name:
                self.show({key: values[0] for key, values in parse_qs(urlsplit(self.path).query).items()})
            elif name not in self.objects:
                self.error(404, "NoSuchKey")
            elif self.command == "DELETE":
                del self.objects[name]
                self.tell(204)
            else:
                self.send(self.objects[name])

    do_GET = do_HEAD = do_PUT = do_DELETE = treat

    def store(self, name: str, body: bytes) -> None:
        """Store an object; ``x-goog-if-generation-match: 0`` holds while there is none."""
        condition = self.headers.get("x-goog-if-generation-match")
        if condition not in (None, "0"):
            return self.error(400, "InvalidArgument")
        if condition == "0" and name in self.objects:
            return self.error(412, "PreconditionFailed")
        kept = {key: text for key, text in self.headers.items() if key.startswith(("x-goog-meta-", "content-type"))}
        self.objects[name] = GcsObject(body, kept, datetime.now(UTC))
        return self.tell(200, headers={"ETag": self.objects[name].etag})

    def send(self, found: GcsObject) -> None:
        told = {"ETag": found.etag, "Last-Modified": format_datetime(found.written, usegmt=True), **found.headers}
        span = self.headers.get("Range")
        if span is None:
            return self.tell(200, found.data, told)
        first, last = map(int, span.removeprefix("bytes=").split("-"))
        if first >= len(found.data):
            return self.error(416, "InvalidRange")
        part, size = found.data[first : last + 1], len(found.data)
        return self.tell(206, part, told | {"Content-Range": f"bytes {first}-{first + len(part) - 1}/{size}"})

    def show(self, query: Mapping[str, str]) -> None:
        """List the objects below a prefix in the order of their names, a page at a time."""
        if query.get("list-type") != "2" or query.keys() - LISTING:
            return self.error(400, "InvalidArgument")
        after = base64.b64decode(query.get("continuation-token", "")).decode()
        names = sorted(each for each in self.objects if each.startswith(query.get("prefix", "")) and each > after)
        shown, is_cut = names[: self.page], len(names) > self.page
        text = f"<Name>{BUCKET}</Name><IsTruncated>{str(is_cut).lower()}</IsTruncated>"
        if is_cut:
            text += f"<NextContinuationToken>{base64.b64encode(shown[-1].encode()).decode()}</NextContinuationToken>"
        for name in shown:
            data, _, written = self.objects[name]
            told = {"Key": escape(name), "LastModified": f"{written:%Y-%m-%dT%H:%M:%S.%fZ}", "Size": len(data)}
            told["ETag"] = escape(self.objects[name].etag)
            text += "<Contents>" + "".join(f"<{tag}>{each}</{tag}>" for tag, each in told.items()) + "</Contents>"
        space = "http://doc.s3.amazonaws.com/2006-03-01"
        return self.tell(200, f"<ListBucketResult xmlns='{space}'>{text}</ListBucketResult>".encode())


class GcsServer(NamedTuple):
    """A stub that runs: its URL, its objects by name, and the requests that it has had."""

    url: str
    objects: dict[str, GcsObject]
    log: list[str]

    def environment(self, token: str = "WRITER") -> dict[str, str]:
        """Return the environment of a process that uses it."""
        return {"GOOGLE_BASE_URL": self.url, "GOOGLE_BEARER_TOKEN": token}


@contextmanager
def gcs_stub(directory: Path, page: int = 1000) -> Iterator[GcsServer]:
    """Run a stub for the block, which lists so many objects at once."""
    objects: dict[str, GcsObject] = {}
    with web_server(directory, GcsHandler, objects=objects, lock=Lock(), page=page) as server:
        yield GcsServer(server.url, objects, server.log)
