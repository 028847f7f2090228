"""Fixtures: stores of each sort, as clients see them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from jcache.remote.client import Remote, open_remote
from jcache.remote.transport import Timeouts
from tests.helpers.azurite import CONTAINER, azurite
from tests.helpers.gcs_stub import BUCKET, gcs_stub
from tests.helpers.remote_servers import BazelHandler, S3Server, nginx, seaweed, web_server

QUICK = Timeouts(connect_s=5, request_s=20, retries=1)
HURRY = Timeouts(connect_s=0.5, request_s=0.5, retries=1)  # for servers that are meant to fail
SORTS = ["file", "http", "bazel", "nginx", "gs", *(pytest.param(one, marks=pytest.mark.full) for one in ("s3", "az"))]


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A SeaweedFS of the whole session."""
    with seaweed(tmp_path_factory.mktemp("weed")) as server:
        yield server


@pytest.fixture(scope="session")
def az(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of users of an Azurite of the whole session."""
    with azurite(tmp_path_factory.mktemp("azurite")) as environment:
        yield environment


@pytest.fixture(params=SORTS)
def remote(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Remote]:
    """An empty store of each sort."""
    is_bazel = request.param == "bazel"
    if request.param == "file":
        with open_remote(f"file://{tmp_path}/store") as opened:
            yield opened
        return
    if request.param in ("s3", "az"):
        running = request.getfixturevalue(request.param)
        for name, value in (running.writer if request.param == "s3" else running).items():
            monkeypatch.setenv(name, value)
        bucket = "jcache" if request.param == "s3" else CONTAINER
        with open_remote(f"{request.param}://{bucket}/{tmp_path.parent.name}/{tmp_path.name}") as opened:
            yield opened
        return
    if request.param == "gs":
        with gcs_stub(tmp_path / "gcs") as stub:
            for name, value in stub.environment().items():
                monkeypatch.setenv(name, value)
            with open_remote(f"gs://{BUCKET}/a/b") as opened:
                yield opened
        return
    if request.param == "nginx":
        made = nginx(tmp_path / "nginx")
    elif is_bazel:
        made = web_server(tmp_path / "web", BazelHandler, scheme="bazel+http")
    else:
        made = web_server(tmp_path / "web")
    with made as server, open_remote(f"{server.url}/a/b" if not is_bazel else server.url) as opened:
        yield opened
